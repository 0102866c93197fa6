"""`ruplar data prepare` → the chains of recipes and studies, opened and encoded where training will find them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ruplar.cli.options import AsJson, names_and_settings, no_file, print_json
from ruplar.errors import UserError, unknown

if TYPE_CHECKING:
    from ruplar.config import RunConfig
    from ruplar.train.prepare import Kept, Prepared

out = Console()


@dataclass(frozen=True)
class _Wanted:
    """One encoding: what it is called, the first recipe that has it, and the rows of a study that share it."""

    name: str
    config: RunConfig
    rows: tuple[str, ...] = ()


def prepare(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE|STUDY... [KEY=VALUE]...",
            help="Recipes and studies of `ruplar list`, or YAML files; then dotted settings of all, as training will get them.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            help="Where it is kept; runs/.encoded when left out, where training looks. For `ruplar train --output F/run`: F/.encoded."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Open and encode the chains of recipes ahead of training, without a GPU and without any weights."""
    from ruplar.data.cache import ENCODED

    names, overrides = names_and_settings(words, "recipe and no study", "recipes")
    folder = no_file(output or Path("runs") / ENCODED)
    wanted = [one for name in dict.fromkeys(names) for one in _wanted(name, overrides)]
    from ruplar.train.prepare import prepare as prepare_one

    found = []
    for one in wanted:
        done = prepare_one(one.config, folder)
        found.append(_plain(one, done))
        if not as_json:
            out.print(_told(one, done), markup=False, highlight=False, soft_wrap=True)
    if as_json:
        print_json(found)


def _wanted(name: str, overrides: Sequence[str]) -> list[_Wanted]:
    """A recipe, or every distinct encoding of a study's cells; all settings are checked before anything is opened."""
    from ruplar.config import load_recipe
    from ruplar.experiments.plan import find_study, load_study, plan

    if not _is_study(name):
        config = load_recipe(name, overrides, check_init=False)
        return [_Wanted(config.name, config)]
    from ruplar.train.prepare import encoding_of

    study = load_study(name)
    groups: dict[str, list[Any]] = {}
    for cell in plan(study, overrides, find_study(name).parent, check_init=False):
        if cell.of is None:  # the others train nothing
            groups.setdefault(encoding_of(cell.config), []).append(cell)
    rows = [(cells[0].config, tuple(dict.fromkeys(cell.label for cell in cells))) for cells in groups.values()]
    return [_Wanted(f"{study.name}: {', '.join(labels)}", config, labels) for config, labels in rows]


def _is_study(name: str) -> bool:
    """Whether a name or a file is a study's; a file is by its entries.

    Raises:
        UserError: No recipe and no study is called that.
    """
    from ruplar.config import RunConfig, recipes
    from ruplar.config.text import parse
    from ruplar.experiments.plan import Study, studies

    if name.endswith((".yaml", ".yml")):
        file = Path(name)
        if not file.is_file():
            raise UserError(f"no recipe or study file '{name}'.")
        data = parse(file.read_text(encoding="utf-8", errors="replace"), where=name)
        return isinstance(data, Mapping) and bool(
            data.keys() & (Study.model_fields.keys() - RunConfig.model_fields.keys())
        )
    if name not in (*recipes(), *studies()):
        raise UserError(
            f"{unknown('recipe or study', name, (*recipes(), *studies()))} One of your own is given by its path, FILE.yaml."
        )
    return name not in recipes()


def _told(one: _Wanted, done: Prepared) -> str:
    lines = [one.name if done.chains is None else f"{one.name}: {done.chains:,} chains, {done.seconds:.1f} s"]
    kept = (("opened", done.opened), ("encoded", done.encoded))
    lines += [f"  {what:7}  {_kept(place)}" for what, place in kept if place is not None]
    return "\n".join([*lines, *(f"  {note}" for note in done.notes)])


def _kept(place: Kept) -> str:
    return f"{place.bytes / 1e6:,.1f} MB  {place.folder}{'  was there already' if place.there else ''}"


def _plain(one: _Wanted, done: Prepared) -> dict[str, Any]:
    places = {key: asdict(place) if (place := getattr(done, key)) else None for key in ("opened", "encoded")}
    for place in places.values():
        if place is not None:
            place["folder"] = str(place["folder"])
    seconds, taken = round(done.seconds, 3), sum(place["bytes"] for place in places.values() if place is not None)
    rest = {"chains": done.chains, "seconds": seconds, "bytes": taken, **places, "notes": list(done.notes)}
    return {"name": one.name, "rows": list(one.rows), **rest}
