"""Tokens of event streams: they say what was put into them, for an hour, and nobody else can make one."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from flags.ofrep import tokens
from flags.ofrep.tokens import LIFETIME, InvalidToken, Ticket
from tests.conftest import NOON

MOMENT = NOON + timedelta(microseconds=123_457)


def issue(**values: object) -> str:
    known = {"environment": "production", "key_id": "17", "revision": 42, "at": MOMENT}
    return tokens.issue(**{**known, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize("age", [timedelta(0), LIFETIME - timedelta(microseconds=1), -timedelta(seconds=5)])
def test_read__token_of_ours__is_what_was_issued(age):
    ticket = tokens.read(issue(), environment="production", at=MOMENT + age)
    assert ticket == Ticket("production", "17", 42, MOMENT)


def test_read__token_after_its_hour__is_refused():
    with pytest.raises(InvalidToken, match="expired"):
        tokens.read(issue(), environment="production", at=MOMENT + LIFETIME)


def test_read__token_of_another_environment__is_refused():
    with pytest.raises(InvalidToken, match="another environment"):
        tokens.read(issue(environment="staging"), environment="production", at=MOMENT)


def test_read__token_of_another_secret__is_refused(settings):
    token = issue()
    settings.SECRET_KEY = "another-secret-" * 5
    with pytest.raises(InvalidToken, match="not issued here"):
        tokens.read(token, environment="production", at=MOMENT)


@pytest.mark.parametrize("at", range(5))
def test_read__token_with_one_character_changed__is_refused(at):
    token = issue()
    place = len(token) * at // 5
    changed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
    with pytest.raises(InvalidToken) as caught:
        tokens.read(changed, environment="production", at=MOMENT)
    assert changed not in str(caught.value)


@pytest.mark.parametrize("token", ["", ".", "a.b", "\0", "ü.ü", "x" * 10_000, "\ud800"])
def test_read__what_is_no_token__is_refused(token):
    with pytest.raises(InvalidToken):
        tokens.read(token, environment="production", at=MOMENT)


def test_issue__token__may_stand_in_a_url_as_it_is():
    assert re.fullmatch(r"[A-Za-z0-9._-]+", issue(environment="a" * 100, key_id="9" * 19))


def test_period__of_a_token__is_over_while_half_its_life_is_left():
    moments = [NOON + timedelta(minutes=minutes) for minutes in range(0, 300, 7)]
    for issued in moments:
        for seen in moments:
            if issued <= seen and tokens.period(issued) == tokens.period(seen):
                assert issued + LIFETIME - seen > LIFETIME / 2
    assert len({tokens.period(moment) for moment in moments}) == 10
