"""Lists, counts and exports of events use a replica that is current, and only their events and counts do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from config.database.replica import REPLICA, ReplicaLog
from tests.admin import sign_in
from tests.conftest import NOON
from tests.factories import EventFactory
from tests.replica_logs import BEHIND

pytestmark = [
    pytest.mark.usefixtures("replica_logs"),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no standby"),
]

TABLES = ("events_event", "events_eventcount")


def reads_of_events(read: Callable[[], Any]) -> dict[str, bool]:
    """Return for each database whether events or counts were read there."""
    with CaptureQueriesContext(connection) as primary, CaptureQueriesContext(connections[REPLICA]) as of_replica:
        read()
    return {
        name: any(f'"{table}"' in query["sql"] for query in captured for table in TABLES)
        for name, captured in (("primary", primary), ("replica", of_replica))
    }


@pytest.fixture
def visits(replica_logs: list[ReplicaLog], api: Any, production: Any, tmp_path: Path) -> dict[str, Callable[[], Any]]:
    client = sign_in("events.view_event")
    EventFactory(environment=production, name="see", user_id="ada", timestamp=NOON)

    def get(path: str, **headers: str) -> Callable[[], Any]:
        def visit() -> None:
            answer = (client if path.startswith("/admin") else api).get(path, headers=headers)
            assert answer.status_code == 200
            assert b"see" in (answer.getvalue() if answer.streaming else answer.content)

        return visit

    return {
        "query": get("/v1/events"),
        "ndjson": get("/v1/events", Accept="application/x-ndjson"),
        "csv": get("/v1/events", Accept="text/csv"),
        "counts": get(f"/v1/events/counts?from={NOON:%Y-%m-%d}&to={NOON:%Y-%m-%d}"),
        "admin list": get("/admin/events/event/"),
        "admin, one name": get("/admin/events/event/named/?event=see"),
        "export_events": lambda: call_command("export_events", output=str(tmp_path / "events.csv")),
        "export_parquet": lambda: call_command("export_parquet", tmp_path),
    }


DOORS = ("query", "ndjson", "csv", "counts", "admin list", "export_events", "export_parquet")


def test_reads__current_replica__ask_only_it(subtests: pytest.Subtests, visits: dict[str, Callable[[], Any]]) -> None:
    for door in DOORS:
        with subtests.test(door=door):
            assert reads_of_events(visits[door]) == {"primary": False, "replica": True}


def test_page_of_a_name__current_replica__leaves_the_primary_only_the_search_for_silence(
    visits: dict[str, Callable[[], Any]],
) -> None:
    assert reads_of_events(visits["admin, one name"])["replica"]


def test_reads__replica_that_is_behind__ask_the_primary(
    subtests: pytest.Subtests, visits: dict[str, Callable[[], Any]], replica_logs: list[ReplicaLog]
) -> None:
    replica_logs.append(BEHIND)
    for door in DOORS:
        with subtests.test(door=door):
            assert reads_of_events(visits[door]) == {"primary": True, "replica": False}
