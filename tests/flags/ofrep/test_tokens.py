"""Tokens of event streams: they permit what they were issued for, for a while, and cannot be forged."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from flags.ofrep import tokens
from flags.ofrep.tokens import LIFETIME, PERIOD, InvalidToken, Ticket
from tests.conftest import NOON

MOMENT = NOON + timedelta(microseconds=123_457)


def issue(**values: object) -> str:
    values_of_token = {"environment": "production", "key_id": "17", "now": MOMENT}
    return tokens.issue(**{**values_of_token, **values})  # type: ignore[arg-type]


def test_read__token_of_ours__is_what_was_issued():
    for at in [MOMENT, NOON + LIFETIME - timedelta(microseconds=1), NOON - timedelta(seconds=5)]:
        assert tokens.read(issue(), environment="production", now=at) == Ticket("production", "17", NOON), at


def test_read__token_after_its_hour__is_refused():
    with pytest.raises(InvalidToken, match="expired"):
        tokens.read(issue(), environment="production", now=NOON + LIFETIME)


def test_issue__in_one_period__is_the_same_for_one_caller():
    assert issue(now=NOON) == issue(now=NOON + PERIOD - timedelta(microseconds=1))
    assert len({issue(), issue(now=NOON + PERIOD), issue(key_id="18"), issue(environment="staging")}) == 4


def test_read__token_of_another_environment__is_refused():
    with pytest.raises(InvalidToken, match="another environment"):
        tokens.read(issue(environment="staging"), environment="production", now=MOMENT)


def test_read__token_of_another_secret__is_refused(settings):
    token = issue()
    settings.SECRET_KEY = "another-secret-" * 5
    with pytest.raises(InvalidToken, match="not issued here"):
        tokens.read(token, environment="production", now=MOMENT)


def test_read__token_with_one_character_changed__is_refused(subtests):
    token = issue()
    for at in range(5):
        with subtests.test(at=at):
            place = len(token) * at // 5
            changed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
            with pytest.raises(InvalidToken) as caught:
                tokens.read(changed, environment="production", now=MOMENT)
            assert changed not in str(caught.value)


def test_read__what_is_no_token__is_refused(subtests):
    for token in ["", ".", "a.b", "\0", "ü.ü", "x" * 10_000, "\ud800"]:
        with subtests.test(token=token), pytest.raises(InvalidToken):
            tokens.read(token, environment="production", now=MOMENT)


def test_issue__token__may_stand_in_a_url_as_it_is():
    assert re.fullmatch(r"[A-Za-z0-9._-]+", issue(environment="a" * 100, key_id="9" * 19))


def test_period__of_a_token__is_over_while_another_is_left():
    moments = [NOON + timedelta(minutes=minutes) for minutes in range(0, 300, 7)]
    for issued in moments:
        for seen in moments:
            if issued <= seen and tokens.period(issued) == tokens.period(seen):
                [since] = {
                    tokens.read(issue(now=at), environment="production", now=seen).since for at in (issued, seen)
                }
                assert since <= issued < since + PERIOD
                assert since + LIFETIME - seen > PERIOD
    assert len({tokens.period(moment) for moment in moments}) == 10
