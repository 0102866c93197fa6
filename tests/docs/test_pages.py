"""README and docs: short where they promise to be, links and anchors resolve, commands and files that they name exist."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
from cases import cases

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
APPENDIX = ROOT / "docs" / "results"


def text_of(page: Path) -> str:
    """The page without its code blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links() -> list[tuple[Path, str]]:
    """Page and target of every relative link and image, those into the generated appendix excepted."""
    found = [(page, link) for page in PAGES for link in LINK.findall(text_of(page)) if "://" not in link]
    return [(page, link) for page, link in found if APPENDIX not in (page.parent / link).resolve().parents]


@pytest.mark.parametrize(("page", "most"), [("README.md", 120), ("docs/results.md", 240), ("CONTRIBUTING.md", 60)])
def test_a_page_is_no_longer_than_it_may_be(page, most):
    assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= most


def test_no_line_of_the_readme_outside_tables_is_wider_than_160_characters():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 160 and not line.startswith("|")] == []


def test_there_are_links_to_check():
    assert len(links()) > 40 and any(link.endswith(".svg") for _, link in links())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_and_image_of_a_page_resolves(page):
    broken = []
    for source, link in links():
        file, _, anchor = link.partition("#")
        target = (source.parent / file).resolve() if file else source
        if source == page and (not target.exists() or (anchor and anchor not in anchors(target))):
            broken.append(link)
    assert broken == []


def test_tables_inside_details_are_tables_on_the_site_too():
    pytest.importorskip("mkdocs", reason="the site was NOT tested: pip install -e '.[docs]'")

    hooks = runpy.run_path(str(ROOT / "docs" / "hooks.py"))
    for event, pairs in cases(__file__, "hooks").items():
        assert [hooks[event](given) for given, _ in pairs] == [wanted for _, wanted in pairs]


def test_the_site_names_files_that_are_not_on_it_and_breaks_lines_where_a_reader_would():
    pytest.importorskip("mkdocs", reason="the site was NOT tested: pip install -e '.[docs]'")
    hooks = runpy.run_path(str(ROOT / "docs" / "hooks.py"))
    page = (
        "A [record](../results/x.json) (and [one](../results/y.json#z)) of the [README](../README.md), [here](log.md)."
    )
    assert hooks["on_page_markdown"](page) == (
        "A record (`results/x.json`) (and one (`results/y.json`)) of the `README.md`, [here](log.md)."
    )
    assert hooks["on_page_markdown"]("([record](../results/x.json))") == "(record `results/x.json`)"
    html = "<td>2.5 ±0.1 [2.4, 2.6]</td><td><code>a\\|b.c</code></td><p>95 %, p &lt; 0.1, <code>--final</code></p><pre>5 %</pre>"
    assert hooks["on_page_content"](html) == (
        '<td><span class="error">2.5 ±0.1</span> <span class="whole">[2.4, 2.6]</span></td><td><code>a|b.<wbr>c</code></td>'
        '<p>95\u00a0%, p\u00a0&lt;\u00a00.1, <code class="whole">--final</code></p><pre>5 %</pre>'
    )
    assert hooks["on_page_content"]('<img alt="" src="x.png">') == '<a href="x.png"><img alt="" src="x.png"></a>'


def test_links_from_other_files_to_the_docs_resolve():
    """Model cards, recipes, docstrings and benchmarks name pages and anchors, too."""
    broken = []
    files = [f for folder in ("models", "benchmarks", "src") for f in (ROOT / folder).rglob("*")]
    for file in [f for f in files if f.suffix in (".md", ".py", ".yaml")]:
        for page, anchor in re.findall(r"docs/(\w+\.md)(?:#([\w-]+))?", file.read_text(encoding="utf-8")):
            target = ROOT / "docs" / page
            if not target.is_file() or (anchor and anchor not in anchors(target)):
                broken.append(f"{file.relative_to(ROOT)}: docs/{page}#{anchor}")
    assert broken == []


def test_every_study_of_the_appendix_has_its_page():
    named = set(re.findall(r"\]\(results/([\w-]+\.md)\)", text_of(ROOT / "docs" / "results.md")))
    assert named and [name for name in sorted(named) if not (APPENDIX / name).is_file()] == []


def test_glossary_terms_are_unique_and_in_order():
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.M)
    terms = [term.lower() for term in rows if term != "term"]
    assert len(terms) > 40 and len(set(terms)) == len(terms)
    keys = [re.sub(r"[^a-z0-9 ]", "", term).replace("of cot", "percent of cot") for term in terms]
    assert [key.strip() for key in keys] == sorted(key.strip() for key in keys)


def walks() -> dict[str, list[str]]:
    """The numbered lists of docs/architecture.md: heading → the files they name, in order."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    parts = re.split(r"^## ", page, flags=re.M)
    found = {part.partition("\n")[0]: re.findall(r"^\d+\. `([\w/.]+\.py)`", part, re.M) for part in parts}
    return {heading: files for heading, files in found.items() if files}


@pytest.mark.parametrize(
    ("heading", "most"), [("From a chain to the loss", 20), ("From a question to the answer", 14)]
)
def test_a_walk_is_short_and_its_files_exist(heading, most):
    files = walks()[heading]
    assert 8 <= len(set(files)) <= most
    assert [file for file in files if not (ROOT / "src" / "ruplar" / file).is_file()] == []


def commands() -> list[list[str]]:
    """Every `ruplar …` line of every code block, with what stands before it (PYTHONPATH=.) left out."""
    lines = [
        line
        for page in PAGES
        for _, block in FENCE.findall(page.read_text(encoding="utf-8"))
        for line in block.splitlines()
    ]
    parts = [part for line in lines for part in line.split("&&")]
    found = (re.match(r"\s*(?:[A-Z_]+=\S+ )*(ruplar .*)", part) for part in parts)
    return [shlex.split(match[1], comments=True) for match in found if match]


def test_every_command_of_the_docs_has_a_known_verb_and_known_options():
    import typer.main

    from ruplar.cli import app

    root = typer.main.get_command(app)
    wrong = []
    assert len(commands()) > 30
    for _, *words in commands():
        verb = root.commands.get(words[0])
        if verb is not None and hasattr(verb, "commands"):
            verb = verb.commands.get(words[1])
        known = {name for option in verb.params for name in [*option.opts, *option.secondary_opts]} if verb else set()
        if verb is None or [word for word in words if word.startswith("--") and word not in known]:
            wrong.append(" ".join(words))
    assert wrong == []
