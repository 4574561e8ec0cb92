"""Flags for tests of writes."""

from __future__ import annotations

import pytest

from config.models import Environment
from flags.changes.flag_changes import (
    create_flag,
)
from flags.models import Flag
from tests.flags.changes.writing import EVERYTHING, HALF, WRITE


@pytest.fixture
def flag(production: Environment) -> Flag:
    return create_flag(key="a", environment=production, description="A", enabled=True, rules=HALF, **WRITE)


@pytest.fixture
def rich(production: Environment) -> Flag:
    """A flag with every property."""
    create_flag(key="base", environment=production, enabled=True, **WRITE)
    return create_flag(key="rich", environment=production, **EVERYTHING, **WRITE)
