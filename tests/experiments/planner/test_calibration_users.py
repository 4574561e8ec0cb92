"""The users whom a calibration splits: all with their values, or a part with all of theirs."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from config.models import Environment
from experiments.exposures.recording import assign
from experiments.metrics.definition import Definition, Quantity
from experiments.planner.calibration import DrawnUsers
from experiments.results.refresh import refresh
from experiments.results.sums import read_caps
from tests.conftest import NOON
from tests.experiments.results.by_hand import exposed, values_by_hand
from tests.experiments.results.histories import DEFINITIONS, History, make_experiment
from tests.factories import EventFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def test_read__all_users__are_in_order_and_capped(production: Environment) -> None:
    experiment = make_experiment(production)
    history = History(experiment, Random(7))
    for _ in range(40):
        history.chance.choice([history.record, history.report, history.assign, history.move])()
    refresh(experiment, NOON + DAY)
    stored, caps = values_by_hand(experiment), read_caps(experiment)
    users = sorted(exposed(experiment), key=lambda exposure: (exposure.exposed_at, exposure.user_id))
    assert len(users) > 2

    for index in range(len(DEFINITIONS)):
        values = (stored.get((index, user.user_id), (None, None, None, 0, 0, 0, 0)) for user in users)
        cap = caps.get(index, 1e300)
        assert list(DrawnUsers(experiment, len(users)).read(index)) == [
            (user.user_id, user.exposed_at, *map(pytest.approx, (min(y, cap), d, min(x, cap), e)))
            for user, (_, _, _, y, d, x, e, *_) in zip(users, values, strict=True)
        ]


def test_read__more_users_than_may_be_read__are_a_share_with_all_their_events(production: Environment) -> None:
    experiment = make_experiment(production, Definition("load", 1, "quantile", Quantity("load", "ms"), quantile=0.5))
    for number in range(400):
        assign(experiment.pk, f"user-{number}", "green", NOON + number * timedelta(minutes=1))
        for _ in range(number % 3):
            EventFactory(name="load", user_id=f"user-{number}", timestamp=NOON + DAY, properties={"ms": number})
    refresh(experiment, NOON + 2 * DAY)

    drawn, everybody = DrawnUsers(experiment, 100), DrawnUsers(experiment, 400)
    assert drawn.exposed == everybody.exposed == 400
    users = [*drawn.read(0)]
    assert 60 < len(users) < 140
    assert [user for user in everybody.read(0) if user in users] == users
    ids = {user_id for user_id, *_ in users}
    of_drawn = [(user_id, value) for user_id, value in everybody.read_values(0) if user_id in ids]
    assert sorted(drawn.read_values(0)) == sorted(of_drawn) != []
