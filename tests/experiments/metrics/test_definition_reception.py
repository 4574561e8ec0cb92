"""Which events of metrics were received, and which have stopped."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.models import Environment
from events.counts.queries import frequent_names
from experiments.metrics.definition import Definition, Quantity, never_received, stopped
from tests.conftest import NOON
from tests.factories import EventFactory

pytestmark = pytest.mark.django_db
BUY = Definition("m", 1, "count", Quantity("buy"))
STEPS = (Quantity("view"), Quantity("buy"), Quantity("thank"))
FUNNEL = Definition("f", 1, "funnel", STEPS[0], steps=STEPS)
RATIO = Definition("r", 1, "ratio", Quantity("buy"), denominator=Quantity("visit"))


def test_never_received__of_several_metrics__are_their_missing_events(
    production: Environment, django_assert_num_queries: Any
) -> None:
    EventFactory.create_batch(3, name="buy")
    EventFactory(name="view", timestamp=NOON - timedelta(days=400))
    with django_assert_num_queries(1):
        assert never_received([BUY, FUNNEL, RATIO], production) == {"thank", "visit"}
    with django_assert_num_queries(0):
        assert never_received([], production) == set()


def test_never_received__events_of_another_environment__do_not_count(
    production: Environment, staging: Environment
) -> None:
    EventFactory(name="buy", environment=staging)
    assert never_received([BUY], production) == {"buy"}
    assert never_received([BUY], staging) == set()


@pytest.mark.parametrize("name", ['a"b', "it's", "100 %", "käufe", "\N{ROCKET}", "a\\u0000b", "\x01"])
def test_never_received__any_name__is_compared_as_it_is(production: Environment, name: str) -> None:
    metric = Definition("m", 1, "count", Quantity(name))
    assert never_received([metric], production) == {name}
    EventFactory(name=name)
    assert never_received([metric], production) == set()


def test_stopped__of_several_metrics__are_their_silent_events(
    production: Environment, django_assert_num_queries: Any
) -> None:
    for name, since in (("buy", 24), ("view", 0)):
        for hour in range(since, since + 100):
            EventFactory(name=name, timestamp=NOON - timedelta(hours=hour))
    with django_assert_num_queries(1):
        assert set(stopped([BUY, FUNNEL, RATIO], production, NOON)) == {"buy"}


def test_frequent_names__since_a_time__are_in_alphabetical_order(production: Environment, staging: Environment) -> None:
    EventFactory.create_batch(2, name="view")
    EventFactory(name="buy")
    EventFactory(name="gone", timestamp=NOON - timedelta(days=8))
    EventFactory(name="other", environment=staging)
    assert frequent_names(production, NOON - timedelta(days=7)) == ["buy", "view"]
