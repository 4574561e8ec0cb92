"""What metrics count of variants and exposures, while the database answers and while it is away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.snapshot.tables import Lateness, current
from experiments.results import lag
from experiments.results.refresh import bring_up_to_date
from tests.conftest import NOON
from tests.counted import counted, counting_anew, of
from tests.factories import ExperimentFactory
from tests.outage import database_away

pytestmark = pytest.mark.django_db


@pytest.mark.both_lanes
@pytest.mark.django_db(transaction=True)
def test_variant__while_the_database_is_away__is_remembered_or_unavailable(api: Any) -> None:
    path = f"/v1/experiments/{ExperimentFactory(running=True).key}/variant"
    known, new = {"userId": "known"}, {"userId": "new"}
    assert [api.post(path, known).status_code for _ in range(2)] == [200, 200]
    current.lateness = Lateness.CUT_OFF
    with counting_anew() as counts, database_away():
        assert [api.post(path, user).status_code for user in (known, new)] == [200, 503]
    assert of(counts, "variant_answers_total") == {("remembered",): 1, ("unavailable",): 1}


def test_lag__of_running_experiments__is_that_of_the_one_longest_behind() -> None:
    assert lag.longest(NOON) == timedelta()
    first, second = (ExperimentFactory(running=True) for _ in range(2))
    for experiment, hours in ((first, 3), (second, 1)):
        experiment.started_at = NOON - timedelta(hours=hours)
        experiment.save()
    assert lag.longest(NOON) == timedelta(hours=3)
    bring_up_to_date(first, NOON - timedelta(minutes=30))
    assert lag.longest(NOON) == timedelta(hours=1)
    lag.look(NOON)
    assert of(counted(), "refresh_lag_seconds") == {(): 3600}
    with database_away():
        lag.look(NOON + timedelta(hours=1))
    assert of(counted(), "refresh_lag_seconds") == {(): 3600}
