"""Ids of events on Citus, where they are unique for each user."""

from __future__ import annotations

import pytest

from config.models import Environment
from events.models import Event
from events.recording.ingest import NewEvent, Outcome, new_id, record
from tests.admin import sign_in
from tests.conftest import NOON

pytestmark = [pytest.mark.django_db, pytest.mark.distributed]

ID = new_id()


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


def test_admin__id_of_two_users__shows_one_of_their_events(production: Environment) -> None:
    record([event("u"), event("v")], production)
    shown = sign_in().get(f"/admin/events/event/{ID}/change/")
    assert shown.status_code == 200
