"""A test that ran elsewhere: started in the past, imported from two tables, stopped in the past, and analysed."""

from __future__ import annotations

from datetime import timedelta
from math import sqrt
from pathlib import Path

import pytest

from experiments.models import Experiment
from experiments.results.analyse import analyse_experiment
from tests.conftest import NOON
from tests.events.imports.importing import run, write
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

USERS = 200
"""Of each variant. Of the control one in ten buys, of green one in five."""
NOW = NOON + timedelta(days=60)
BUYS = {"control": 10, "green": 5}


def exposures(folder: Path) -> str:
    rows = [
        f"{variant}-{number},{variant},2026-02-{1 + number % 14:02}T08:00:00Z"
        for variant in BUYS
        for number in range(USERS)
    ]
    return write(folder, "exposures.csv", "userId,variant,exposedAt", *rows)


def events(folder: Path) -> str:
    """Everybody who buys does so an hour after the exposure; some bought before it, and some after the stop."""
    rows = []
    for variant, every in BUYS.items():
        for number in range(USERS):
            day = 1 + number % 14
            if number % every == 0:
                rows.append(f"purchase,{variant}-{number},2026-02-{day:02}T09:00:00Z")
            elif number % every == 1:
                rows.append(f"purchase,{variant}-{number},2026-02-{day:02}T07:00:00Z")
            elif number % every == 2:
                rows.append(f"purchase,{variant}-{number},2026-02-16T00:00:01Z")
    return write(folder, "events.csv", "event,userId,timestamp", *rows)


def test_history__of_a_test_elsewhere__gives_what_is_computed_by_hand(tmp_path: Path) -> None:
    ExperimentFactory(key="elsewhere", lookback_days=0)
    assert run("start_experiment", "elsewhere", "--at", "2026-02-01", "--reason", "It ran elsewhere", at=NOW)[0] == (
        "elsewhere has been running since 2026-02-01T00:00:00.000000Z.\n"
    )
    run("import_events", events(tmp_path), at=NOW)
    run("import_exposures", "elsewhere", exposures(tmp_path), at=NOW)
    assert run("stop_experiment", "elsewhere", "--at", "2026-02-16T00:00:00Z", at=NOW)[0] == (
        "elsewhere has been stopped since 2026-02-16T00:00:00.000000Z.\n"
    )

    results = analyse_experiment(Experiment.objects.get(), NOW)
    assert [(entry.key, entry.users) for entry in results.variants] == [("control", USERS), ("green", USERS)]
    [purchase] = results.metrics
    control, green = (entry.estimate for entry in purchase.variants)
    assert (control.value, green.value) == (0.1, 0.2)
    difference = green.comparison.difference
    assert difference.estimate == pytest.approx(0.1)
    by_hand = sqrt(0.1 * 0.9 / (USERS - 1) + 0.2 * 0.8 / (USERS - 1))
    assert difference.standard_error == pytest.approx(by_hand, rel=1e-9)
