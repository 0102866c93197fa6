"""Options that several commands share, and the checks of their values."""

import functools
import inspect
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic.fields import FieldInfo

from ruplar.display import print_text as print_text
from ruplar.errors import UserError
from ruplar.io import writable_folder as writable_folder
from ruplar.settings import Settings

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder with benchmark files, searched before $RUPLAR_DATA, data/ and the download cache."),
]
Device = Annotated[str, typer.Option(help="Device: cpu, cuda, cuda:1 or mps. 'auto' picks the best one available.")]
Dtype = Annotated[
    Literal["auto", "float32", "bfloat16"],
    typer.Option(help="Data type of the weights; auto: float32 on a CPU, bfloat16 elsewhere."),
]
Domain = Annotated[str, typer.Option(help="Domain: a name in `ruplar list domains`, or a dotted import path.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing output file.")]
Format = Annotated[str | None, typer.Option(help="Row format of the data; detected automatically if not given.")]
ModelArg = Annotated[
    str,
    typer.Argument(
        help="Model: a folder written by `ruplar train`, or embedded:ruplar (short: embedded), embedded:cot, embedded:no_cot."
    ),
]
MethodSettings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a setting of the model's method, e.g. method.speed=2. Repeatable."),
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Run on a Ray cluster: HOST:PORT, auto on one of its nodes, or local for this machine only.",
    ),
]
Gpus = Annotated[
    float | None,
    typer.Option(
        min=0, help="With --ray: GPUs per worker, e.g. 0.25 or 1. Default: 1 if the cluster has GPUs, otherwise 0."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
Temperature = Annotated[float, typer.Option(min=0, help="Sampling temperature of the answer; 0 is greedy.")]
TopP = Annotated[float, typer.Option(help="Nucleus sampling of the answer: cumulative probability of the candidates.")]
Samples = Annotated[int, typer.Option(min=1, help="Answers sampled per question; the majority answer is used.")]
NoiseScale = Annotated[
    float | None,
    typer.Option(
        "--noise",
        min=0,
        help="Scale of the Gumbel noise on the latents. Default: 0.3 with several samples at temperature 0, otherwise 0.",
    ),
]


def options_of(settings: type[Settings]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that replaces a command's keyword-only parameter of this class by one option per field.

    An option has the field's default, bounds (`ge`, `le`) and description; `max_n` is `--max-n`.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        [place] = [p for p in signature.parameters.values() if p.annotation is settings]

        @functools.wraps(command)
        def with_options(**given: Any) -> None:
            fields = {name: given.pop(name) for name in settings.model_fields}
            command(**given, **{place.name: settings(**fields)})

        others = [p for p in signature.parameters.values() if p is not place]
        options = [_option(name, field) for name, field in settings.model_fields.items()]
        with_options.__signature__ = signature.replace(parameters=[*others, *options])  # type: ignore[attr-defined]
        return with_options

    return decorate


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    bounds = {side: getattr(bound, side) for bound in field.metadata for side in ("ge", "le") if hasattr(bound, side)}
    option = typer.Option(field.default, min=bounds.get("ge"), max=bounds.get("le"), help=field.description)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=field.annotation)


def default_noise(samples: int, noise: float | None, temperature: float) -> float:
    """Return the given noise scale, or the default: several greedy samples would otherwise be identical."""
    if noise is not None:
        return noise
    from ruplar.engine.sampling import SAMPLE_NOISE

    return SAMPLE_NOISE if samples > 1 and temperature == 0 else 0.0


def pick_device(name: str) -> str:
    """Resolve `auto` to the best available device and check any other name."""
    if name == "cpu":
        return name
    from ruplar.model.memory import usable_device

    return usable_device(name, "--device")


def check_ray(ray: str | None, gpus: float | None, replicas: str | None = None, **unused: object) -> None:
    """Reject --gpus and --replicas without a cluster, and options that have no effect on one."""
    for name, given in (("gpus", gpus), ("replicas", replicas)):
        if ray is None and given is not None:
            raise UserError(f"--{name}: needs --ray, the address of a Ray cluster.")
    for name, value in unused.items():
        if ray is not None and value:
            raise UserError(f"--{name.replace('_', '-')}: has no effect on a Ray cluster. Remove it, or --ray.")


def integers(text: str, option: str, count: int | None = None) -> list[int]:
    """Parse comma-separated non-negative integers."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if any(number < 0 for number in found):
        raise UserError(f"{option}: must be 0 or more, got {text}.")
    if not found or (count and len(found) != count):
        number = "two integers" if count else "integers"
        raise UserError(f"{option}: cannot read '{text}'. Use {number} separated by commas, e.g. 1,6.")
    return found


def sectioned_settings(pairs: Iterable[str], sections: Sequence[str], example: str) -> dict[str, dict[str, Any]]:
    """Parse `SECTION.NAME=VALUE` pairs into one dictionary per section; values are YAML."""
    from ruplar.config.text import parse

    found: dict[str, dict[str, Any]] = {section: {} for section in sections}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        section, _, name = key.strip().partition(".")
        if not equals or section not in found or not name:
            forms = " or ".join(f"{section}.NAME=VALUE" for section in sections)
            raise UserError(f"--set: cannot read '{pair}'. Write {forms}, e.g. {example}.")
        found[section][name] = parse(value, f"--set {pair}")
    return found


def method_settings(pairs: Iterable[str] | None) -> dict[str, Any]:
    """Parse `method.speed=2` into `{"speed": 2}`."""
    return sectioned_settings(pairs or (), ("method",), "method.speed=2")["method"]


def names_and_settings(words: Sequence[str], kind: str, listed: str) -> tuple[list[str], list[str]]:
    """Split arguments into names and `key=value` settings."""
    names = [word for word in words if "=" not in word]
    if not names:
        raise UserError(f"no {kind} given, only settings. `ruplar list {listed}` prints the available names.")
    return names, [word for word in words if "=" in word]


def writable_file(file: Path, force: bool, source: str = "") -> None:
    """Check that a file may be written, and is not the one that is read."""
    if source and file.exists() and file.resolve() == Path(source).resolve():
        raise UserError(f"{file}: is the input, which would be lost. Choose another output file.")
    if file.is_dir() or not file.parent.is_dir():
        what = "is a folder" if file.is_dir() else "its folder does not exist"
        raise UserError(f"{file}: {what}. Choose a file in an existing folder.")
    if file.exists() and not force:
        raise UserError(f"{file}: exists. Choose another file, or overwrite it with --force.")
    writable_folder(file.parent)


def print_json(value: Any, line: bool = False) -> None:
    """Print JSON to standard output, on a single line where several values are printed."""
    typer.echo(json.dumps(value, indent=None if line else 2, ensure_ascii=False))
