"""Results past the planned size: what a reader sees of the reading as of then, and of today."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine

from config.models import Environment
from config.timestamps import format_timestamp
from events.recording import NewEvent, new_id, record
from experiments.metrics.changes import create_metric
from experiments.models import Experiment
from tests.admin import sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.admin.results.test_pages import address
from tests.experiments.results.asking import ask
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
A_DAY, DAYS, PLANNED = 100, 9, 400
READ_AT = NOON + 3 * DAY + (A_DAY - 1) * DAY / A_DAY / 2 + DAY
"""The last planned user is exposed on the fourth day, and mature a day later."""


def users_of(day: int) -> Iterator[NewEvent]:
    """Yield the users of a day: until the fourth, more of them buy in green, and later fewer."""
    for number in range(A_DAY):
        at, user = NOON + day * DAY + number * DAY / A_DAY / 2, f"{day} {number}"
        is_green = number % 2
        report = {"experimentId": "shop", "variant": ("control", "green")[is_green]}
        yield NewEvent(new_id(), user, "exposed", at, at, report)
        often = (3, 6)[is_green] if day < 4 else (3, 2)[is_green]
        if number // 2 % 10 < often:
            yield NewEvent(new_id(), user, "buy", at + HOUR, at + HOUR, {})


@pytest.fixture
def shop(production: Environment) -> Experiment:
    create_metric(key="bought", actor=ACTOR, now=NOON, type="conversion", event="buy", window_hours=24)
    create_metric(key="ever", actor=ACTOR, now=NOON, type="conversion", event="buy")
    design = {"metrics": ["bought", "ever"], "minimum_days": 0, "planned_size": PLANNED}
    experiment: Experiment = ExperimentFactory(key="shop", environment=production, running=True, **design)
    record([event for day in range(DAYS) for event in users_of(day)], production)
    return experiment


def read(client: Any, at: datetime, **parameters: str) -> Any:
    with time_machine.travel(at, tick=False):
        return ask(client, **parameters)


def rows_of(answer: Any) -> list[Any]:
    return [metric["variants"][1]["comparison"] for metric in answer["metrics"]]


def test_results__past_the_planned_size__rest_on_the_reading_of_then(api: Any, shop: Experiment) -> None:
    [before, _] = rows_of(read(api, READ_AT))
    assert (before["label"], before["plannedReading"]) == ("better", None)
    [row, other] = rows_of(read(api, NOON + 20 * DAY))
    assert row["plannedReading"] == {
        "asOf": format_timestamp(READ_AT.replace(microsecond=0)),
        "users": PLANNED,
        "isShown": True,
        "isContradicted": False,
    }
    assert row["label"] == "better"
    assert row["difference"]["estimate"] == pytest.approx(0.3)
    assert row["difference"]["today"] == pytest.approx((0.3 * 4 - 0.1 * 5) / 9)
    assert row["difference"]["alwaysValid"]["pValue"] == before["difference"]["alwaysValid"]["pValue"]
    assert row["lift"]["estimate"] == pytest.approx(1.0)
    assert (other["plannedReading"], "today" in other["difference"]) == (None, False)


def test_results__day_by_day__go_on_from_the_reading(api: Any, shop: Experiment) -> None:
    answer = read(api, NOON + 20 * DAY, series="daily")
    series = answer["metrics"][0]["variants"][1]["series"]
    estimates = {day["day"]: day["difference"] for day in series if day["difference"]["estimate"] is not None}
    assert "today" not in estimates[f"{NOON + 2 * DAY:%Y-%m-%d}"]
    later = [difference for day, difference in estimates.items() if day > f"{READ_AT:%Y-%m-%d}"]
    assert later
    assert all(difference["estimate"] == pytest.approx(0.3) for difference in later)
    assert later[-1]["today"] == pytest.approx((0.3 * 4 - 0.1 * 5) / 9)


@pytest.mark.parametrize("parameters", [{"control": "green"}, {"maturity": "all"}])
def test_results__another_view__rest_on_its_own_figures(api: Any, shop: Experiment, parameters: dict[str, str]) -> None:
    answer = read(api, NOON + 20 * DAY, **parameters)
    comparisons = [variant["comparison"] for variant in answer["metrics"][0]["variants"] if variant["comparison"]]
    assert [comparison["plannedReading"] for comparison in comparisons] == [None]


def test_page__past_the_planned_size__shows_both_estimates(shop: Experiment) -> None:
    with time_machine.travel(NOON + 20 * DAY, tick=False):
        page = text_of(sign_in("experiments.view_experiment").get(address(shop, "results")))
    assert "today +" in page
    assert "green was read at the planned size of 400 mature users, as of" in page
