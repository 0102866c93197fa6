"""Streamed text is never taken back, and every request field is honoured, neutral or rejected."""

import pytest
from cases import cases

from ruplar.serve.errors import FIELDS, RequestError, check_fields
from ruplar.serve.outputs import IncrementalDetokenizer


@pytest.mark.parametrize(("stops", "text", "increments"), cases(__file__, "held_back"))
def test_text_that_may_become_a_stop_string_is_held_back(stops, text, increments):
    detokenizer = IncrementalDetokenizer("".join, stops)
    found = [detokenizer.update(text[:end]) for end in range(1, len(text) + 1)]
    assert [*found, detokenizer.update(text, final=True)] == increments
    assert detokenizer.stopped == any(stop in text for stop in stops)
    assert detokenizer.text == "".join(increments)


def test_an_incomplete_character_is_held_back():
    raw = "é€".encode()  # 2 + 3 bytes
    detokenizer = IncrementalDetokenizer(lambda ids: bytes(ids).decode("utf-8", "replace"))
    assert [detokenizer.update(list(raw[:end])) for end in range(1, 6)] == ["", "é", "", "", "€"]
    raw, detokenizer = "a5€".encode(), IncrementalDetokenizer(detokenizer.decode, ["5€"])
    assert [detokenizer.update(list(raw[:end])) for end in range(1, 6)] == ["a", *[""] * 4]  # not "a5", then "a"


def test_neutral_and_harmless_fields_pass_and_others_do_not():
    check_fields(dict.fromkeys(FIELDS["ignored"], "anything"))
    check_fields(dict.fromkeys(FIELDS["refused"]))
    for name, field in FIELDS["refused"].items():
        for value in field["neutral"]:
            check_fields({name: value})
        with pytest.raises(RequestError) as caught:
            check_fields({name: ["something", "else"]})
        error = caught.value
        assert error.status == 400 and error.param == name and error.message.startswith(f"{name}: ")
