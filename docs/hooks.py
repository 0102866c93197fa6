"""mkdocs hook: write the command-line reference, list the results appendix, and drop links that leave the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


def on_config(config: Any) -> Any:
    """Add one navigation entry per generated results page."""
    pages = sorted(Path(config["docs_dir"], "results").glob("*.md"))
    for entry in config["nav"]:
        if isinstance(entry, dict) and "Results" in entry:
            entry["Results"].append({"Studies": [{page.stem: f"results/{page.name}"} for page in pages]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add cli.md, made from the commands themselves."""
    files.append(File.generated(config, "cli.md", content=cli_reference()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Render Markdown inside <details>, as GitHub does, and turn links that leave docs/ into plain text."""
    markdown = markdown.replace("<details>", '<details markdown="1">')
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]+\)", r"\1", markdown)


def cli_reference() -> str:
    """Return Markdown for every command: its help, arguments and options."""
    import typer

    from ruplar.cli import app

    root = typer.main.get_command(app)
    parts = ["# Command line", "", "Every command prints this text with `--help`.", ""]
    for path, command in _commands("ruplar", root):
        parts += [f"## `{path}`", "", (command.help or "").strip(), ""]
        rows = [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
        if rows:
            parts += ["| | default | |", "| --- | --- | --- |", *rows, ""]
    return "\n".join(parts)


def _commands(path: str, command: Any) -> Any:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        if not child.hidden:
            yield from _commands(f"{path} {name}", child)


def _row(parameter: Any) -> str:
    flags = ", ".join([*parameter.opts, *parameter.secondary_opts])
    name = flags if parameter.param_type_name == "option" else str(parameter.name).upper()
    default = "" if parameter.required or parameter.default in (None, (), []) else parameter.default
    default = "" if callable(default) else str(default)
    text = (getattr(parameter, "help", None) or "").replace("|", "\\|").replace("\n", " ")
    return f"| `{name}` | {f'`{default}`' if default else ''} | {text} |"
