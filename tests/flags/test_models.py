"""Querysets of flags."""

from __future__ import annotations

from datetime import timedelta

import pytest

from config.models import Environment
from flags.changes.flag_changes import (
    archive_flag,
    create_flag,
)
from flags.models import Flag
from tests.conftest import NOON
from tests.flags.changes.writing import WRITE

pytestmark = pytest.mark.django_db


def test_queryset__words_for_flags__find_them(production: Environment) -> None:
    create_flag(key="plain", environment=production, **WRITE)
    create_flag(key="old", environment=production, expires_at=NOON, tags=["shop"], **WRITE)
    create_flag(key="young", environment=production, expires_at=NOON + timedelta(days=1), tags=["Shop"], **WRITE)
    archive_flag(key="young", environment=production, **WRITE)
    flags = Flag.objects.in_environment(production)

    assert [flag.key for flag in flags.current()] == ["old", "plain"]
    assert [flag.key for flag in flags.archived()] == ["young"]
    assert [flag.key for flag in flags.expired(NOON)] == ["old"]
    assert [flag.key for flag in flags.unexpired(NOON)] == ["plain", "young"]
    assert [flag.key for flag in flags.tagged("shop")] == ["old"]
    assert [flag.key for flag in flags.tagged("Shop").archived()] == ["young"]
