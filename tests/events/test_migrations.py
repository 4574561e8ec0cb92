"""Events from before there were counts and variants are counted, and have their variant, after the migrations."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import F

from events.counts.storage import quarter_of
from events.models import Event, EventCount
from tests.conftest import NOON

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.one_server("tables are spread once all migrations are applied"),
]

BEFORE = ("events", "0001_initial")
STRUCTURE = ("events", "0002_counts_and_variants")
FILLED = ("events", "0003_count_what_is_there")
END = datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
LONG = "v" * 150


def migrate_to(target: tuple[str, str]) -> Any:
    """The models of that time."""
    executor = MigrationExecutor(connection)
    executor.migrate([target])
    return executor.loader.project_state([target]).apps


@pytest.fixture
def _restored() -> Iterator[None]:
    yield
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def store(models: Any, *events: tuple[str, str, datetime, dict[str, Any]]) -> None:
    environments = {each.key: each for each in models.get_model("config", "Environment").objects.all()}
    models.get_model("events", "Event").objects.bulk_create(
        models.get_model("events", "Event")(
            id=UUID(int=number),
            environment=environments[environment],
            user_id="u",
            name=name,
            timestamp=moment,
            received_at=NOON,
            properties=properties,
        )
        for number, (environment, name, moment, properties) in enumerate(events, start=1)
    )


def counts() -> dict[tuple[str, str, int], int]:
    rows = EventCount.objects.filter(stripe=0).values_list("environment__key", "name", "quarter", "count")
    return {(environment, name, quarter): count for environment, name, quarter, count in rows}


@pytest.mark.usefixtures("_restored")
def test_migrations__events_of_before__are_counted_and_get_their_variants() -> None:
    at = quarter_of(NOON)
    store(
        migrate_to(BEFORE),
        ("production", "see", NOON, {"experimentId": "e", "variant": "blue"}),
        ("production", "see", NOON + timedelta(minutes=15, microseconds=-1), {"variant": "é 😀 \"'\\"}),
        ("production", "see", NOON + timedelta(minutes=15), {"variant": LONG}),
        ("production", "see", NOON - timedelta(microseconds=1), {"variant": "null"}),
        ("production", "buy", NOON, {"experimentId": "e"}),
        ("staging", "buy", NOON, {"variant": ""}),
        ("staging", "end", END, {}),
        ("staging", "start", datetime(1, 1, 1, tzinfo=UTC), {"note": {"variant": "deep"}}),
    )
    migrate_to(FILLED)
    assert counts() == {
        ("production", "see", at - 1): 1,
        ("production", "see", at): 2,
        ("production", "see", at + 1): 1,
        ("production", "buy", at): 1,
        ("staging", "buy", at): 1,
        ("staging", "end", quarter_of(END)): 1,
        ("staging", "start", quarter_of(datetime(1, 1, 1, tzinfo=UTC))): 1,
    }
    variants = Event.objects.order_by("pk").annotate(found=F("variant")).values_list("found", flat=True)
    assert list(variants) == ["blue", "é 😀 \"'\\", LONG[:101], "null", "", "", "", ""]


@pytest.mark.usefixtures("_restored")
def test_migrations__taken_back_and_done_again__count_once() -> None:
    store(migrate_to(BEFORE), ("production", "see", NOON, {}))
    migrate_to(FILLED)
    migrate_to(STRUCTURE)
    assert not EventCount.objects.exists()
    migrate_to(FILLED)
    assert counts() == {("production", "see", quarter_of(NOON)): 1}
    migrate_to(BEFORE)
    assert EventCount._meta.db_table not in connection.introspection.table_names()
