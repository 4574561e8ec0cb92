"""Marks on Citus, where a transaction is committed on the coordinator and on its workers at different moments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import OperationalError, connection, transaction

from config.database.commit_order import Arrived, take_watermark
from config.database.outages import is_outage
from events.models import Event

pytestmark = [pytest.mark.distributed, pytest.mark.django_db(transaction=True)]

_GID = "citus_0_1_1_1"
_PLACE = """
    SELECT shardid, nodeport, groupid FROM citus_shards JOIN pg_dist_node USING (nodename, nodeport)
    WHERE shardid = get_shard_id_for_distribution_column('events_event', 'u')
"""
_RECORD = "INSERT INTO pg_dist_transaction (groupid, gid) VALUES (%s, %s) RETURNING pg_current_xact_id()::text::bigint"
_INSERT = """
    INSERT INTO {} (id, environment_id, user_id, name, timestamp, received_at, experiment, variant, properties, arrival)
    VALUES (%s, 1, 'u', 'late', now(), now(), '', '', '{{}}', %s)
"""


def rows_of(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def count_since(watermark: str) -> int:
    return Event.objects.filter(Arrived("arrival", watermark)).count()


@pytest.fixture
def other() -> Iterator[psycopg.Connection[Any]]:
    """Another connection to the coordinator."""
    own = connection.settings_dict
    with psycopg.connect(host=own["HOST"], port=own["PORT"], user=own["USER"], dbname=own["NAME"]) as opened:
        yield opened


@pytest.fixture
def guard() -> Iterator[psycopg.Connection[Any]]:
    """A connection that may keep Citus from recovering anything, until its transaction ends."""
    own = connection.settings_dict
    with psycopg.connect(host=own["HOST"], port=own["PORT"], user=own["USER"], dbname=own["NAME"]) as opened:
        yield opened


@pytest.fixture
def prepared(guard: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """An event that a worker has only prepared, although its transaction is committed on the coordinator."""
    [[shard, port, group]] = rows_of(_PLACE)
    [[number]] = rows_of(_RECORD, group, _GID)
    own = connection.settings_dict
    to_worker = psycopg.connect(host=own["HOST"], port=port, user=own["USER"], dbname=own["NAME"], autocommit=True)
    with to_worker as worker:
        guard.execute("LOCK TABLE pg_dist_transaction IN SHARE MODE")
        worker.execute("BEGIN")
        worker.execute(_INSERT.format(f"events_event_{shard}"), [uuid4(), number])  # type: ignore[arg-type]
        worker.execute(f"PREPARE TRANSACTION '{_GID}'")
        yield worker
    guard.rollback()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM pg_dist_transaction WHERE gid = %s", [_GID])


def test_take_watermark__transaction_that_a_worker_has_only_prepared__is_new_once_it_has_committed(
    prepared: psycopg.Connection[Any],
) -> None:
    before = take_watermark()
    assert count_since(before) == 0
    prepared.execute(f"COMMIT PREPARED '{_GID}'")
    assert count_since(before) == 1
    assert count_since(take_watermark()) == 0


def test_take_watermark__transaction_in_flight__is_new_once_it_has_committed(other: psycopg.Connection[Any]) -> None:
    other.execute(
        _INSERT.format("events_event").replace("%s)", "pg_current_xact_id()::text::bigint)"),  # type: ignore[arg-type]
        [uuid4()],
    )
    before = take_watermark()
    other.commit()
    assert count_since(before) == 1
    assert count_since(take_watermark()) == 0


@pytest.fixture
def lost_worker() -> Iterator[None]:
    """A worker that is lost at the end of each commit that begins an epoch: the coordinator warns, and that is all."""
    statements = (
        """CREATE FUNCTION lose_worker() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE WARNING 'connection to the remote node failed'; RETURN NULL; END $$""",
        """CREATE CONSTRAINT TRIGGER lose_worker AFTER INSERT ON config_epoch DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION lose_worker()""",
    )
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        yield
        cursor.execute("DROP FUNCTION lose_worker CASCADE")
        cursor.execute("DELETE FROM config_epoch")


def begin_epoch() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("INSERT INTO config_epoch (id, number) VALUES (1, 1)")


def test_commit__worker_is_lost_meanwhile__waits_until_it_has_committed(
    lost_worker: None, prepared: psycopg.Connection[Any], guard: psycopg.Connection[Any]
) -> None:
    assert Event.objects.count() == 0
    guard.rollback()
    begin_epoch()
    assert Event.objects.count() == 1
    assert prepared.execute("SELECT COUNT(*) FROM pg_prepared_xacts WHERE gid = %s", [_GID]).fetchone() == (0,)


def test_commit__lost_worker_stays_away__fails_as_in_an_outage_and_is_committed(lost_worker: None) -> None:
    wrapper: Any = connection
    rows_of(_RECORD, 99, _GID)
    try:
        with wrapper.statements_limited_to(1), pytest.raises(OperationalError, match="has not committed yet") as failed:
            begin_epoch()
        assert is_outage(failed.value)
        assert rows_of("SELECT number FROM config_epoch") == [(1,)]
    finally:
        rows_of("DELETE FROM pg_dist_transaction WHERE groupid = 99 RETURNING 1")
