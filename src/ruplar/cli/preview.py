"""`ruplar preview`: a chain → its steps, its spans and the prior of each latent."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ruplar import plugins
from ruplar.cli.options import AsJson, Domain, Seed, print_json, sectioned_settings
from ruplar.errors import UserError

out = Console()


def preview(
    chains: Annotated[str, typer.Argument(help="A chain such as '<<20*1.20=24>>', or a file of chains.")],
    tokenizer: Annotated[
        str | None, typer.Option(help="Tokenizer: a name in `ruplar list backbones`, llama-3, a folder or a Hub name.")
    ] = None,
    number_tokens: Annotated[
        bool, typer.Option("--number-tokens", help="Add tokens for groups of digits, as backbone.number_tokens does.")
    ] = False,
    prior: Annotated[str, typer.Option(help="Prior: a name in `ruplar list priors`, or a dotted path.")] = "mixture",
    spans: Annotated[str, typer.Option(help="Spans rule: a name in `ruplar list spans`, or a dotted path.")] = "step",
    domain: Domain = "arithmetic",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Override a setting, e.g. prior.operand_share=0.3. Repeatable.")
    ] = None,
    seed: Seed = 0,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of chains shown from a file.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Show the training targets of a chain: steps, spans and priors.

    Priors are shown as the tokenizer's tokens with their probabilities.
    """
    from ruplar.model.number_tokens import with_number_tokens
    from ruplar.model.prompt import PlainText
    from ruplar.model.tokenizers import load_tokenizer, of_domain
    from ruplar.preview import preview as make_preview
    from ruplar.preview import render
    from ruplar.priors.base import PriorTable

    chosen = sectioned_settings(settings or (), ("prior", "spans", "domain"), "prior.operand_share=0.3")
    rule = _plugin("domain", domain, chosen["domain"])
    cutter = _plugin("spans", spans, chosen["spans"])
    loaded = load_tokenizer(tokenizer or of_domain(domain))
    loaded = with_number_tokens(loaded) if number_tokens else loaded
    encode = PlainText(loaded, frozenset(loaded.all_special_ids))
    table = PriorTable(_plugin("prior", prior, chosen["prior"]), encode, seed)
    how: dict[str, Any] = {"tokenizer": loaded, "domain": rule, "spans": cutter, "prior_table": table}
    shown = [make_preview(chain, **how) for chain in _chains(chains, rule, limit)]
    if as_json:
        print_json(shown[0] if len(shown) == 1 else shown)
    else:
        for one in shown:
            render(one, out)


def _plugin(section: str, name: str, settings: dict[str, Any]) -> Any:
    """Make a plug-in; a wrong setting is reported by name, as in a recipe."""
    from pydantic import ValidationError

    from ruplar.settings import explain

    kind = {"prior": "priors", "spans": "spans", "domain": "domains"}[section]
    config = plugins.load(kind, name).Config
    try:
        return plugins.make(kind, name, settings)
    except ValidationError as error:
        owner = f" of {kind.removesuffix('s')} {name}"
        raise UserError(*(explain(e, config, prefix=section, owner=owner) for e in error.errors())) from error


def _chains(text: str, domain: Any, limit: int) -> list[Any]:
    from ruplar.data.rows import SUFFIXES

    try:
        is_file = Path(text).is_file()
    except OSError:  # too long for a file name, so it is a chain
        is_file = False
    if not is_file:
        if "<<" not in text and Path(text).suffix in SUFFIXES and len(text.split()) == 1:
            raise UserError(f"{text}: no such file. Pass a file of chains, or a chain such as '<<20*1.20=24>>'.")
        return [text]
    from ruplar.data.read import read

    return [example.steps for example in read(text, domain, limit=limit, skip_bad=True).examples]
