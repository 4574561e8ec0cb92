"""Planner settings of statements."""

from __future__ import annotations

import pytest
from django.db import connection, transaction

from config.database.planning import planned

pytestmark = pytest.mark.django_db


def settings() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('jit'), current_setting('work_mem')")
        return list(cursor.fetchone())


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL has these settings")
def test_planned__within_another__leaves_the_settings_of_that() -> None:
    before = settings()
    with transaction.atomic():
        with planned(jit="off", work_mem="7MB"):
            with planned(jit="on"):
                assert settings() == ["on", "7MB"]
            assert settings() == ["off", "7MB"]
        assert settings() == before


def test_planned__on_any_database__executes_its_body() -> None:
    with planned(jit="off"), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)
