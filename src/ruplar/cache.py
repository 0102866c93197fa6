"""The environment → the folder for everything ruplar downloads.

The cache is `$RUPLAR_CACHE`, else `ruplar` in the user's cache folder (`$XDG_CACHE_HOME`, else ~/.cache):

    CACHE/models/smollm2-135m-instruct/    backbones (`ruplar fetch`)
    CACHE/data/svamp-test.jsonl            benchmark files (`ruplar data fetch`)
"""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the cache folder, whether it exists or not.

    It is read from the environment, so that a program, the command line and the processes it starts agree on one folder,
    as they do for the Hub's own cache.
    """
    if own := os.environ.get("RUPLAR_CACHE"):
        return Path(own).expanduser()
    users = os.environ.get("XDG_CACHE_HOME")
    return (Path(users).expanduser() if users else Path.home() / ".cache") / "ruplar"


def data_folder() -> Path:
    """Return the folder of downloaded benchmark files, whether it exists or not."""
    return cache_folder() / "data"
