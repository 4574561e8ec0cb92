"""Totals and sums of all metric types do not depend on the order in which events, a stop and testers arrive."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from config.models import Environment
from events.recording.ingest import NewEvent, record
from experiments.aggregates.checking import check_sums
from experiments.aggregates.quantiles import compute_quantiles
from experiments.aggregates.variant_sums import KEY, NAMES
from experiments.exposures.up_to_date import bring_up_to_date
from experiments.lifecycle.changes import get_experiment, stop_experiment, update_experiment
from experiments.models import AggregateState, UserTotal, VariantSums
from tests.conftest import ACTOR, NOON
from tests.experiments.aggregates.histories import USERS, VARIANTS, History, make_experiment, replace_event
from tests.experiments.aggregates.test_quantiles import plain
from tests.experiments.aggregates.test_refresh import as_near
from tests.selection import histories
from tests.transactions import undone

pytestmark = pytest.mark.django_db

STOP = NOON + timedelta(hours=150)
LATER = NOON + timedelta(days=30)
Step = Callable[[Environment], object]


def write(where: Environment) -> dict[str, Any]:
    return {"key": "e", "environment": where, "actor": ACTOR, "at": NOON}


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


def aggregates_after(where: Environment, steps: list[Step]) -> Any:
    """Return the totals, sums, caps and quantiles after these steps, and undo them."""
    with undone():
        experiment = make_experiment(where)
        for step in steps:
            step(where)
        refresh(where)
        experiment = get_experiment("e", where)
        assert check_sums(experiment, LATER) == []
        rows = [
            *UserTotal.objects.order_by("user_id").values_list("user_id", "variant", "exposed_at", "figures"),
            *VariantSums.objects.order_by("metric", "variant", "day").values_list(*KEY, *NAMES),
        ]
        caps, quantiles = AggregateState.objects.get().caps, plain(compute_quantiles(experiment, LATER, [1]))
    return [[flat(value) for value in row] for row in rows], caps, quantiles


def flat(value: Any) -> Any:
    return [as_near(number) for number in value] if isinstance(value, list) else as_near(value)


@settings(histories(12), phases=[Phase.explicit, Phase.generate])
@given(seed=st.integers(0, 10**6))
def test_aggregates__same_data_in_another_order__are_the_same(production: Environment, seed: int) -> None:
    chance = Random(seed)
    with undone():
        steps = steps_of(History(make_experiment(production), chance), chance)
    disturbed = [*steps, refresh, refresh]
    chance.shuffle(disturbed)

    first = aggregates_after(production, steps)
    assert first == aggregates_after(production, disturbed)
    assert len(first[0]) > 2
