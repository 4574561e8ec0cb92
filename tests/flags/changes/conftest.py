"""Flags for tests of writes, some of which an experiment drives."""

from __future__ import annotations

import pytest

from config.models import Environment
from flags.changes.experiment_rules import put_rule
from flags.changes.flag_changes import create_flag, get_flag
from flags.models import Flag
from tests.flags.changes import drives
from tests.flags.changes.writing import EVERYTHING, HALF, WRITE
from tests.flags.engine.experiments import COLOURS, experiment_rule


@pytest.fixture
def flag(production: Environment) -> Flag:
    return create_flag(key="a", environment=production, description="A", enabled=True, rules=HALF, **WRITE)


@pytest.fixture
def rich(production: Environment) -> Flag:
    """A flag with every property."""
    create_flag(key="base", environment=production, enabled=True, **WRITE)
    return create_flag(key="rich", environment=production, **EVERYTHING, **WRITE)


@pytest.fixture
def plain(production: Environment) -> Flag:
    """A flag without an experiment."""
    return create_flag(key="f", environment=production, enabled=True, rules=[drives.HALF], **drives.WRITE)


@pytest.fixture
def driven(plain: Flag, production: Environment) -> Flag:
    drives.write(put_rule, production, rule=drives.RULE)
    return get_flag("f", production)


@pytest.fixture
def coloured(production: Environment) -> Flag:
    """A flag with variants that an experiment drives."""
    create_flag(key="c", environment=production, **COLOURS, **drives.WRITE)
    drives.write(put_rule, production, "c", rule=experiment_rule(is_plain=False))
    return get_flag("c", production)
