"""Keys from before the right `common` existed have it, and so do those that the release before makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from tests.conftest import NOON

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = ("config", "0004_epoch")
AFTER = ("config", "0005_keys_that_change_what_is_common")


def _migrate_to(target: tuple[str, str]) -> Any:
    executor = MigrationExecutor(connection)
    executor.migrate([target])
    return executor.loader.project_state([target]).apps


@pytest.fixture
def _restored() -> Iterator[None]:
    yield
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def _add_key(apps: Any, number: int) -> None:
    environment = apps.get_model("config", "Environment").objects.first()
    keys = apps.get_model("config", "ApiKey").objects
    values = {"name": "old", "scope": "manage", "prefix": "hyd_m_", "digest": f"{number}", "created_at": NOON}
    keys.create(id=UUID(int=number), environment_id=environment.pk, **values)


@pytest.mark.usefixtures("_restored")
def test_key__of_the_release_before__may_change_what_is_common() -> None:
    before = _migrate_to(BEFORE)
    environments = before.get_model("config", "Environment").objects
    if not environments.exists():  # another test may have emptied the tables
        environments.create(key="production", name="Production", is_default=True, created_at=NOON)
    _add_key(before, 1)
    after = _migrate_to(AFTER)
    _add_key(before, 2)  # by a process that has not been replaced yet
    keys = after.get_model("config", "ApiKey").objects
    assert list(keys.order_by("id").values_list("may_change_common", flat=True)) == [True, True]
    keys.all().delete()
