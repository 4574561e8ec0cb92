"""A flag, and flags that an experiment drives."""

from __future__ import annotations

import pytest

from config.models import Environment
from flags import changes, driving
from flags.models import Flag
from tests.flags.driving.drives import HALF, RULE, WRITE, write
from tests.flags.engine.experiments import COLOURS, experiment_rule


@pytest.fixture
def flag(production: Environment) -> Flag:
    return changes.create_flag(key="f", environment=production, enabled=True, rules=[HALF], **WRITE)


@pytest.fixture
def driven(flag: Flag, production: Environment) -> Flag:
    write(driving.put_rule, production, rule=RULE)
    return changes.get_flag("f", production)


@pytest.fixture
def coloured(production: Environment) -> Flag:
    """A flag with variants that an experiment drives."""
    changes.create_flag(key="c", environment=production, **COLOURS, **WRITE)
    write(driving.put_rule, production, "c", rule=experiment_rule(is_plain=False))
    return changes.get_flag("c", production)
