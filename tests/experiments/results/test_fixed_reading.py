"""Once a fixed analysis is read, everything that results show of its metrics is as of the reading."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine

from config.models import Environment
from config.timestamps import format_timestamp
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.changes import stop_experiment
from experiments.lifecycle.new_phase import open_phase
from experiments.metrics.changes import create_metric
from experiments.models import Experiment
from experiments.results.archive import freeze
from tests.admin import sign_in, text_of
from tests.answers import error
from tests.conftest import ACTOR, NOON
from tests.experiments.admin.results.test_pages import address
from tests.experiments.results.asking import ask
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
A_DAY, DAYS, PLANNED = 40, 9, 240
METRICS: dict[str, dict[str, Any]] = {
    "bought": {"type": "conversion", "event": "buy", "window_hours": 24},
    "spent": {"type": "revenue", "event": "buy", "currency": "EUR", "cap_percentile": 75},
    "items": {"type": "quantile", "event": "buy", "property": "items", "quantile": 0.5},
}
READ_AT = NOON + 5 * DAY + (A_DAY - 1) * DAY / A_DAY / 2 + DAY
"""The last planned user is exposed on the sixth day, and mature a day later."""


def users_of(day: int) -> Iterator[NewEvent]:
    """Yield the exposures of a day, and what the users buy in the days after: more of it in green, and ever more."""
    for number in range(A_DAY):
        at, user = NOON + day * DAY + number * DAY / A_DAY / 2, f"{day} {number}"
        variant, country = ("control", "green")[number % 2], ("CH", "DE", "FR")[number % 3]
        report = {"experimentId": "shop", "variant": variant, "country": country}
        yield NewEvent(new_id(), user, "exposed", at, at, report)
        often = (1, 2)[number % 2]
        for purchase in range(3):
            if number // 2 % 5 < often:
                yield buy(user, at + (1 + 30 * purchase) * HOUR, 10.0 + number + 50 * day)


def buy(user: str, at: datetime, revenue: float) -> NewEvent:
    return NewEvent(new_id(), user, "buy", at, at, {"revenue": revenue, "currency": "EUR", "items": revenue})


def record_until(environment: Environment, moment: datetime) -> None:
    record([event for day in range(DAYS) for event in users_of(day) if event.timestamp <= moment], environment)


def record_since(environment: Environment, moment: datetime) -> None:
    record([event for day in range(DAYS) for event in users_of(day) if event.timestamp > moment], environment)


@pytest.fixture
def shop(production: Environment) -> Experiment:
    for key, values in METRICS.items():
        create_metric(key=key, actor=ACTOR, now=NOON, **values)
    design = {"metrics": [*METRICS], "minimum_days": 0, "planned_size": PLANNED, "analysis": "fixed"}
    experiment: Experiment = ExperimentFactory(key="shop", environment=production, running=True, **design)
    record_until(production, READ_AT)
    return experiment


def read(client: Any, at: datetime, **parameters: str) -> dict[str, Any]:
    """Return what may not change any more: everything about metrics, by each kind of series."""
    with time_machine.travel(at, tick=False):
        daily = ask(client, series="daily", breakdown="country", **parameters)
        ages = ask(client, series="daysSinceExposure", **parameters)
    fixed = {name: daily[name] for name in ("plan", "metrics", "verdict", "breakdown", "maturity")}
    return {**fixed, "ages": ages["metrics"]}


def test_reading__users_and_events_of_later__change_nothing(
    api: Any, production: Environment, shop: Experiment
) -> None:
    before = read(api, READ_AT)
    assert before["plan"]["readAt"] == before["breakdown"]["asOf"] == format_timestamp(READ_AT)
    assert before["verdict"]["decision"] == "ship"
    record_since(production, READ_AT)
    after = read(api, NOON + 20 * DAY)
    assert after == before
    with time_machine.travel(NOON + 20 * DAY, tick=False):
        assert ask(api)["users"] == DAYS * A_DAY


def test_reading__its_parts__agree_with_one_another(api: Any, production: Environment, shop: Experiment) -> None:
    record_since(production, READ_AT)
    found = read(api, NOON + 20 * DAY)
    for index, metric in enumerate(found["metrics"]):
        for position, figures in enumerate(metric["variants"]):
            last = figures["series"][-1]
            assert (last["day"], last["value"]) == (f"{READ_AT:%Y-%m-%d}", figures["value"])
            assert (last["users"], last["countedUsers"]) == (figures["users"], figures["matureUsers"])
            assert len(figures["series"]) == (READ_AT.date() - NOON.date()).days + 1
            of_slices = [part["metrics"][index]["variants"][position] for part in found["breakdown"]["values"]]
            for name in ("users", "matureUsers", "events"):
                assert sum(part[name] for part in of_slices) == figures[name]
            if metric["type"] != "quantile":
                sums = [part["value"] * part["matureUsers"] for part in of_slices]
                assert sum(sums) == pytest.approx(figures["value"] * figures["matureUsers"])
    ages = found["ages"][0]["variants"][0]["daysSinceExposure"]
    assert [(day["day"], day["users"]) for day in ages][:2] == [(0, PLANNED // 2), (1, PLANNED // 2 - A_DAY // 2)]


def test_reading__cap_of_a_percentile__is_that_of_the_reading(
    api: Any, production: Environment, shop: Experiment
) -> None:
    [_, spent, _] = read(api, READ_AT)["metrics"]
    record_since(production, READ_AT)
    [_, after, _] = read(api, NOON + 20 * DAY)["metrics"]
    values = sorted(
        revenue
        for user in {event.user_id for day in range(DAYS) for event in users_of(day)}
        if (
            revenue := sum(
                event.properties["revenue"]
                for day in range(DAYS)
                for event in users_of(day)
                if event.user_id == user and event.name == "buy" and event.timestamp <= READ_AT
            )
        )
    )
    assert spent["cap"] == after["cap"] == values[-(-3 * len(values) // 4) - 1]


def test_reading__events_that_arrive_late__do_not_change_its_figures_and_days(
    api: Any, production: Environment, shop: Experiment
) -> None:
    before = read(api, READ_AT)
    read(api, READ_AT + DAY)  # what arrives from now on is too late
    record([buy(f"{day} {number}", NOON + 6 * DAY, 7.0) for day in range(6) for number in range(20)], production)
    after = read(api, NOON + 20 * DAY)
    assert (after["metrics"], after["verdict"]) == (before["metrics"], before["verdict"])


def test_reading__all_users_asked_for__are_the_mature_ones_of_the_reading(api: Any, shop: Experiment) -> None:
    everybody, mature = read(api, READ_AT, maturity="all"), read(api, READ_AT)
    mature["verdict"].pop("reached")  # which only readings without such parameters tell
    assert everybody == mature


def test_reading__enough_users_of_whom_some_are_not_mature__waits(api: Any, shop: Experiment) -> None:
    with time_machine.travel(READ_AT - DAY / 2, tick=False):
        answer = ask(api, maturity="all")
    assert (answer["plan"]["readAt"], answer["maturity"]) == (None, "all")
    assert sum(figures["users"] for figures in answer["metrics"][0]["variants"]) >= PLANNED
    comparison = answer["metrics"][0]["variants"][1]["comparison"]
    assert (comparison["label"], comparison["decidedBy"]) == ("unread", None)
    codes = {reason["code"] for reason in answer["verdict"]["reasons"]}
    assert (answer["verdict"]["decision"], codes) == ("keep_running", {"planned_size", "other_view"})


def test_reading__of_one_phase__has_figures_of_its_own(api: Any, production: Environment, shop: Experiment) -> None:
    weights = [{"key": "control", "weight": 9}, {"key": "green", "weight": 1}]
    arguments = {"key": "shop", "environment": production, "actor": ACTOR, "now": READ_AT}
    open_phase(**arguments, opened_at=READ_AT + HOUR, changes={"variants": weights}, reason="less of it")
    record_since(production, READ_AT)
    first, second = (read(api, NOON + 20 * DAY, phase=phase) for phase in ("1", "2"))
    assert first["metrics"] == read(api, NOON + 20 * DAY)["metrics"]
    assert first["metrics"][0]["variants"][1]["comparison"]["decidedBy"] == "fixedHorizon"
    assert [figures["users"] for figures in second["metrics"][0]["variants"]] == [0, 0]
    assert second["metrics"][0]["variants"][1]["comparison"]["decidedBy"] == "fixedHorizon"
    assert second["verdict"]["decision"] == first["verdict"]["decision"] == "ship"
    assert second["verdict"]["reasons"][-1]["code"] == "other_view"


@pytest.mark.parametrize(("days", "is_of_the_reading"), [(3, True), (29, True), (31, False)])
def test_reading__of_a_stopped_experiment__has_a_breakdown_while_its_events_are_there(
    api: Any, production: Environment, shop: Experiment, days: int, is_of_the_reading: bool
) -> None:
    before = read(api, READ_AT)
    record_since(production, READ_AT)
    stop = NOON + 20 * DAY
    freeze(stop_experiment(key="shop", environment=production, actor=ACTOR, now=stop, stopped_at=stop), stop + 2 * DAY)
    after = read(api, stop + days * DAY)
    assert {**after, "breakdown": None} == {**before, "breakdown": None}
    if is_of_the_reading:
        assert after["breakdown"] == before["breakdown"]
    else:
        assert after["breakdown"]["asOf"] == format_timestamp(stop)
        assert sum(part["users"] for part in after["breakdown"]["values"]) == DAYS * A_DAY
        of_quantile = after["breakdown"]["values"][0]["metrics"][2]["variants"][0]
        assert (of_quantile["value"], of_quantile["reason"]["code"]) == (None, "quantile_not_stored")
    with time_machine.travel(stop + days * DAY, tick=False):
        page = text_of(sign_in().get(address(shop), {"breakdown": "country"}))
    assert ("These values are as of the stop on 20 Feb 2026, not as of the one reading" in page) != is_of_the_reading


def test_reading__metric_added_after_it__is_refused(api: Any, shop: Experiment) -> None:
    read(api, READ_AT)
    answer = api.patch("/v1/experiments/shop", {"metrics": [*METRICS, "look"]})
    assert "read once" in error(answer, 409, "experiment_locked")["message"]


def test_reading__metric_added_before_it__is_read_as_well(api: Any, production: Environment, shop: Experiment) -> None:
    with time_machine.travel(READ_AT - HOUR, tick=False):
        assert api.patch("/v1/experiments/shop", {"metrics": [*METRICS, "buy"]}).status_code == 200
    added = read(api, READ_AT)["metrics"][3]
    assert added["isPostHoc"]
    assert added["variants"][1]["value"] == pytest.approx(0.4)
