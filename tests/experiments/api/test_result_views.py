"""GET /v1/experiments/<key>/results: what it answers in every state, always as the schema says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from config.timestamps import format_timestamp
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.changes import stop_experiment
from experiments.metrics.changes import create_metric
from experiments.results.archive import freeze
from tests.answers import data
from tests.conftest import ACTOR, NOON
from tests.experiments.conftest import LATER, SHOPPERS
from tests.experiments.results.asking import PATH, ask, estimates_of
from tests.experiments.results.shop import METRICS, Shopper, make_shoppers, open_shop
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db


def keys(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["key"] for entry in entries]


# --- the whole -------------------------------------------------------------------------------------------------------


def test_results__of_a_running_experiment__tell_what_it_is_and_as_of_when(api, shop):
    answer = ask(api)
    assert list(answer) == [
        *("experiment", "status", "startedAt", "stoppedAt", "asOf", "countsUntil", "frozenAt"),
        *("control", "correction", "maturity"),
        *("plan", "users", "variants", "verdict", "guards", "metrics", "phases"),
    ]
    assert (answer["experiment"], answer["status"], answer["control"]) == ("shop", "running", "control")
    assert (answer["startedAt"], answer["stoppedAt"]) == (format_timestamp(NOON), None)
    assert (answer["asOf"], answer["frozenAt"]) == (format_timestamp(LATER), None)
    assert (answer["users"], answer["correction"]) == (len(SHOPPERS), "holm")


def test_results__metrics__say_what_they_are_and_the_first_goal_decides(api, shop):
    metrics = ask(api)["metrics"]
    assert keys(metrics) == list(METRICS)
    assert [entry["isPrimary"] for entry in metrics] == [True, False, False, False]
    assert [(entry["type"], entry["role"], entry["version"]) for entry in metrics] == [
        ("conversion", "goal", 1),
        ("revenue", "goal", 1),
        ("ratio", "goal", 1),
        ("count", "guardrail", 1),
    ]
    assert metrics[2]["denominator"] == {"event": "look", "property": "", "currency": ""}


def test_results__counts_of_a_variant__are_those_of_its_users(api, shop):
    green = [shopper for shopper in SHOPPERS if shopper.variant == "green"]
    figures = ask(api)["metrics"][1]["variants"][1]
    assert figures["users"] == figures["matureUsers"] == len(green)
    assert (figures["waiting"], figures["cutOffUsers"]) == (None, 0)
    assert figures["events"] == sum(len(shopper.spent) for shopper in green)


def test_results__window__tells_for_how_many_users_it_has_passed(api, production):
    shoppers = make_shoppers(30)
    with time_machine.travel(NOON + timedelta(days=2, hours=6), tick=False):
        experiment = open_shop(production, shoppers, metrics=("revenue", "bought", "complaints"))
        experiment.definitions[0] |= {"delayHours": 6, "windowHours": 42}
        experiment.definitions[1] |= {"windowHours": 24}
        experiment.save(update_fields=["definitions"])
        metrics = ask(api)["metrics"]
    for metric, days in zip(metrics, (1, 2, 4), strict=True):
        for figures in metric["variants"]:
            of_variant = [shopper for shopper in shoppers if shopper.variant == figures["key"]]
            mature = sum(shopper.day < days for shopper in of_variant)
            waiting = figures["waiting"]["users"] if figures["waiting"] else 0
            assert (figures["matureUsers"], waiting) == (mature, len(of_variant) - mature)


def test_results__currencies__are_never_added_and_those_left_out_are_counted(api, production):
    experiment = open_shop(production, [], metrics=("revenue",))
    happened = [
        ("exposed", {"experimentId": "shop", "variant": "green"}),
        ("purchase", {"revenue": 5, "currency": "EUR"}),
    ]
    happened += [("purchase", {"revenue": 7, "currency": "CHF"}), ("purchase", {"revenue": 9})]
    at = NOON + timedelta(hours=1)
    record([NewEvent(new_id(), "u", name, at, at, properties) for name, properties in happened], production)

    green = ask(api)["metrics"][0]["variants"][1]
    assert (green["value"], green["events"], green["otherCurrencyEvents"]) == (5, 3, 2)
    assert experiment.metrics == ["revenue"]


def test_results__texts_for_numbers__are_counted_and_make_the_data_suspicious(api, production):
    create_metric(key="sales", type="sum", event="purchase", property="sales", actor=ACTOR, now=NOON)
    ExperimentFactory(key="shop", environment=production, running=True, metrics=["sales"], lookback_days=0)
    at = NOON + timedelta(hours=1)
    happened = [("exposed", {"experimentId": "shop", "variant": "green"})]
    happened += [
        ("purchase", {"sales": value}) for value in (5, 0, "337,300.00", ".5", "", True, [3], {"EUR": 3}, None)
    ]
    happened += [("purchase", {})]
    record([NewEvent(new_id(), "u", name, at, at, properties) for name, properties in happened], production)

    answer = ask(api)
    green = answer["metrics"][0]["variants"][1]
    assert (green["value"], green["events"], green["eventsWithoutNumber"]) == (5, 10, 6)
    assert answer["verdict"]["decision"] == "check_data"
    [reason] = answer["verdict"]["reasons"]
    assert reason["code"] == "not_numbers"
    assert reason["message"].startswith("6 of 10 events of sales")


def test_results__capped_metric__tells_the_cap_in_force(api, production):
    experiment = open_shop(production, SHOPPERS, metrics=("revenue",))
    experiment.definitions[0]["capPercentile"] = 75.0
    experiment.save(update_fields=["definitions"])
    amounts = sorted(sum(shopper.spent) for shopper in SHOPPERS if shopper.spent)
    [metric] = ask(api)["metrics"]
    assert metric["cap"] == pytest.approx(amounts[-(-len(amounts) * 3 // 4) - 1])


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/html", "nonsense"])
def test_results__other_forms__are_json(api, shop, accept):
    assert data(api.get(PATH, headers={"Accept": accept}))["experiment"] == "shop"


# --- states ----------------------------------------------------------------------------------------------------------


def test_results__of_a_draft__are_empty_and_say_so(api):
    ExperimentFactory(key="draft", metrics=["purchase"])
    answer = ask(api, "/v1/experiments/draft/results", series="daily", audit="true")
    assert (answer["users"], answer["startedAt"]) == (0, None)
    assert answer["verdict"]["decision"] == "keep_running"
    assert [entry["code"] for entry in answer["verdict"]["reasons"]] == ["not_started"]
    for figures in answer["metrics"][0]["variants"]:
        assert (figures["users"], figures["value"], figures["reason"]["code"]) == (0, None, "too_few_users")
    assert (answer["guards"]["unexpectedVariants"], answer["guards"]["eventsBeforeExposure"]) == (0, 0)


def test_results__without_users__have_reasons_instead_of_figures(api, production):
    open_shop(production, [])
    answer = ask(api, audit="true")
    assert answer["users"] == 0
    assert answer["guards"]["sampleRatio"]["reason"]["code"] == "too_few_users"
    assert {entry["reason"]["code"] for entry in estimates_of(answer)} == {"too_few_users", "no_history"}


def test_results__without_metrics__count_users_alone(api, production):
    open_shop(production, SHOPPERS, metrics=())
    answer = ask(api, series="daily", breakdown="country")
    assert (answer["metrics"], answer["users"]) == ([], len(SHOPPERS))
    assert answer["verdict"]["metric"] is None
    assert [entry["code"] for entry in answer["verdict"]["reasons"]] == ["no_goal"]


def test_results__of_one_user__have_no_intervals_and_no_numbers_that_are_none(api, production):
    open_shop(production, [entry for entry in SHOPPERS if entry.variant == "green"][:1])
    figures = ask(api)["metrics"][1]["variants"][1]
    assert (figures["interval"], figures["reason"]["code"]) == (None, "too_few_users")


def test_results__numbers_beyond_all_measure__are_answered_all_the_same(api, production):
    open_shop(production, SHOPPERS[:20])
    at = NOON + timedelta(days=5)
    record(
        [
            NewEvent(new_id(), shopper.name, "purchase", at, at, {"revenue": 1.7e308, "currency": "EUR"})
            for shopper in SHOPPERS[:7]
        ],
        production,
    )
    assert ask(api, series="daily", breakdown="country")["metrics"][1]["variants"][1]["events"] > 0


def test_results__after_the_stop__count_until_then(api, shop, production):
    before = ask(api)
    stopped_at = NOON + timedelta(days=1, hours=12)
    stop_experiment(key="shop", environment=production, actor=ACTOR, now=NOON, stopped_at=stopped_at)
    answer = ask(api)
    assert (answer["status"], answer["stoppedAt"]) == ("stopped", format_timestamp(stopped_at))
    assert answer["users"] == sum(shopper.day <= 1 for shopper in SHOPPERS) < before["users"]
    assert answer["verdict"]["decision"] == "inconclusive"


def test_results__frozen__stand_still_whatever_comes(api, shop, production):
    stop_experiment(key="shop", environment=production, actor=ACTOR, now=NOON, stopped_at=NOON + timedelta(days=5))
    shop.refresh_from_db()
    freeze(shop, LATER)
    before, explained = ask(api), ask(api, f"{PATH}/explain", metric="bought", variant="green")
    assert before["frozenAt"] == format_timestamp(LATER)
    record([event for shopper in make_shoppers(100)[80:] for event in shopper.events()], production)
    record([late_purchase(shopper) for shopper in SHOPPERS], production)

    assert ask(api) == before
    assert ask(api, f"{PATH}/explain", metric="bought", variant="green") == explained
    assert explained["frozenAt"] == explained["asOf"] == before["frozenAt"]


def late_purchase(shopper: Shopper) -> NewEvent:
    at = shopper.exposed_at + timedelta(hours=1)
    return NewEvent(new_id(), shopper.name, "purchase", at, LATER, {"revenue": 1000, "currency": "EUR"})


# --- statements ------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_results__with_all_that_may_be_asked_for__take_few_statements(api, production, django_assert_max_num_queries):
    open_shop(production, SHOPPERS[:30])
    for parameters, most in (({}, 12), ({"series": "daily", "breakdown": "country", "audit": "true"}, 31)):
        data(api.get(PATH, parameters))
        with django_assert_max_num_queries(most):
            data(api.get(PATH, parameters))
