"""`ruplar push`: the folder is checked with huggingface_hub's own code, and uploaded only on request."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest

RELEASED = Path(__file__).parents[1] / "models" / "smollm2-135m-ruplar"


@pytest.fixture
def calls(monkeypatch):
    """The calls that would reach the network."""
    made = []
    done = SimpleNamespace(commit_url="https://huggingface.co/someone/model/commit/1")
    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", lambda self, repo, **k: made.append((repo, k)))
    monkeypatch.setattr(huggingface_hub.HfApi, "upload_folder", lambda self, **k: [made.append(k), done][1])
    return made


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(RELEASED, tmp_path / "model"))


def test_a_folder_is_checked_and_listed_and_uploaded_only_on_request(folder, calls, ruplar):
    (folder / ".cache").mkdir()
    (folder / ".cache" / "token").write_text("secret")
    said = ruplar("push", folder, "someone/model").out
    assert "adapter_model.safetensors  20,863,224 bytes" in said and "gsm8k-aug  accuracy, %  24.41" in said
    assert "add --upload" in said and not calls
    said = ruplar("push", folder, "someone/model", "--upload", "--private").out
    assert "uploaded https://huggingface.co/someone/model/commit/1" in said
    (repo, settings), uploaded = calls
    assert repo == uploaded["repo_id"] == "someone/model" and settings == {"private": True, "exist_ok": True}
    assert "README.md" in uploaded["allow_patterns"] and ".cache/token" not in uploaded["allow_patterns"]


def test_all_problems_are_named_at_once(folder, calls, refused):
    (folder / "pytorch_model.bin").write_bytes(b"")
    (folder / "adapter_model.safetensors").write_bytes(b"12345678")
    card = folder / "README.md"
    card.write_text(card.read_text(encoding="utf-8").replace("value: 24.41", "number: 24.41"), encoding="utf-8")
    said = refused("push", folder, "model", "--upload")
    assert "4 problems" in said and "OWNER/NAME" in said and "pickled files are not published" in said
    assert "safetensors: cannot be read" in said and "README.md: the Hub could not read its front matter" in said
    assert not calls


def test_a_folder_without_a_card_says_how_to_write_one(folder, refused):
    (folder / "README.md").unlink()
    said = refused("push", folder, "someone/model")
    assert "has no model card. Write one: `ruplar export MODEL" in said and "--card`" in said
