"""A flag without an experiment, and flags that an experiment drives."""

from __future__ import annotations

import pytest

from config.models import Environment
from flags.changes import flag_changes
from flags.experiment_rule import changes as driving
from flags.models import Flag
from tests.flags.engine.experiments import COLOURS, experiment_rule
from tests.flags.experiment_rule.drives import HALF, RULE, WRITE, write


@pytest.fixture
def flag(production: Environment) -> Flag:
    return flag_changes.create_flag(key="f", environment=production, enabled=True, rules=[HALF], **WRITE)


@pytest.fixture
def driven(flag: Flag, production: Environment) -> Flag:
    write(driving.put_rule, production, rule=RULE)
    return flag_changes.get_flag("f", production)


@pytest.fixture
def coloured(production: Environment) -> Flag:
    """A flag with variants that an experiment drives."""
    flag_changes.create_flag(key="c", environment=production, **COLOURS, **WRITE)
    write(driving.put_rule, production, "c", rule=experiment_rule(is_plain=False))
    return flag_changes.get_flag("c", production)
