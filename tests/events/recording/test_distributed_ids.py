"""Ids of events on Citus, where they are unique for each user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from config.models import Environment
from events import exports
from events.models import Event
from events.recording import NewEvent, Outcome, new_id, record
from experiments.lifecycle.changes import create_experiment, start_experiment
from tests.admin import sign_in
from tests.conftest import ACTOR, NOON

pytestmark = [pytest.mark.django_db, pytest.mark.distributed]

ID = new_id()
USERS = ["user-1", "user-2", "user-3", "user-4", "user-5"]


def event(user_id: str, name: str = "view") -> NewEvent:
    return NewEvent(ID, user_id, name, NOON, NOON, {})


@pytest.mark.parametrize("others", [0, 20])
def test_record__same_id_of_another_user__is_another_event(production: Environment, others: int) -> None:
    more = [NewEvent(new_id(), f"user-{number}", "view", NOON, NOON, {}) for number in range(others)]
    assert record([event("u"), event("v"), *more], production) == [Outcome.ACCEPTED] * (2 + others)
    assert record([event("w"), event("u"), event("v"), *more], production) == [
        Outcome.ACCEPTED,
        *[Outcome.DUPLICATE] * (2 + others),
    ]
    assert Event.objects.filter(pk=ID).count() == 3


@pytest.mark.parametrize("others", [0, 20])
def test_record__same_id_and_user_with_another_name__is_a_conflict(production: Environment, others: int) -> None:
    more = [NewEvent(new_id(), f"user-{number}", "view", NOON, NOON, {}) for number in range(others)]
    record([event("u")], production)
    assert record([event("u", "click"), event("v"), *more], production)[:2] == [Outcome.CONFLICT, Outcome.ACCEPTED]
    assert Event.objects.get(pk=ID, user_id="u").name == "view"


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson", "text/csv"])
def test_query__one_id_of_several_users__has_each_of_their_events(
    production: Environment, api: Any, monkeypatch: pytest.MonkeyPatch, accept: str
) -> None:
    monkeypatch.setattr(exports, "PAGE_SIZE", 2)
    record([event(user_id) for user_id in USERS], production)
    found: list[str] = []
    address = "/v1/events?limit=2" if accept == "application/json" else "/v1/events"
    while address:
        response = api.get(address, HTTP_ACCEPT=accept)
        body = b"".join(response.streaming_content) if response.streaming else response.content
        found += [user_id for user_id in USERS if user_id in body.decode()]
        address = response.headers.get("Link", "").partition("<")[2].partition(">")[0]
    assert sorted(found) == USERS


def test_parquet__one_id_of_several_users__has_each_of_their_events(
    production: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "PARQUET_PAGE_SIZE", 2)
    record([event(user_id) for user_id in USERS], production)
    assert exports.write_day(production, tmp_path, NOON.date()) == len(USERS)


def test_doubt__report_with_the_id_of_another_user__leaves_theirs_alone(production: Environment) -> None:
    who: dict[str, Any] = {"key": "shop", "environment": production, "actor": ACTOR, "now": NOON}
    create_experiment(**who, variants=[{"key": "a", "weight": 0}, {"key": "b", "weight": 1}], metrics=["buy"])
    start_experiment(**who, started_at=NOON)
    properties = {"experimentId": "shop", "variant": "a"}
    by_server = NewEvent(ID, "u", "seen", NOON, NOON, properties)
    by_client = NewEvent(ID, "v", "seen", NOON, NOON, properties, is_client_report=True)
    record([by_server, by_client], production)
    assert dict(Event.objects.values_list("user_id", "is_doubted")) == {"u": None, "v": True}


def test_admin__id_of_two_users__shows_the_event_of_each(production: Environment) -> None:
    record([event("u"), event("v")], production)
    admin = sign_in()
    listed = admin.get("/admin/events/event/").content.decode()
    for user_id in ("u", "v"):
        address = f"/admin/events/event/{ID}/change/?userId={user_id}"
        assert address in listed
        assert admin.get(address).context["original"].user_id == user_id
    assert admin.get(f"/admin/events/event/{ID}/change/?userId=w").url == "/admin/"


def test_admin__id_of_two_users__shows_one_of_their_events(production: Environment) -> None:
    record([event("u"), event("v")], production)
    shown = sign_in().get(f"/admin/events/event/{ID}/change/")
    assert shown.status_code == 200
