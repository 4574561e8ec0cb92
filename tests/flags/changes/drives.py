"""Writing and reading flags that experiments drive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from config.change_log.writing import writing
from config.errors import DomainError, ErrorCode
from config.models import Change, Environment
from flags.changes import flag_changes
from tests.conftest import ACTOR, NOON
from tests.flags.engine.experiments import experiment_rule

WRITE = {"actor": ACTOR, "now": NOON}
HALF = {"type": "percentage", "percentage": 50}
RULE = experiment_rule()


def write(function: Callable[..., Any], environment: Environment, key: str = "f", **values: Any) -> Any:
    with writing(**WRITE) as log:
        return function(log, key=key, environment=environment, **values)


def rules_of(environment: Environment, key: str = "f") -> Any:
    return flag_changes.get_flag(key, environment).rules


def revision() -> int:
    return Change.objects.latest_revision()


def refusal(*codes: ErrorCode) -> Any:
    return pytest.raises(DomainError, check=lambda error: error.code in codes)


def locked() -> Any:
    """Return the refusal of a write, which must name the experiment."""
    return pytest.raises(
        DomainError, check=lambda error: error.code is ErrorCode.EXPERIMENT_LOCKED and "checkout" in error.message
    )
