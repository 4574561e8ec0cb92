"""Conditions on events that the ORM cannot say."""

from __future__ import annotations

import pytest
from django.db import connection

from config.database.selects import delete_returning
from config.models import Environment
from events.expressions import HasKey
from events.models import Event
from events.recording import NewEvent, new_id, record
from tests.conftest import NOON

pytestmark = pytest.mark.django_db


@pytest.mark.skipif(connection.vendor != "postgresql", reason="Citus is PostgreSQL")
def test_has_key__ids_and_users__are_those_of_one_event(production: Environment) -> None:
    events = [NewEvent(new_id(), user, "see", NOON, NOON, {}) for user in ("ada", "bob", "é 'x'")]
    record(events, production)
    ada, bob, other = ((event.id, event.user_id) for event in events)
    named = Event.objects.filter(HasKey([ada, other, (bob[0], "ada")]))
    assert {*named.values_list("id", "user_id")} == {ada, other}
    assert sorted(delete_returning(named, "user_id", "timestamp")) == [("ada", NOON), ("é 'x'", NOON)]
    assert [*Event.objects.values_list("user_id", flat=True)] == ["bob"]
