"""Evaluation during an outage of the database: from the last known state, with `X-Stale`."""

from __future__ import annotations

from typing import Any

import pytest

from config.api.headers import stale_header
from config.models import Environment
from config.snapshot import signal_file
from config.snapshot.tables import Lateness, current
from flags.changes.flag_changes import create_flag, update_flag
from tests.answers import data, error, is_stale
from tests.cases import undone
from tests.conftest import ACTOR, NOON
from tests.outage import database_away

pytestmark = pytest.mark.both_lanes

WRITE = {"actor": ACTOR, "now": NOON}
USER = {"userId": "u"}
OFREP = {"context": {"targetingKey": "u"}}
CALLS = [
    ("post", "/v1/flags/f/evaluate", USER),
    ("post", "/v1/evaluate", USER),
    ("post", "/ofrep/v1/evaluate/flags/f", OFREP),
    ("post", "/ofrep/v1/evaluate/flags", OFREP),
    ("get", "/v1/ruleset", None),
]


@pytest.fixture
def client(api: Any, production: Environment) -> Any:
    """A client of a process that has loaded the flag `f`."""
    create_flag(key="f", environment=production, enabled=True, **WRITE)
    for method, path, body in CALLS:
        assert getattr(api, method)(path, body).status_code == 200
    return api


def change_elsewhere(production: Environment) -> None:
    update_flag(key="f", environment=production, changes={"enabled": False}, **WRITE)
    signal_file.signal_change()


def test_answers__before_an_outage__say_nothing_of_their_age(subtests: pytest.Subtests, client: Any) -> None:
    for method, path, body in CALLS:
        with undone(subtests, method=method, path=path):
            assert "X-Stale" not in getattr(client, method)(path, body)


def test_answers__during_an_outage__are_those_of_before_with_their_age(subtests: pytest.Subtests, client: Any) -> None:
    for method, path, body in CALLS:
        with undone(subtests, method=method, path=path):
            before = getattr(client, method)(path, body)
            current.lateness = Lateness.CUT_OFF
            with database_away() as tried:
                during = getattr(client, method)(path, body)
            assert (during.status_code, during.content) == (200, before.content)
            assert is_stale(during)
            assert not tried


def test_answers__during_an_outage_after_a_change__are_those_of_before_with_their_age(
    subtests: pytest.Subtests, client: Any, production: Environment
) -> None:
    for method, path, body in CALLS:
        with undone(subtests, method=method, path=path):
            before = getattr(client, method)(path, body)
            change_elsewhere(production)
            with database_away():
                during = [getattr(client, method)(path, body) for _ in range(3)]
            assert {(answer.status_code, answer.content, is_stale(answer)) for answer in during} == {
                (200, before.content, True)
            }


def test_answers__to_other_web_sites__show_their_age(client: Any) -> None:
    current.lateness = Lateness.CUT_OFF
    answer = client.post("/v1/flags/f/evaluate", USER, HTTP_ORIGIN="https://shop.example")
    assert "X-Stale" in answer["Access-Control-Expose-Headers"]
    assert is_stale(answer)


def test_evaluate__unknown_key_during_an_outage__is_refused_with_the_age_of_that_knowledge(client: Any) -> None:
    current.lateness = Lateness.CUT_OFF
    client.credentials(HTTP_AUTHORIZATION="Bearer made-up")
    answer = client.post("/v1/flags/f/evaluate", USER)
    assert error(answer, 401, "unauthenticated")
    assert is_stale(answer)


def test_writes__during_an_outage_after_a_change__are_refused_at_once(client: Any, production: Environment) -> None:
    change_elsewhere(production)
    with database_away() as tried:
        client.post("/v1/flags/f/evaluate", USER)
        tried.clear()
        answers = [
            client.post("/v1/events", {"event": "e", "userId": "u"}),
            client.patch("/v1/flags/f", {"enabled": True}),
            client.get("/v1/flags"),
        ]
        assert not tried
    for answer in answers:
        assert error(answer, 503, "unavailable")
        assert answer["Retry-After"] == "1"
        assert is_stale(answer)


def test_answers__after_an_outage__say_nothing_of_their_age(client: Any, production: Environment) -> None:
    change_elsewhere(production)
    with database_away():
        client.post("/v1/flags/f/evaluate", USER)
    current.lateness = Lateness.NONE
    current.catch_up()
    answer = client.post("/v1/flags/f/evaluate", USER)
    assert data(answer)["enabled"] is False
    assert "X-Stale" not in answer


def test_stale_header__no_age__is_none() -> None:
    assert (stale_header(None), stale_header(0), stale_header(7)) == ({}, {"X-Stale": "0"}, {"X-Stale": "7"})
