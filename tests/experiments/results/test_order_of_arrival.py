"""Values and sums of all metric types do not depend on the order in which events, a stop and testers arrive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.changes import get_experiment, stop_experiment, update_experiment
from experiments.metrics.definition import Condition, Definition, Quantity
from experiments.models import ResultState, UserValue, VariantSums
from experiments.results.check import check_sums
from experiments.results.quantiles import compute_quantiles
from experiments.results.refresh import bring_up_to_date
from experiments.results.sums import KEY, NAMES
from tests.conftest import ACTOR, NOON
from tests.experiments.results.histories import (
    DEFINITIONS,
    FEW,
    NUMBERS,
    USERS,
    VARIANTS,
    History,
    make_experiment,
    replace_event,
)
from tests.experiments.results.test_quantiles import plain
from tests.experiments.results.test_refresh import as_near
from tests.selection import histories
from tests.transactions import undone

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
_VALUES = [field.name for field in UserValue._meta.concrete_fields if field.name not in ("state", "pk")]
STOP = NOON + timedelta(hours=150)
LATER = NOON + timedelta(days=30)
Step = Callable[[Environment], object]


def write(where: Environment) -> dict[str, Any]:
    return {"key": "e", "environment": where, "actor": ACTOR, "now": NOON}


def stop(where: Environment) -> None:
    stop_experiment(**write(where), stopped_at=STOP)


def force(user: str, where: Environment) -> None:
    update_experiment(**write(where), changes={"forced_variants": {user: "green"}})


def refresh(where: Environment) -> None:
    bring_up_to_date(get_experiment("e", where), LATER)


def record_one(event: NewEvent, where: Environment) -> None:
    record([event], where)


def steps_of(history: History, chance: Random) -> list[Step]:
    """Return reports of exposures and events, some of them at the same moment, with a stop and a tester."""
    moments = [history.moment(earliest=0) for _ in range(4)]
    events = []
    for number in range(30):
        event = history.event()
        if number % 4 == 0:
            reported = {"experimentId": "e", "variant": chance.choice(VARIANTS)}
            seen_at = history.moment(earliest=0)
            event = replace_event(event, name="seen", properties=reported, timestamp=seen_at, received_at=LATER)
        elif chance.random() < 0.5:
            event = replace_event(event, timestamp=chance.choice(moments), received_at=LATER)
        events.append(event)
    return [*(partial(record_one, event) for event in events), stop, partial(force, chance.choice(USERS))]


def results_after(where: Environment, steps: list[Step], metrics: Sequence[Definition]) -> Any:
    """Return the values, sums, caps and quantiles after these steps."""
    make_experiment(where, *metrics)
    for step in steps:
        step(where)
    refresh(where)
    experiment = get_experiment("e", where)
    assert check_sums(experiment, LATER) == []
    rows = [
        *UserValue.objects.order_by("user_id", "metric").values_list(*_VALUES),
        *VariantSums.objects.order_by("metric", "variant", "day").values_list(*KEY, *NAMES),
    ]
    caps, quantiles = ResultState.objects.get().caps, plain(compute_quantiles(experiment, LATER, [1]))
    return [[as_near(value) for value in row] for row in rows], caps, quantiles


@pytest.mark.parametrize("is_reversed", [False, True])
def test_values__steps_of_the_same_moment__are_passed_whatever_the_ids_and_the_order(
    production: Environment, is_reversed: bool
) -> None:
    looked, bought = Quantity("look"), Quantity("buy", where=(Condition("page", "equals", 1),))
    steps = (looked, bought, looked)
    experiment = make_experiment(production, Definition("funnel", 1, "funnel", looked, steps=steps))
    record([NewEvent(new_id(), "u", "seen", NOON, NOON, {"experimentId": "e", "variant": "green"})], production)
    ids = sorted((UUID(int=1), UUID(int=2), UUID(int=3)), reverse=is_reversed)
    names = ("look", "buy", "buy")
    for event_id, name in sorted(zip(ids, names, strict=True)):
        record([NewEvent(event_id, "u", name, NOON + HOUR, NOON + HOUR, {"page": 1})], production)
    refresh(production)
    assert UserValue.objects.get(metric=0).steps == 2

    record([NewEvent(UUID(int=0), "u", "look", NOON + 2 * HOUR, NOON + 2 * HOUR, {})], production)
    refresh(production)
    values = UserValue.objects.get(metric=0)
    assert (values.value, values.events, values.steps) == (1, 2, 3)
    assert check_sums(experiment, LATER) == []


def in_two_orders(where: Environment, seed: int) -> tuple[list[Step], list[Step], Sequence[Definition]]:
    """Return random steps, the same ones in another order with some refreshes, and metrics."""
    chance = Random(seed)
    metrics = chance.choice([DEFINITIONS, FEW, NUMBERS])
    with undone():
        steps = steps_of(History(make_experiment(where, *metrics), chance), chance)
    disturbed = [*steps, *[refresh] * chance.choice([2, 10])]
    chance.shuffle(disturbed)
    return steps, disturbed, metrics


@settings(histories(12), phases=[Phase.explicit, Phase.generate])
@given(seed=st.integers(0, 10**6))
def test_results__same_data_in_another_order__are_the_same(production: Environment, seed: int) -> None:
    *both, metrics = in_two_orders(production, seed)
    results = []
    for steps in both:
        with undone():
            results.append(results_after(production, steps, metrics))

    assert results[0] == results[1]
    assert len(results[0][0]) > 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", range(6))
def test_results__same_data_in_another_order_of_short_transactions__are_the_same(
    production: Environment, seed: int
) -> None:
    steps, disturbed, metrics = in_two_orders(production, seed)
    with undone():
        expected = results_after(production, steps, metrics)

    assert results_after(production, disturbed, metrics) == expected
