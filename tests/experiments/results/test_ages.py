"""The values of one metric by days since the exposure, compared with a plain computation."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.models import Environment
from events.models import Event
from experiments.exposures.recording import assign
from experiments.metrics.definition import Definition, Quantity, definitions_of
from experiments.models import Experiment, ResultState
from experiments.results.ages import can_be_split, read_ages
from experiments.results.refresh import bring_up_to_date
from experiments.results.sums import EXPOSURE, ExactSums, read_caps
from tests.conftest import NOON
from tests.experiments.results.by_hand import counted_at, counting_events, exposed
from tests.experiments.results.histories import History, make_experiment
from tests.experiments.results.series_by_hand import Sums, add, by_label, near, stopped_at, values_of
from tests.factories import EventFactory
from tests.selection import histories
from tests.transactions import undone

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def days_by_hand(experiment: Experiment, metric_index: int, at: datetime) -> dict[int, Sums]:
    """Return the sums of the values of each day, by the number of the day since the exposure."""
    stopped, days = stopped_at(experiment, at), dict[int, Sums]()
    definition, cap = definitions_of(experiment)[metric_index], read_caps(experiment).get(metric_index, math.inf)
    kind = "conversion" if definition.type == "retention" else definition.type
    of_day = replace(definition, type=kind, delay=timedelta(0), window=None, cap_percentile=None)
    events = list(Event.objects.filter(environment=experiment.environment))
    end = stopped.stopped_at if definition.window is None else stopped.counts_until
    assert end is not None
    for exposure in exposed(stopped):
        base, own = exposure.exposed_at.replace(microsecond=0), counting_events(events, exposure, stopped, definition)
        for day in range((end - base) // DAY):
            on_day = [event for event in own if (counted_at(event) - base) // DAY == day]
            sums = days.setdefault(day, {})
            add(sums, (EXPOSURE, exposure.variant, exposure.phase), ExactSums(users=1))
            key = metric_index, exposure.variant, exposure.phase
            add(sums, key, values_of(of_day, exposure, on_day, cap, True))
    return days


@histories(6)
@given(chance=st.randoms(use_true_random=False))
def test_read_ages__any_history__is_what_computing_by_hand_gives(production: Environment, chance: Random) -> None:
    with undone():
        history = History(make_experiment(production), chance)
        for _ in range(20):
            history.happen()
        experiment, at = history.experiment, history.moment(earliest=0)
        bring_up_to_date(experiment, at)
        for index, definition in enumerate(definitions_of(experiment)):
            if can_be_split(definition):
                days = enumerate(read_ages(experiment, index, at, read_caps(experiment)))
                found = {day: by_label(by_phase, {}) for day, by_phase in days}
                assert near(found) == near(days_by_hand(experiment, index, at))


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """An experiment on retention of the second week, with two users in green exposed a day apart."""
    definition = Definition("returned", 1, "retention", Quantity("buy"), delay=7 * DAY, window=7 * DAY)
    experiment = make_experiment(production, definition)
    assign(experiment.pk, "u", "green", NOON)
    assign(experiment.pk, "v", "green", NOON + DAY)
    return experiment


def active(experiment: Experiment, at: datetime) -> list[tuple[int, int]]:
    """Return the users who count and the active ones, for each day since the exposure."""
    bring_up_to_date(experiment, at)
    return [
        (totals[EXPOSURE]["green"].users, totals.get(0, {}).get("green", ExactSums()).positive)
        for totals in (by_phase[1] for by_phase in read_ages(experiment, 0, at, {}))
    ]


def buy(user: str, at: datetime) -> None:
    EventFactory(user_id=user, name="buy", timestamp=at, received_at=at)


def test_read_ages__days_that_are_not_over__are_left_out(experiment: Experiment) -> None:
    assert active(experiment, NOON + DAY - timedelta(microseconds=1)) == []
    assert active(experiment, NOON + DAY) == [(1, 0)]
    assert active(experiment, NOON + 2 * DAY) == [(2, 0), (1, 0)]


def test_read_ages__event_of_a_day__counts_on_that_day_alone(experiment: Experiment) -> None:
    buy("u", NOON - timedelta(seconds=1))
    buy("u", NOON + DAY)
    buy("v", NOON + 2 * DAY - timedelta(microseconds=1))
    buy("v", NOON + 4 * DAY)  # its day is not over

    assert active(experiment, NOON + 4 * DAY) == [(2, 1), (2, 1), (2, 0), (1, 0)]


def test_read_ages__frozen_by_now__is_empty(experiment: Experiment) -> None:
    bring_up_to_date(experiment, NOON)
    Experiment.objects.filter(pk=experiment.pk).update(frozen_at=NOON)
    ResultState.objects.update(archive={})
    experiment.refresh_from_db()

    assert active(experiment, NOON + 4 * DAY) == []
