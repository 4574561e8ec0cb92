"""A replica that is a second connection to the test's own database, and says of itself what the test wants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, connections

from config.database import replica
from config.database.replica import REPLICA, PrimaryLog, ReplicaLog

PRIMARY_LOG = PrimaryLog(system=7, timeline=2, end=1000)
"""How far the primary is."""
CURRENT, BEHIND, OTHER = ReplicaLog(7, 2, 1000), ReplicaLog(7, 2, 999), ReplicaLog(8, 2, 1000)


@pytest.fixture
def replica_logs(transactional_db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ReplicaLog]]:
    """What the replica says of itself is the last of these."""
    monkeypatch.setitem(connections.settings, REPLICA, dict(connection.settings_dict))
    settings.DATABASE_ROUTERS = ["config.database.replica.Router"]
    monkeypatch.setattr(replica, "_process", replica._Process())
    monkeypatch.setattr(replica, "_SECONDS_TO_CATCH_UP", 0)
    monkeypatch.setattr(replica, "_SECONDS_BETWEEN_TRIES", 0.01)
    monkeypatch.setattr(replica, "read_primary_log", lambda: PRIMARY_LOG)
    # Django forbids tests to connect to a database that their class does not name.
    monkeypatch.setattr(type(connections["default"]), "ensure_connection", _ensure_connection)
    said = [CURRENT]

    def read_replica_log() -> ReplicaLog:
        with connections[REPLICA].cursor() as cursor:
            cursor.execute("SELECT 1")
        return said[-1]

    monkeypatch.setattr(replica, "read_replica_log", read_replica_log)
    yield said
    connections[REPLICA].close()
    del connections[REPLICA]


def _ensure_connection(wrapper: Any) -> None:
    if wrapper.connection is None:
        with wrapper.wrap_database_errors:
            wrapper.connect()
