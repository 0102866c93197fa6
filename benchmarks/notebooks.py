"""Scripts of examples/ → notebooks beside them, run once so that they show their output.

pip install nbclient nbformat ipykernel && python benchmarks/notebooks.py
"""

from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def cells(script: str) -> list[tuple[str, str]]:
    """Script → (kind, text) of each cell: its docstring, then the comment and the code of every `# %%` part."""
    about, *parts = script.split("\n# %% ")
    title, _, rest = about.strip().strip('"').strip().partition(": ")
    found = [("markdown", f"# {title}\n\n{rest[0].upper()}{rest[1:]}")]
    for part in parts:
        comment, _, code = part.partition("\n")
        found += [("markdown", comment), ("code", code.strip())]
    return found


def main() -> None:
    import nbclient
    import nbformat

    for file in sorted(EXAMPLES.glob("*.py")):
        new = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
        made = [new[kind](text, id=str(i)) for i, (kind, text) in enumerate(cells(file.read_text(encoding="utf-8")))]
        notebook = nbformat.v4.new_notebook(
            cells=made, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        )
        nbclient.NotebookClient(notebook, timeout=600, record_timing=False).execute()
        for cell in notebook.cells:  # warnings of the kernel name folders of this machine
            if cell.cell_type == "code":
                cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        nbformat.write(notebook, file.with_suffix(".ipynb"))
        print(file.with_suffix(".ipynb").name)


if __name__ == "__main__":
    main()
