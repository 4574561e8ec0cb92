"""Fixtures that tests of several rooms share: a shop with an experiment, and a clock for the planner."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import time_machine

from config.models import Environment
from experiments.models import Experiment
from experiments.planner import history
from tests.conftest import NOON
from tests.experiments.planner.asking import NOW
from tests.experiments.results.shop import make_shoppers, open_shop

SHOPPERS = make_shoppers(80)
LATER = NOON + timedelta(days=6)


@pytest.fixture
def shop(production: Environment) -> Iterator[Experiment]:
    with time_machine.travel(LATER, tick=False):
        yield open_shop(production, SHOPPERS)


@pytest.fixture
def clock() -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def few_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MIN_USERS", 1)
