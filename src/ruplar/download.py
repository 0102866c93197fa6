"""URL → a file: streamed to FILE.partial, continued there after an interruption, and named FILE once it is complete.

Proxies are those of the environment. Requests to the Hub carry the user's token.
"""

from collections.abc import Callable
from pathlib import Path

from ruplar.errors import UserError
from ruplar.fingerprints import fingerprint

CONNECT_SECONDS = 5.0
"""How long to wait for a host to answer before it counts as unreachable."""
READ_SECONDS = 30.0
"""How long to wait for the next bytes of a download."""

Progress = Callable[..., None]
"""Called with the bytes downloaded so far, their total if it is known, and optionally which part is downloaded."""


def no_progress(done: int, total: int | None, note: str = "") -> None:
    """Report nothing."""


def responds(origin: str) -> bool:
    """Return whether a host responds in time, with any HTTP status."""
    import httpx
    from huggingface_hub.utils import get_session

    try:
        get_session().head(origin, timeout=CONNECT_SECONDS, follow_redirects=False)
    except httpx.HTTPError:
        return False
    return True


def download(url: str, file: Path, progress: Progress = no_progress, sha256: str = "") -> Path:
    """Download a file unless it exists; with `sha256`, other content is removed and is an error.

    What has arrived stays in FILE.partial after an error, and the next call continues it.
    """
    import httpx
    from huggingface_hub import constants
    from huggingface_hub.utils import build_hf_headers

    if file.exists():
        return file
    partial = file.with_name(f"{file.name}.partial")
    done = partial.stat().st_size if partial.exists() else 0
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={done}-"} if done else {})}
    headers |= build_hf_headers() if url.startswith(constants.ENDPOINT) else {}
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    try:
        with httpx.stream("GET", url, headers=headers, timeout=timeout, follow_redirects=True) as response:
            if response.status_code == 416:  # nothing was missing, or the file has changed
                partial.unlink()
                return download(url, file, progress, sha256)
            response.raise_for_status()
            done = done if response.status_code == 206 else 0
            total = done + int(response.headers.get("content-length", 0)) or None
            file.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("ab" if done else "wb") as out:
                for chunk in response.iter_bytes():
                    done += out.write(chunk)
                    progress(done, total)
    except httpx.HTTPStatusError as error:
        status = error.response
        raise UserError(f"the server returned {status.status_code} {status.reason_phrase}.") from error
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise UserError(f"no connection (tried for up to {CONNECT_SECONDS:g} s).") from error
    except httpx.HTTPError as error:
        raise UserError(f"the download broke off: {error or type(error).__name__}.") from error
    if sha256 and (found := fingerprint(partial)) != sha256:
        partial.unlink()
        raise UserError(f"its SHA-256 is {found}, not {sha256}.")
    return partial.rename(file)
