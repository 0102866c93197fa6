"""mkdocs hook: write the command-line reference, list the results appendix, name files that are not on the site, set line breaks."""

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
    """Render Markdown inside <details>, as GitHub does, and name the file instead of a link that leaves docs/."""
    markdown = markdown.replace("<details>", '<details markdown="1">')
    return re.sub(r"(\(?)\[([^\]]+)\]\(\.\./([^)#]+)[^)]*\)", _outside, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Set where lines may break, and link each figure to itself in full size, which a phone needs."""
    html = re.sub(r"<td.*?</td>", lambda cell: re.sub("<code>([^<]*)</code>", _breakable, cell[0]), html, flags=re.S)
    return re.sub("<pre.*?</pre>|<code.*?</code>|<[^>]*>|[^<]+", _unbroken, html, flags=re.S)


def _outside(link: re.Match[str]) -> str:
    before, text, file = link.groups()
    if text.strip("/") in file:
        return f"{before}`{file}`"
    return f"({text} `{file}`" if before else f"{text} (`{file}`)"


def _breakable(code: re.Match[str]) -> str:
    """Let a long name in a table break behind its points, not inside a word; a pipe is still escaped there."""
    name = re.sub("(?<=[a-z])[._=/]+(?=[a-z0-9])", r"\g<0><wbr>", code[1].replace("\\|", "|"))
    return f"<code>{name}</code>"


def _unbroken(piece: re.Match[str]) -> str:
    """Keep an option, an interval, and a number with its unit or error in one piece."""
    text = piece[0]
    if source := re.match('<img [^>]*src="([^"]*)"', text):
        return f'<a href="{source[1]}">{text}</a>'
    if text.startswith("<"):
        return re.sub(r"^<code>(?=--[\w-]+</code>)", '<code class="whole">', text)
    text = re.sub(r"(?<=\d) (?=%)| (?=[ᵃᵇ¹²³⁴⁵])", "\u00a0", text)
    text = re.sub(r"\bp (=|≤|≥|&lt;) (?=\d)", "p\u00a0\\1\u00a0", text)
    text = re.sub(r"[\d.,]+ ±[\d.]+", r'<span class="error">\g<0></span>', text)
    return re.sub(r"\[[−+\d.]+, [−+\d.]+\]|\d+(\.\d+)?e-\d", r'<span class="whole">\g<0></span>', text)


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
            parts += ["| option | default | meaning |", "| --- | --- | --- |", *rows, ""]
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
    flags = [*parameter.opts, *parameter.secondary_opts]
    names = flags if parameter.param_type_name == "option" else [str(parameter.name).upper()]
    default = "" if parameter.required or parameter.default in (None, (), []) else parameter.default
    default = "" if callable(default) else str(default)
    text = (getattr(parameter, "help", None) or "").replace("|", "\\|").replace("\n", " ")
    return f"| {', '.join(f'`{name}`' for name in names)} | {f'`{default}`' if default else ''} | {text} |"
