"""The sums as of a moment after random histories."""

from __future__ import annotations

import math
from datetime import datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.models import Environment
from experiments.metrics.definition import Definition
from experiments.models import Experiment
from experiments.results import values
from experiments.results.fixed_reading import find_caps, sums_until_stop
from experiments.results.series import compute_changes, finished_days
from tests.experiments.results.by_hand import last_moment
from tests.experiments.results.histories import DEFINITIONS, STEPS, History, make_experiment
from tests.experiments.results.series_by_hand import (
    by_label,
    caps_by_hand,
    near,
    series_by_hand,
    stopped_at,
    sums_until,
)
from tests.selection import histories
from tests.transactions import undone

pytestmark = pytest.mark.django_db


def as_if_stopped(experiment: Experiment, moment: datetime) -> Any:
    stopped, end = stopped_at(experiment, moment), min(moment, last_moment(experiment))
    return near({None: sums_until(experiment, end, caps_by_hand(stopped), has_events=True)})


@histories(6)
@given(chance=st.randoms(use_true_random=False))
def test_sums_until_stop__any_history__is_what_computing_by_hand_gives(production: Environment, chance: Random) -> None:
    with undone():
        history = History(make_experiment(production), chance)
        for _ in range(30):
            history.happen()
        for _ in range(4):
            moment = history.moment(earliest=0)
            stopped = values.as_if_stopped(history.experiment, moment)
            found = sums_until_stop(stopped, find_caps(stopped))
            assert near({None: by_label(found.by_phase, found.mature)}) == as_if_stopped(history.experiment, moment)


@histories(6)
@given(chance=st.randoms(use_true_random=False))
def test_compute_changes__any_history__leads_to_the_sums_of_each_day(production: Environment, chance: Random) -> None:
    with undone():
        ever = Definition("ever", 1, "funnel", STEPS[0], steps=STEPS)
        history = History(make_experiment(production, *DEFINITIONS, ever), chance)
        for _ in range(30):
            history.happen()
        for _ in range(3):
            moment = min(history.moment(earliest=0), last_moment(history.experiment))
            stopped = stopped_at(history.experiment, moment)
            caps = caps_by_hand(stopped)
            changes = compute_changes(stopped, {index: cap for index, cap in caps.items() if cap < math.inf})
            days = finished_days(changes, moment)
            found = {day: by_label(sums.by_phase, sums.mature) for day, sums in days}
            assert near(found) == near(series_by_hand(history.experiment, moment, caps))
