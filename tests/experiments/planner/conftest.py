"""What tests of the planner start from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import time_machine

from experiments.planner import history
from tests.experiments.planner.asking import NOW


@pytest.fixture
def clock() -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def few_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "FEWEST_USERS", 1)
