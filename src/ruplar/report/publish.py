"""A model folder with its card → a checked list of what the Hub gets, and the upload.

huggingface_hub's own code reads the card and its results, so that the Hub understands what was checked here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruplar.errors import UserError
from ruplar.report.card import README

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")


@dataclass(frozen=True)
class Publication:
    """A checked model folder."""

    folder: Path
    repo: str  # OWNER/NAME on the Hub
    files: tuple[Path, ...]  # what is uploaded
    results: tuple[EvalResult, ...]  # the card's evaluation results, as the Hub reads them

    @property
    def megabytes(self) -> float:
        return sum(file.stat().st_size for file in self.files) / 1e6


def check_publication(folder: Path, repo: str) -> Publication:
    """Check name, files and card of a model folder.

    Raises:
        UserError: With all problems.
    """
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    found = (file for file in sorted(folder.rglob("*")) if file.is_file())
    files = tuple(file for file in found if not file.relative_to(folder).parts[0].startswith("."))
    pickled = [file for file in files if file.suffix in _PICKLES]
    problems = [f"{file}: is not safetensors; pickled files are not published. Remove it." for file in pickled]
    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        problems.append(f"'{repo}': is not a name on the Hub: {error}")
    if "/" not in repo:
        problems.append(f"'{repo}': the owner is missing. Write OWNER/NAME.")
    problems += _damaged([file for file in files if file.suffix == ".safetensors"], folder)
    results: list[EvalResult] = []
    try:
        results = _read_card(folder / README)
    except UserError as error:
        problems += error.problems
    if problems:
        raise UserError(*problems)
    return Publication(folder, repo, files, tuple(results))


def _damaged(weights: list[Path], folder: Path) -> list[str]:
    from safetensors import SafetensorError, safe_open

    problems = [] if weights else [f"{folder}: has no safetensors file."]
    for file in weights:
        try:
            with safe_open(file, "numpy") as opened:
                opened.keys()
        except (SafetensorError, OSError) as error:
            problems.append(f"{file}: cannot be read ({error}).")
    return problems


def _read_card(file: Path) -> list[EvalResult]:
    """Return the evaluation results of a card, read and checked by huggingface_hub."""
    from huggingface_hub import ModelCardData, metadata_load
    from huggingface_hub.repocard_data import eval_results_to_model_index, model_index_to_eval_results

    if not file.is_file():
        raise UserError(f"{file.parent}: has no model card. Write one: `ruplar export MODEL {file.parent} --card`.")
    try:
        fields: dict[str, Any] = metadata_load(file) or {}
        ModelCardData(**fields)
        index = fields.get("model-index") or []
        name, results = model_index_to_eval_results(index) if index else ("", [])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file}: the Hub could not read its front matter: {type(error).__name__}: {error}") from error
    if index and eval_results_to_model_index(name, results) != index:
        raise UserError(f"{file}: the Hub would read other results from its model-index than it contains.")
    return results


def upload(publication: Publication, private: bool) -> str:
    """Create the repository if it is new, upload the files in one commit and return the address."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    api, names = HfApi(), [str(file.relative_to(publication.folder)) for file in publication.files]
    try:
        api.create_repo(publication.repo, private=private, exist_ok=True)
        done = api.upload_folder(
            repo_id=publication.repo,
            folder_path=publication.folder,
            allow_patterns=names,
            commit_message="Upload with ruplar",
        )
    except (HfHubHTTPError, LocalTokenNotFoundError, OSError) as error:
        why = str(error).strip().splitlines()[0]
        raise UserError(
            f"{publication.repo}: the upload failed: {why} Log in with `hf auth login`, or check the name."
        ) from error
    return str(done.commit_url)
