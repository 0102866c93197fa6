"""Domain → the rule that reads a chain off question and prose: one file a packaged domain, or the domain's own `from_prose`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from ruplar import plugins
from ruplar.errors import UserError

Rule = Callable[[str, str], str | None]
"""Question and reasoning → chain, or None where the rule does not know the form."""


def rule_of(domain: str) -> Rule:
    """The rule of a domain.

    Raises:
        UserError: It has none.
    """
    known = sorted(m.name for m in pkgutil.iter_modules(__path__))
    if domain in known:
        return importlib.import_module(f"{__name__}.{domain}").from_prose
    own = getattr(plugins.load("domains", domain), "from_prose", None)
    if own is None:
        raise UserError(
            f"--by rules: domain '{domain}' has no rule. Rules are known for {', '.join(known)}; a domain of your own may "
            "define from_prose(question, reasoning). Or use --by llm."
        )
    return own
