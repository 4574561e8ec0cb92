"""Words that know whom they name: as text they are plain, and what puts them together keeps the users."""

from __future__ import annotations

import json

import orjson
import pytest

from config.change_log.named_users import fill, join, name_user, part_of, split_at_users, users_in
from config.change_log.sentences import in_past, list_sentences, some
from tests.named_users import HOSTILE


def named(text: str) -> list[tuple[str, str]]:
    """Return what is shown of each user whom a text names, and the id."""
    return [(text[user.start : user.end], user.user_id) for user in users_in(text)]


def test_words__as_text__are_plain() -> None:
    words = fill("for {}", name_user("ada"))
    assert words == "for ada"
    assert type(str(words)) is str
    assert json.dumps([words]) == orjson.dumps([words]).decode().replace(",", ", ") == '["for ada"]'
    assert users_in(f"{words}") == ()


def test_words__put_together__name_the_same_users() -> None:
    for user_id in HOSTILE:
        user, bob = name_user(user_id), name_user("bob")
        words = fill("{}: {}.", "{}", join(", ", ["{}", user, "then", bob]))
        assert words == f"{{}}: {{}}, {user_id}, then, bob."
        assert named(words) == [(user_id, user_id), ("bob", "bob")]
        assert "".join(text for text, _ in split_at_users(words)) == words
        assert [known for _, known in split_at_users(words) if known] == [user_id, "bob"]


def test_template__with_another_number_of_places__is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        fill("{} and {}", name_user("a"))


def test_part__of_words__names_those_in_it() -> None:
    for start, end, expected in [
        (0, None, [("ada", "ada"), ("bob", "bob")]),
        (4, 7, [("ada", "ada")]),
        (4, 6, [("ad", "ada")]),
        (6, None, [("a", "ada"), ("bob", "bob")]),
        (7, 12, []),
        (0, 0, []),
        (0, 99, [("ada", "ada"), ("bob", "bob")]),
    ]:
        words = fill("for {} and {}", name_user("ada"), name_user("bob"))
        assert part_of(words, start, end) == str(words)[start:end]
        assert named(part_of(words, start, end)) == expected


def test_sentence__in_the_past__names_the_same_users() -> None:
    assert named(in_past(fill("Force {} to blue", name_user("ada")))) == [("ada", "ada")]


def test_elements__that_are_long__keep_the_whole_id() -> None:
    shown = some(["u" * 400, "x, y"], name_user)
    assert [user_id for _, user_id in named(shown)] == ["u" * 400, "x, y"]
    assert named(some([*"abcdefg"], name_user)) == [(letter, letter) for letter in "abcde"]


def test_lists__of_other_things__name_nobody() -> None:
    (sentence,) = list_sentences("the tags", [], ["ada"])
    assert (sentence, users_in(sentence)) == ("Add ada to the tags", ())
