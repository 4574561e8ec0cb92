"""Committing on the coordinator of Citus and its workers, or on none of them, also if one worker alone has rows."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from django.db import connection, transaction

from config.database.transactions import commit_in_two_phases
from config.models import Environment
from events.models import Event
from events.recording import NewEvent, new_id, record_one
from events.removal import erase_user
from tests.conftest import NOON

pytestmark = [pytest.mark.distributed, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def no_recovery() -> Iterator[None]:
    """Meanwhile, Citus deletes no records of transactions that are committed everywhere."""
    own = connection.settings_dict
    with psycopg.connect(host=own["HOST"], port=own["PORT"], user=own["USER"], dbname=own["NAME"]) as other:
        other.execute("SELECT recover_prepared_transactions()")  # one at a time, until its transaction ends
        yield


def number_of_records() -> int:
    """Return how many parts of transactions the coordinator has committed in two phases."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM pg_dist_transaction")
        return int(cursor.fetchone()[0])


def make_event(environment: Environment) -> None:
    Event.objects.create(
        id=uuid4(), environment=environment, user_id="u", name="seen", timestamp=NOON, received_at=NOON
    )


@pytest.mark.parametrize("in_two_phases", [False, True])
def test_commit__row_of_one_user__is_in_two_phases_where_asked(production: Environment, in_two_phases: bool) -> None:
    before = number_of_records()
    with transaction.atomic():
        make_event(production)
        if in_two_phases:
            commit_in_two_phases()
    assert number_of_records() == before + in_two_phases


def test_record_one__event_and_its_count__are_committed_in_two_phases(production: Environment) -> None:
    before = number_of_records()
    record_one(NewEvent(new_id(), "u", "seen", NOON, NOON, {}), production)
    assert number_of_records() == before + 1


def test_erase_user__events_and_their_counts__are_committed_in_two_phases(production: Environment) -> None:
    make_event(production)
    before = number_of_records()
    assert erase_user("u", production).events == 1
    assert number_of_records() == before + 1
