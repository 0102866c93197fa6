"""Pieces of text never have to be taken back, and every field is honoured, neutral or refused."""

from __future__ import annotations

import pytest

from ruplar.serve.errors import Refusal
from ruplar.serve.fields import IGNORED, NEUTRAL, check_fields
from ruplar.serve.requests import question_of
from ruplar.serve.schemas import Message
from ruplar.serve.stops import Pieces

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def spell(ids):
    return "".join(LETTERS[i] for i in ids)


def ids(text):
    return [LETTERS.index(letter) for letter in text]


def feed(pieces, text):
    """Letter by letter, then the end → the pieces that came."""
    return [pieces.take(ids(text[:end])) for end in range(1, len(text) + 1)] + [pieces.take(ids(text), final=True)]


def test_without_stops_every_letter_comes_at_once():
    assert feed(Pieces(spell), "word") == ["w", "o", "r", "d", ""]


def test_what_may_become_a_stop_is_held_back_until_it_is_none():
    pieces = Pieces(spell, ["end"])
    # e and en could begin "end"; enough does not
    assert feed(pieces, "enough") == ["", "", "eno", "u", "g", "h", ""]
    assert not pieces.stopped


def test_a_text_ends_before_its_first_stop():
    pieces = Pieces(spell, ["end", "n"])
    assert feed(pieces, "abend") == ["a", "b", "", "e", "", ""]  # e is held back as a beginning of "end", then n comes
    assert pieces.stopped and pieces.text == "abe"


def test_a_stop_at_the_very_end_leaves_nothing_of_itself():
    pieces = Pieces(spell, ["xy"])
    assert "".join(feed(pieces, "abxy")) == "ab" and pieces.stopped


def test_what_was_held_back_comes_with_the_end():
    pieces = Pieces(spell, ["xyz"])
    assert feed(pieces, "axy") == ["a", "", "", "xy"]


def test_half_a_character_is_held_back():
    raw = "é€".encode()  # 2 + 3 bytes

    def decode(found):
        return bytes(found).decode("utf-8", "replace")

    pieces = Pieces(decode)
    assert [pieces.take(list(raw[:end])) for end in range(1, 6)] == ["", "é", "", "", "€"]


def test_neutral_and_harmless_fields_pass_and_others_do_not():
    check_fields(dict.fromkeys(IGNORED, "anything"))
    check_fields(dict.fromkeys(NEUTRAL))
    for name, (neutral, _) in NEUTRAL.items():
        for value in neutral:
            check_fields({name: value})
        with pytest.raises(Refusal) as caught:
            check_fields({name: ["something", "else"]})
        assert caught.value.status == 400 and caught.value.param == name and f"'{name}'" in caught.value.message


def test_joined_messages_keep_their_order():
    messages = [
        Message(role="system", content="A"),
        Message(role="user", content="B"),
        Message(role="user", content="C"),
    ]
    assert question_of(messages, joins=True) == "A\nB\nC"
    with pytest.raises(Refusal, match="system messages"):
        question_of(messages, joins=False)
