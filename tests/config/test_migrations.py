"""What migrations make of rows from before, and of those that a process of the release before still writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from tests.conftest import NOON

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.one_server("tables are spread once all migrations are applied"),
]

BEFORE = ("config", "0004_epoch")
AFTER = ("config", "0005_keys_that_change_what_is_common")
PROTECTED = ("config", "0006_safe_in_production")


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


@pytest.mark.usefixtures("_restored")
def test_environments__that_name_production__are_protected_and_can_go_back() -> None:
    before = _migrate_to(AFTER)
    old = before.get_model("config", "Environment").objects
    old.all().delete()
    for key in ("production", "eu-prod", "staging"):
        old.create(key=key, name=key, is_default=key == "production", created_at=NOON)
    after = _migrate_to(PROTECTED)
    old.create(key="live", name="Live", created_at=NOON)  # by a process that has not been replaced yet
    environments = after.get_model("config", "Environment").objects.order_by("key")
    assert list(environments.values_list("key", "protected", "change_reason")) == [
        ("eu-prod", True, "optional"),
        ("live", False, "optional"),
        ("production", True, "optional"),
        ("staging", False, "optional"),
    ]
    _migrate_to(AFTER)
    assert old.count() == 4
    old.exclude(key="production").delete()
