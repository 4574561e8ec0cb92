"""Expressions that Django lacks."""

from __future__ import annotations

import pytest
from django.db.models import OuterRef

from config.database.expressions import ListOf
from config.database.selects import rows_with
from config.models import Change
from tests.conftest import NOON

pytestmark = pytest.mark.django_db


def test_list_of__a_subquery__is_all_of_its_values() -> None:
    Change.objects.all().delete()
    same = {"at": NOON, "source": "api", "kind": "flag", "object_id": "1", "after": {}}
    Change.objects.bulk_create(
        Change(revision=revision, key=key, actor="ada", **same) for revision, key in enumerate("aab", 1)
    )
    revisions = Change.objects.order_by().filter(key=OuterRef("key")).values("revision")
    rows = rows_with(Change, "key", ["a", "b", "nobody"]).values_list("key", ListOf(revisions))
    assert {key: sorted(numbers) for key, numbers in rows} == {"a": [1, 2], "b": [3], "nobody": []}
