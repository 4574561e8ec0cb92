"""The effect by days since the exposure, which shows whether it wears off."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.changes import stop_experiment
from experiments.results.archive import freeze
from tests.conftest import ACTOR, NOON
from tests.experiments.results.asking import ask
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
NOW = NOON + 4 * DAY
USERS = 40
LOOKS = {"green": (3, 1, 1), "control": (1, 1, 1)}
"""The looks of every second user on each day since the exposure: the effect is over after the first day."""


@pytest.fixture
def shop(production: Environment) -> Any:
    design = {"metrics": ["look"], "lookback_days": 0, "minimum_days": 0}
    experiment = ExperimentFactory(key="shop", environment=production, running=True, **design)
    experiment.definitions[0] |= {"type": "count"}
    experiment.save(update_fields=["definitions"])
    events = []
    for number in range(2 * USERS):
        variant, at = ("control", "green")[number % 2], NOON + number // 2 % 2 * DAY
        report = {"experimentId": "shop", "variant": variant}
        events.append(NewEvent(new_id(), f"{number}", "exposed", at, at, report))
        for day, looks in enumerate(LOOKS[variant]):
            moments = [at + day * DAY + timedelta(minutes=minute) for minute in range(looks * (number // 4 % 2))]
            events += [NewEvent(new_id(), f"{number}", "look", moment, moment, {}) for moment in moments]
    record(events, production)
    return experiment


def ages(api: Any) -> list[list[dict[str, Any]]]:
    with time_machine.travel(NOW, tick=False):
        variants = ask(api, series="daysSinceExposure")["metrics"][0]["variants"]
    return [figures["daysSinceExposure"] for figures in variants]


def test_series__by_days_since_exposure__has_the_effect_of_each_day(api: Any, shop: Any) -> None:
    control, green = ages(api)
    assert [(day["day"], day["users"]) for day in green] == [(0, USERS), (1, USERS), (2, USERS), (3, USERS // 2)]
    assert [day["value"] for day in control] == pytest.approx([0.5, 0.5, 0.5, 0])
    assert [day["value"] for day in green] == pytest.approx([1.5, 0.5, 0.5, 0])
    assert [day["difference"]["estimate"] for day in green[:3]] == pytest.approx([1, 0, 0])
    assert [day["lift"]["estimate"] for day in green[:3]] == pytest.approx([2, 0, 0])
    assert {day["difference"] for day in control} == {None}


def test_series__by_days_since_exposure__stays_when_the_results_freeze(
    api: Any, production: Environment, shop: Any
) -> None:
    stopped = stop_experiment(key="shop", environment=production, actor=ACTOR, now=NOW, stopped_at=NOW)
    before = ages(api)
    freeze(stopped, NOW + 2 * DAY)
    assert ages(api) == before
