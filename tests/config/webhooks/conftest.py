"""A change log in which the changes of tests have the times that the tests give them."""

from __future__ import annotations

import pytest

from config.models import Change
from tests.conftest import NOON


@pytest.fixture
def log_of_the_past(db: None) -> None:
    """The environments of a new database were created before all else: no change is before an earlier one."""
    Change.objects.update(at=NOON)
