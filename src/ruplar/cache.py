"""The cache folder, where `ruplar fetch` puts models and `ruplar data fetch` puts data sets; nothing is downloaded here."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return `$RUPLAR_CACHE`, else `ruplar` in the user's cache folder (`$XDG_CACHE_HOME`, else ~/.cache).

    The environment is read here, not on the command line alone: a program, the command line and the processes it starts
    must find the same folder, as they do for the Hub's own cache.
    """
    if own := os.environ.get("RUPLAR_CACHE"):
        return Path(own).expanduser()
    users = os.environ.get("XDG_CACHE_HOME")
    return (Path(users).expanduser() if users else Path.home() / ".cache") / "ruplar"
