"""A world to attack: a flag, a draft and a running experiment in production, and a key that may do everything there."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from config.api_keys import create_key
from config.models import ApiKey, Change, Environment, Scope
from events.models import Event
from experiments.lifecycle import create_experiment, start_experiment
from experiments.models import Exposure
from flags.changes import create_flag
from tests.conftest import ACTOR, NOON


class World(NamedTuple):
    """The secret of the key, and a look at all that a request could have left behind."""

    key: str

    def stored(self) -> tuple[Any, ...]:
        return (
            Change.objects.latest_revision(),
            ApiKey.objects.count(),
            Event.objects.count(),
            list(Exposure.objects.order_by("user_id").values_list("experiment_id", "user_id", "variant")),
        )


@pytest.fixture
def world(production: Environment) -> World:
    common = {"environment": production, "actor": ACTOR, "at": NOON}
    _, secret = create_key(name="attacker", scope=Scope.MANAGE, **common)
    create_flag(key="known", enabled=False, **common)
    variants = [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]
    for key in ("draft", "running"):
        create_experiment(key=key, variants=variants, metrics=["buy"], **common)
    start_experiment(key="running", **common)
    return World(secret)
