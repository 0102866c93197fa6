"""Files and folders are complete or absent, whatever interrupts the writing."""

import json

import pytest

from ruplar import io
from ruplar.errors import UserError
from ruplar.io import atomic, atomic_folder, publish_folder, write_json, write_text


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_get_their_name_when_they_are_complete(tmp_path):
    assert write_text(tmp_path / "new" / "a.txt", "é") == tmp_path / "new" / "a.txt"
    assert (tmp_path / "new" / "a.txt").read_bytes() == "é".encode()
    write_json(tmp_path / "new" / "b.json", {"a": [1]})
    assert json.loads((tmp_path / "new" / "b.json").read_text()) == {"a": [1]}
    with atomic(tmp_path / "new" / "b.json", sync=True) as one, atomic(tmp_path / "new" / "b.json") as two:
        one.write(b"the outer one, renamed last")
        two.write(b"the inner one")
    assert (tmp_path / "new" / "b.json").read_text() == "the outer one, renamed last"
    with pytest.raises(KeyboardInterrupt), atomic(tmp_path / "new" / "a.txt") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert (tmp_path / "new" / "a.txt").read_text() == "é" and names(tmp_path / "new") == ["a.txt", "b.json"]


def test_a_file_that_cannot_be_written_is_an_error_with_its_path(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file/a.txt: cannot be written"):
        write_text(tmp_path / "file" / "a.txt", "")


def fill(folder, text, replace):
    with atomic_folder(folder, replace=replace) as draft:
        (draft / "file").write_text(text)


@pytest.mark.parametrize(("replace", "kept"), [(False, "first"), (True, "second")])
def test_a_second_folder_replaces_the_first_only_if_it_should(tmp_path, replace, kept):
    fill(tmp_path / "deep" / "a", "first", replace)
    fill(tmp_path / "deep" / "a", "second", replace)
    assert (tmp_path / "deep" / "a" / "file").read_text() == kept and names(tmp_path / "deep") == ["a"]


def test_the_earlier_folder_is_restored_if_the_rename_fails(tmp_path):
    fill(tmp_path / "a", "first", replace=True)
    with pytest.raises(FileNotFoundError):
        publish_folder(tmp_path / "missing", tmp_path / "a", replace=True)
    assert (tmp_path / "a" / "file").read_text() == "first" and names(tmp_path) == ["a"]
    (tmp_path / "draft").mkdir()
    with pytest.raises(OSError):
        publish_folder(tmp_path / "draft", tmp_path / "a")


def test_a_synced_folder_is_flushed_before_it_is_renamed(tmp_path, monkeypatch):
    (tmp_path / "draft" / "inner").mkdir(parents=True)
    (tmp_path / "draft" / "inner" / "file").write_text("x")
    flushed = []
    monkeypatch.setattr(io, "_sync", lambda path: flushed.append((path.name, (tmp_path / "a").exists())))
    publish_folder(tmp_path / "draft", tmp_path / "a", sync=True)
    assert flushed == [("inner", False), ("file", False), ("draft", False), (tmp_path.name, True)]
