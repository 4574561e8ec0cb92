"""The shop whose results are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import time_machine

from config.models import Environment
from experiments.models import Experiment
from tests.conftest import NOON
from tests.experiments.results.shop import make_shoppers, open_shop

SHOPPERS = make_shoppers(80)
LATER = NOON + timedelta(days=6)


@pytest.fixture
def shop(production: Environment) -> Iterator[Experiment]:
    with time_machine.travel(LATER, tick=False):
        yield open_shop(production, SHOPPERS)
