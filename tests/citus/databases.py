"""Tests on Citus: a database of tests is made on the coordinator and on each worker, and distributed."""

from __future__ import annotations

import os
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from django.db.backends.postgresql.creation import DatabaseCreation

from config.database.postgresql.base import DatabaseWrapper
from tests.citus.nodes import drop, make_distributed

_SHARDS = 4
"""Each statement on all users is sent to every part of a table, so that fewer parts make quicker tests."""


def is_distributed() -> bool:
    """Return whether this run is for Citus, as `python -m tests --citus` says."""
    return os.environ.get("TEST_DISTRIBUTED") == "true"


def pytest_configure(config: pytest.Config) -> None:
    if is_distributed():
        DatabaseWrapper.creation_class = DistributedCreation
        connection.creation = DistributedCreation(connection)  # which was made before


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of what the other kind of database does."""
    left_out = "one_server" if is_distributed() else "distributed"
    unexplained = [item.nodeid for item in items for mark in item.iter_markers("one_server") if len(mark.args) != 1]
    if unexplained:
        raise pytest.UsageError(f"Say why Citus does otherwise, with one_server('...'): {', '.join(unexplained)}")
    deselected = [item for item in items if item.get_closest_marker(left_out)]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if not item.get_closest_marker(left_out)]


class DistributedCreation(DatabaseCreation):
    """Django's tests make their database with this."""

    def _create_test_db(self, verbosity: int, autoclobber: bool, keepdb: bool = False) -> str:
        name: str = self._get_test_db_name()
        make_distributed(self._maintenance_url(), name)
        return name

    def create_test_db(self, *arguments: Any, **options: Any) -> str:
        name: str = super().create_test_db(*arguments, **options)
        call_command("distribute", shards=_SHARDS, stdout=StringIO(), stderr=StringIO())
        self.connection.close()
        return name

    def _destroy_test_db(self, test_database_name: str, verbosity: int) -> None:
        drop(self._maintenance_url(), test_database_name)

    def _maintenance_url(self) -> str:
        own = self.connection.settings_dict
        return psycopg.conninfo.make_conninfo(
            host=own["HOST"], port=own["PORT"], user=own["USER"], password=own["PASSWORD"] or None, dbname="postgres"
        )
