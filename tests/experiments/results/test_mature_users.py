"""Metrics with a window count the users whose window has passed. The others wait, or were cut off by the stop."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine

from config.models import Environment
from config.timestamps import format_timestamp, parse_timestamp
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.changes import stop_experiment
from experiments.metrics.changes import create_metric
from experiments.models import Exposure
from experiments.results.archive import freeze
from tests.conftest import ACTOR, NOON
from tests.experiments.results.asking import PATH, ask
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
DAYS, A_DAY = 16, 40
NOW = NOON + DAYS * DAY
RETENTION = {"type": "retention", "event": "visit", "from_day": 7, "to_day": 14}


def visitors(until: datetime = NOW) -> Iterator[NewEvent]:
    """Yield the exposures of as many users on each day, and their visits: two of five come back 7 to 14 days later."""
    for number in range(DAYS * A_DAY):
        at = NOON + number * DAY / A_DAY
        variant = ("control", "green")[number % 2]
        country = {"country": ("CH", "DE")[number // 2 % 2]}
        user = f"user-{number}"
        yield NewEvent(new_id(), user, "exposed", at, at, {"experimentId": "shop", "variant": variant, **country})
        back = at + 7 * DAY + number % 7 * DAY + DAY / 2
        if number // 2 % 5 < 2 and back <= until:
            yield NewEvent(new_id(), user, "visit", back, back, {})


@pytest.fixture
def shop(production: Environment) -> Iterator[Any]:
    with time_machine.travel(NOW, tick=False):
        create_metric(key="came-back", actor=ACTOR, now=NOON, **RETENTION)
        design = {"metrics": ["came-back", "visit"], "lookback_days": 0, "minimum_days": 0}
        experiment = ExperimentFactory(key="shop", environment=production, running=True, **design)
        record(list(visitors()), production)
        yield experiment


def retention(answer: Any) -> list[Any]:
    variants: list[Any] = answer["metrics"][0]["variants"]
    return variants


def test_retention__of_a_true_rate_of_two_in_five__is_that_of_the_users_whose_days_are_over(
    api: Any, shop: Any
) -> None:
    for figures in retention(ask(api)):
        assert figures["value"] == pytest.approx(0.4, abs=0.03)
        assert (figures["users"], figures["matureUsers"]) == (
            DAYS * A_DAY // 2,
            2 * A_DAY // 2 + figures["key"].count("control"),
        )


def test_maturity_all__counts_everybody_and_says_so(api: Any, shop: Any) -> None:
    answer = ask(api, maturity="all")
    assert (answer["maturity"], ask(api)["maturity"]) == ("all", "mature")
    mature = [figures["matureUsers"] for figures in retention(ask(api))]
    for figures, number in zip(retention(answer), mature, strict=True):
        assert figures["value"] < 0.25
        assert figures["matureUsers"] == number


def test_verdict__of_a_metric_with_a_window__names_the_users_whom_it_counts(api: Any, shop: Any) -> None:
    needed = "a verdict needs 100 in every variant."
    messages = [reason["message"] for reason in ask(api)["verdict"]["reasons"]]
    assert messages == [f"control has 41 mature users; {needed}", f"green has 40 mature users; {needed}"]
    *shown, _ = (reason["message"] for reason in ask(api, maturity="all")["verdict"]["reasons"])
    assert shown == messages


def test_maturity_all__by_attribute__has_the_mature_users_of_each_value(api: Any, shop: Any) -> None:
    whole, mature = (ask(api, breakdown="country", maturity=which) for which in ("all", "mature"))
    for part, of_mature in zip(whole["breakdown"]["values"], mature["breakdown"]["values"], strict=True):
        for figures, other in zip(retention(part), retention(of_mature), strict=True):
            assert figures["matureUsers"] == other["matureUsers"] < figures["users"] == other["users"]
            assert figures["value"] < other["value"]


def test_waiting__users_in_their_windows__are_listed_with_when_half_of_them_count(api: Any, shop: Any) -> None:
    for figures in retention(ask(api)):
        waiting = figures["waiting"]
        assert waiting["users"] == figures["users"] - figures["matureUsers"]
        assert figures["cutOffUsers"] == 0
        exposures = Exposure.objects.filter(variant=figures["key"]).order_by("-exposed_at")
        middle = exposures[waiting["users"] // 2].exposed_at
        assert abs(parse_timestamp(waiting["halfMatureAt"]) - middle - 14 * DAY) <= DAY / (A_DAY // 2)


def test_waiting__of_a_metric_without_a_window__is_nobody(api: Any, shop: Any) -> None:
    for figures in ask(api)["metrics"][1]["variants"]:
        assert (figures["waiting"], figures["matureUsers"]) == (None, figures["users"])


def test_users__who_become_mature_without_an_event__count_from_then_on(api: Any, shop: Any) -> None:
    before = sum(figures["matureUsers"] for figures in retention(ask(api)))
    with time_machine.travel(NOW + DAY / 2, tick=False):
        assert sum(figures["matureUsers"] for figures in retention(ask(api))) == before + A_DAY // 2


@pytest.mark.parametrize("is_frozen", [False, True])
def test_stop__users_in_their_windows__are_cut_off(
    api: Any, production: Environment, shop: Any, is_frozen: bool
) -> None:
    before = retention(ask(api))
    stopped = stop_experiment(key="shop", environment=production, actor=ACTOR, now=NOW, stopped_at=NOW)
    if is_frozen:
        freeze(stopped, NOW + 30 * DAY)
    with time_machine.travel(NOW + 40 * DAY, tick=False):
        after = retention(ask(api))
    for figures, earlier in zip(after, before, strict=True):
        assert (figures["value"], figures["interval"]) == (earlier["value"], earlier["interval"])
        assert (figures["waiting"], figures["cutOffUsers"]) == (None, earlier["waiting"]["users"])


def test_breakdown__of_a_metric_with_a_window__counts_mature_users(api: Any, shop: Any) -> None:
    slices = ask(api, breakdown="country")["breakdown"]["values"]
    whole = retention(ask(api))
    for index, figures in enumerate(whole):
        of_slices = [part["metrics"][0]["variants"][index] for part in slices]
        assert sum(part["matureUsers"] for part in of_slices) == figures["matureUsers"]
        returned = [part["value"] * part["matureUsers"] for part in of_slices]
        assert sum(returned) == pytest.approx(figures["value"] * figures["matureUsers"])


def test_series__of_a_metric_with_a_window__counts_those_who_were_mature_on_each_day(api: Any, shop: Any) -> None:
    for figures in retention(ask(api, series="daily")):
        series = figures["series"]
        assert [entry["countedUsers"] for entry in series[:14]] == [0] * 14
        assert series[-1]["countedUsers"] == figures["matureUsers"]
        assert 0 < series[14]["countedUsers"] < series[15]["countedUsers"] < series[16]["countedUsers"]


def test_explanation__of_a_metric_with_a_window__counts_mature_users_and_says_so(api: Any, shop: Any) -> None:
    figures = retention(ask(api))[1]
    explained = ask(api, f"{PATH}/explain", metric="came-back", variant="green")
    assert (explained["users"], explained["value"]) == (figures["matureUsers"], pytest.approx(figures["value"]))
    [step] = [step for step in explained["steps"] if step["name"] == "by_mature_users"]
    assert step["description"] == f"Events by users whose window had passed at {format_timestamp(NOW)}."


def test_get_experiment__of_a_metric_with_a_window__counts_everybody_without_a_window(api: Any, shop: Any) -> None:
    results = api.get("/v1/experiments/shop").json()["data"]["results"]
    everybody = ask(api)["metrics"][1]["variants"]
    for figures in everybody:
        of_variant = results[figures["key"]]
        assert of_variant["sampleSize"] == figures["users"]
        assert of_variant["conversion"] == pytest.approx(figures["value"])
