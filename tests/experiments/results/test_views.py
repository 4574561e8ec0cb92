"""GET /v1/experiments/<key>/results and .../explain: what they take, refuse and answer, always as the schema says."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NoReturn

import pytest
import time_machine

from config.models import Environment
from config.timestamps import format_timestamp
from events.ingest import NewEvent, new_id, record
from experiments.assignment import assigners
from experiments.exposures import assign
from experiments.lifecycle import stop_experiment
from experiments.models import Experiment, Exposure
from experiments.results.table import COLUMNS
from experiments.totals.freezing import freeze
from flags.engine.bucketing import compile_split
from tests.answers import data, error
from tests.config.test_schema import DOCUMENT, validator
from tests.conftest import ACTOR, NOON
from tests.experiments.results.shop import METRICS, Shopper, make_shoppers, open_shop
from tests.experiments.results.test_computing import QUERIES
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

PATH = "/v1/experiments/shop/results"
SHOPPERS = make_shoppers(80)
LATER = NOON + timedelta(days=6)


@pytest.fixture
def shop(production: Environment) -> Iterator[Experiment]:
    with time_machine.travel(LATER, tick=False):
        yield open_shop(production, SHOPPERS)


def ask(client: Any, path: str = PATH, **parameters: str) -> Any:
    """The answer, which is what the schema says, and in which every null has its reason."""
    response = client.get(path, parameters)
    found = data(response)
    operation = DOCUMENT["paths"][path.replace(path.split("/")[3], "{experiment_key}")]["get"]
    validator(operation["responses"]["200"]["content"]["application/json"]["schema"]).validate(response.json())
    json.loads(response.content, parse_constant=refuse_constant)
    for estimate in estimates_of(found):
        assert (estimate["reason"] is None) == all(estimate[name] is not None for name in estimate if name != "reason")
    return found


def refuse_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} in an answer")


def estimates_of(found: Any) -> Iterator[dict[str, Any]]:
    """All objects of the answer that are estimates, wherever they stand."""
    if isinstance(found, dict):
        if "standardError" in found:
            yield found
        for value in found.values():
            yield from estimates_of(value)
    elif isinstance(found, list):
        for value in found:
            yield from estimates_of(value)


def refused(response: Any, field: str, code: str) -> str:
    [detail] = error(response, 400, "invalid_parameter")["details"]
    assert (detail["field"], detail["code"]) == (field, code)
    return detail["message"]


def keys(entries: list[dict[str, Any]]) -> list[str]:
    return [each["key"] for each in entries]


# --- the whole -------------------------------------------------------------------------------------------------------


def test_results__of_a_running_experiment__tell_what_it_is_and_as_of_when(api, shop):
    found = ask(api)
    assert list(found) == [
        *("experiment", "status", "startedAt", "stoppedAt", "asOf", "frozenAt", "control", "correction", "users"),
        *("variants", "verdict", "guards", "metrics"),
    ]
    assert (found["experiment"], found["status"], found["control"]) == ("shop", "running", "control")
    assert (found["startedAt"], found["stoppedAt"]) == (format_timestamp(NOON), None)
    assert (found["asOf"], found["frozenAt"]) == (format_timestamp(LATER), None)
    assert (found["users"], found["correction"]) == (len(SHOPPERS), "holm")


def test_results__metrics__say_what_they_are_and_the_first_goal_decides(api, shop):
    metrics = ask(api)["metrics"]
    assert keys(metrics) == list(METRICS)
    assert [each["isPrimary"] for each in metrics] == [True, False, False, False]
    assert [(each["type"], each["role"], each["version"]) for each in metrics] == [
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
    assert figures["immatureUsers"] == 0
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
            assert (figures["matureUsers"], figures["immatureUsers"]) == (mature, len(of_variant) - mature)


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


def test_results__capped_metric__tells_the_cap_in_force(api, production):
    experiment = open_shop(production, SHOPPERS, metrics=("revenue",))
    experiment.definitions[0]["capPercentile"] = 75.0
    experiment.save(update_fields=["definitions"])
    amounts = sorted(sum(shopper.spent) for shopper in SHOPPERS if shopper.spent)
    [metric] = ask(api)["metrics"]
    assert metric["cap"] == pytest.approx(amounts[-(-len(amounts) * 3 // 4) - 1])


# --- states ----------------------------------------------------------------------------------------------------------


def test_results__of_a_draft__are_empty_and_say_so(api):
    ExperimentFactory(key="draft", metrics=["purchase"])
    found = ask(api, "/v1/experiments/draft/results", series="daily", audit="true")
    assert (found["users"], found["startedAt"]) == (0, None)
    assert found["verdict"]["decision"] == "keep_running"
    assert [each["code"] for each in found["verdict"]["reasons"]] == ["not_started"]
    for figures in found["metrics"][0]["variants"]:
        assert (figures["users"], figures["value"], figures["reason"]["code"]) == (0, None, "too_few_users")
    assert (found["guards"]["unexpectedVariants"], found["guards"]["eventsBeforeExposure"]) == (0, 0)


def test_results__without_users__have_reasons_instead_of_figures(api, production):
    open_shop(production, [])
    found = ask(api, audit="true")
    assert found["users"] == 0
    assert found["guards"]["sampleRatio"]["reason"]["code"] == "too_few_users"
    assert {each["reason"]["code"] for each in estimates_of(found)} == {"too_few_users"}


def test_results__without_metrics__count_users_alone(api, production):
    open_shop(production, SHOPPERS, metrics=())
    found = ask(api, series="daily", breakdown="country")
    assert (found["metrics"], found["users"]) == ([], len(SHOPPERS))
    assert found["verdict"]["metric"] is None
    assert [each["code"] for each in found["verdict"]["reasons"]] == ["no_goal"]


def test_results__of_one_user__have_no_intervals_and_no_numbers_that_are_none(api, production):
    open_shop(production, [each for each in SHOPPERS if each.variant == "green"][:1])
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
    stop_experiment(key="shop", environment=production, actor=ACTOR, at=NOON, stopped_at=stopped_at)
    found = ask(api)
    assert (found["status"], found["stoppedAt"]) == ("stopped", format_timestamp(stopped_at))
    assert found["users"] == sum(shopper.day <= 1 for shopper in SHOPPERS) < before["users"]
    assert found["verdict"]["decision"] == "inconclusive"


def test_results__frozen__stand_still_whatever_comes(api, shop, production):
    stop_experiment(key="shop", environment=production, actor=ACTOR, at=NOON, stopped_at=NOON + timedelta(days=5))
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


# --- parameters ------------------------------------------------------------------------------------------------------


def test_results__one_metric__are_as_among_all(api, shop):
    found, whole = ask(api, metric="revenue"), ask(api)
    assert found["metrics"] == [whole["metrics"][1]]
    assert {**found, "metrics": None} == {**whole, "metrics": None}


def test_results__other_control__are_the_other_way_round(api, shop):
    usual, turned = ask(api)["metrics"][1]["variants"], ask(api, control="green")
    control, green = turned["metrics"][1]["variants"]
    assert (turned["control"], green["comparison"]) == ("green", None)
    there, back = usual[1]["comparison"]["difference"], control["comparison"]["difference"]
    assert back["estimate"] == pytest.approx(-there["estimate"])
    assert back["alwaysValid"]["pValue"] == pytest.approx(there["alwaysValid"]["pValue"])
    assert control["value"] == usual[0]["value"]


def test_results__other_correction__adjusts_otherwise(api, shop):
    found = {
        correction: [each["variants"][1]["comparison"]["adjustedPValue"] for each in answer["metrics"][:3]]
        for correction in ("holm", "benjamini-hochberg")
        if (answer := ask(api, correction=correction))["correction"] == correction
    }
    assert all(one >= other for one, other in zip(found["holm"], found["benjamini-hochberg"], strict=True))
    assert found["holm"] != found["benjamini-hochberg"]


def test_results__daily_series__ends_with_the_whole(api, shop):
    for metric in ask(api, series="daily")["metrics"]:
        for figures in metric["variants"]:
            of_variant = [shopper for shopper in SHOPPERS if shopper.variant == figures["key"]]
            assert [(each["day"], each["users"]) for each in figures["series"]] == [
                (
                    f"2026-0{1 if day == 0 else 2}-{31 if day == 0 else day:02}",
                    sum(each.day <= day for each in of_variant),
                )
                for day in range(4)
            ]
            last = figures["series"][-1]
            assert (last["value"], last["interval"]) == (figures["value"], figures["interval"])
            comparison = figures["comparison"]
            assert last["difference"] == (comparison["difference"] if comparison else None)


def test_results__daily_series__is_what_was_true_of_the_users_until_then(api, production):
    with time_machine.travel(LATER, tick=False):
        open_shop(production, [shopper for shopper in SHOPPERS if shopper.day <= 1])
        at_the_time = ask(api)["metrics"][1]["variants"][1]
        record([event for each in SHOPPERS if each.day > 1 for event in each.events()], production)
        [_, second, *_] = ask(api, series="daily")["metrics"][1]["variants"][1]["series"]
    assert second["value"] == pytest.approx(at_the_time["value"])
    assert second["difference"]["estimate"] == pytest.approx(at_the_time["comparison"]["difference"]["estimate"])


def test_results__breakdown__has_the_figures_of_the_users_with_each_value(api, shop):
    found = ask(api, breakdown="country", metric="revenue")["breakdown"]
    assert found["attribute"] == "country"
    assert sum(each["users"] for each in found["values"]) == len(SHOPPERS)
    assert {each["value"] for each in found["values"]} == {"CH", "DE", None}
    for each in found["values"]:
        [metric] = each["metrics"]
        for figures in metric["variants"]:
            amounts = [
                sum(shopper.spent)
                for shopper in SHOPPERS
                if (shopper.country, shopper.variant) == (each["value"], figures["key"])
            ]
            assert figures["users"] == len(amounts)
            assert figures["value"] == pytest.approx(sum(amounts) / len(amounts))


def test_results__breakdown__adjusts_for_all_values_goals_and_treatments(api, shop):
    slices = ask(api, breakdown="country")["breakdown"]["values"]
    compared = [metric["variants"][1]["comparison"] for each in slices for metric in each["metrics"][:3]]
    p_values = sorted(each["difference"]["alwaysValid"]["pValue"] for each in compared)
    least = min(compared, key=lambda each: each["difference"]["alwaysValid"]["pValue"])
    assert len(p_values) == 9
    assert least["adjustedPValue"] == pytest.approx(min(1, 9 * p_values[0]))


def test_results__breakdown_by_more_values_than_are_told__has_the_rest_as_one(api, production):
    experiment = open_shop(production, [])
    for at in range(30):
        Exposure.objects.create(
            experiment=experiment,
            user_id=f"u{at}",
            variant="green",
            exposed_at=NOON,
            origin="assigned",
            attributes={"city": f"city {at % 25:02}"},
        )
    values = ask(api, breakdown="city")["breakdown"]["values"]
    assert [each["users"] for each in values] == [2] * 5 + [1] * 15 + [5]
    assert [each["isRest"] for each in values] == [False] * 20 + [True]
    assert values[-1]["value"] is None


@pytest.mark.parametrize("values", [[True, False], [1, 2.5], ["1", "true", ""]])
def test_results__breakdown_by_values_of_any_type__tells_them_as_they_are(api, production, values):
    experiment = open_shop(production, [])
    for at, value in enumerate(values):
        Exposure.objects.create(
            experiment=experiment,
            user_id=f"u{at}",
            variant="green",
            exposed_at=NOON,
            origin="assigned",
            attributes={"value": value},
        )
    found = [each["value"] for each in ask(api, breakdown="value")["breakdown"]["values"]]
    assert sorted(map(repr, found)) == sorted(map(repr, values))


# --- guards ----------------------------------------------------------------------------------------------------------


def test_guards__unknown_and_second_variants__are_counted(api, production):
    open_shop(production, [])
    at = NOON + timedelta(hours=1)
    for user, variants in (("u", ("green", "control")), ("v", ("green",)), ("w", ("purple",))):
        for variant in variants:
            record([NewEvent(new_id(), user, "seen", at, at, {"experimentId": "shop", "variant": variant})], production)
    guards = ask(api)["guards"]
    assert (guards["usersInSeveralVariants"], guards["eventsOfUnknownVariants"]) == (1, 1)
    assert guards.keys() == {"sampleRatio", "usersInSeveralVariants", "eventsOfUnknownVariants"}


def test_audit__variants_that_the_hash_does_not_give__are_counted(api, production):
    experiment = open_shop(production, [])
    split = assigners.state["production", "shop"].split
    for user in range(20):
        assign(experiment.pk, f"right-{user}", split(f"right-{user}"), NOON)
    other = {"control": "green", "green": "control"}
    for user in range(3):
        assign(experiment.pk, f"wrong-{user}", other[split(f"wrong-{user}")], NOON)
    report = {"experimentId": "shop", "variant": other[split("reported")]}
    record([NewEvent(new_id(), "reported", "seen", NOON, NOON, report)], production)

    assert ask(api, audit="true")["guards"]["unexpectedVariants"] == 3
    assert split("u") == compile_split((("control", 50), ("green", 50)), "shop")("u")


@pytest.mark.parametrize(
    ("hours", "name", "properties", "is_counted"),
    [
        (1, "purchase", {}, True),
        (1, "purchase", {"experimentId": "shop"}, True),
        (1, "purchase", {"experimentId": "other"}, False),
        (1, "nothing", {}, False),
        (1, "look", {}, True),  # the denominator of a metric
        (-1, "purchase", {}, False),  # before the start
        (2, "purchase", {}, False),  # in the second of the exposure
        (3, "purchase", {}, False),
    ],
)
def test_audit__events_of_metrics_between_start_and_exposure__are_counted(
    api, production, hours, name, properties, is_counted
):
    open_shop(production, [])
    exposed, at = NOON + timedelta(hours=2, seconds=0.5), NOON + timedelta(hours=hours)
    report = {"experimentId": "shop", "variant": "green"}
    record([NewEvent(new_id(), "u", "seen", exposed, exposed, report)], production)
    record([NewEvent(new_id(), user, name, at, at, properties) for user in ("u", "never exposed")], production)

    assert ask(api, audit="true")["guards"]["eventsBeforeExposure"] == int(is_counted)


def test_audit__user_exposed_after_the_stop__counts_as_never_exposed(api, production):
    experiment = open_shop(production, [])
    at = NOON + timedelta(hours=1)
    record([NewEvent(new_id(), user, "purchase", at, at, {}) for user in ("u", "v")], production)
    stopped = NOON + timedelta(hours=2)
    for user, after in (("u", 0), ("v", 1)):
        assign(experiment.pk, user, "green", stopped + timedelta(seconds=after))
    Experiment.objects.filter(pk=experiment.pk).update(status="stopped", stopped_at=stopped)

    assert ask(api, audit="true")["guards"]["eventsBeforeExposure"] == 1


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "value", "code", "said"),
    [
        ("metric", "sales", "unknown_reference", "bought, revenue, per-look, complaints."),
        ("control", "blue", "unknown_reference", "control, green."),
        ("correction", "bonferroni", "invalid_value", "Must be holm or benjamini-hochberg."),
        ("series", "weekly", "invalid_value", "Must be daily"),
        ("breakdown", "planet", "unknown_reference", "country."),
        ("breakdown", "x" * 101, "too_long", ""),
        ("audit", "yes", "invalid_value", "true or false"),
        ("metrics", "bought", "unknown_field", "use audit, breakdown, control, correction, metric, series."),
        ("metric", "", "out_of_range", "leave it out"),
        ("metric", "bo\0ught", "invalid_value", ""),
    ],
)
def test_results__parameter_that_is_not_acceptable__is_named_with_what_is(api, shop, parameter, value, code, said):
    assert said in refused(api.get(PATH, {parameter: value}), parameter, code)


def test_results__several_unknown_references__are_all_named(api, shop):
    found = error(api.get(PATH, {"metric": "x", "control": "y"}), 400, "invalid_parameter")
    assert [each["field"] for each in found["details"]] == ["metric", "control"]


def test_results__breakdown_where_nothing_was_recorded__says_that_there_is_none(api, production):
    open_shop(production, [])
    assert "there is none" in refused(api.get(PATH, {"breakdown": "country"}), "breakdown", "unknown_reference")


@pytest.mark.parametrize("path", ["/v1/experiments/none/results", "/v1/experiments/none/results/explain"])
def test_results__unknown_experiment__are_not_found(api, path):
    error(api.get(path, {"metric": "m", "variant": "v"} if "explain" in path else {}), 404, "experiment_not_found")


def test_results__of_another_environment__are_not_found(staging_api, shop):
    error(staging_api.get(PATH), 404, "experiment_not_found")


@pytest.mark.parametrize(
    ("parameters", "field", "code"),
    [
        ({"metric": "bought"}, "variant", "required"),
        ({"variant": "green"}, "metric", "required"),
        ({"metric": "", "variant": "green"}, "metric", "required"),
        ({"metric": "sales", "variant": "green"}, "metric", "unknown_reference"),
        ({"metric": "bought", "variant": "blue"}, "variant", "unknown_reference"),
        ({"metric": "bought", "variant": "green", "day": "1"}, "day", "unknown_field"),
    ],
)
def test_explanation__parameters_that_are_not_acceptable__are_named(api, shop, parameters, field, code):
    refused(api.get(f"{PATH}/explain", parameters), field, code)


# --- explanations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", METRICS)
def test_explanation__of_each_metric__arrives_at_the_value_of_the_results(api, shop, key):
    [metric] = ask(api, metric=key)["metrics"]
    for figures in metric["variants"]:
        explained = ask(api, f"{PATH}/explain", metric=key, variant=figures["key"])
        assert (explained["metric"], explained["variant"]) == (key, figures["key"])
        assert explained["definition"] == {name: metric[name] for name in explained["definition"]}
        assert explained["value"] == pytest.approx(figures["value"])
        assert explained["users"] == figures["users"]
        assert [each["name"] for each in explained["steps"]][-1] == "counted"


def test_explanation__of_a_draft__counts_nobody(api):
    ExperimentFactory(key="draft")
    found = ask(api, "/v1/experiments/draft/results/explain", metric="purchase", variant="green")
    assert (found["users"], found["value"], found["steps"][-1]["rows"]) == (0, None, 0)


# --- as a table ------------------------------------------------------------------------------------------------------


def table(response: Any) -> list[dict[str, str]]:
    assert (response.status_code, response["Content-Type"]) == (200, "text/csv; charset=utf-8")
    reader = csv.DictReader(io.StringIO(response.content.decode(), newline=""))
    rows = list(reader)
    assert reader.fieldnames == list(COLUMNS)
    return rows


def test_table__of_all_metrics__has_a_row_for_each_and_variant(api, shop):
    rows, found = table(api.get(PATH, headers={"Accept": "text/csv"})), ask(api)
    assert [(row["metric"], row["variant"]) for row in rows] == [
        (key, variant) for key in METRICS for variant in ("control", "green")
    ]
    control, green = rows[2:4]
    figures = found["metrics"][1]["variants"][1]
    compared = figures["comparison"]
    assert float(green["value"]) == figures["value"]
    assert float(green["interval.lower"]) == figures["interval"]["lower"]
    assert float(green["difference.alwaysValid.pValue"]) == compared["difference"]["alwaysValid"]["pValue"]
    assert float(green["lift.fixedHorizon.upper"]) == compared["lift"]["fixedHorizon"]["upper"]
    assert float(green["cuped.difference.estimate"]) == compared["cuped"]["difference"]["estimate"]
    assert (green["users"], green["isControl"], green["isPrimary"]) == (str(figures["users"]), "false", "false")
    assert (control["isControl"], control["difference.estimate"], control["attribute"]) == ("true", "", "")


def test_table__with_a_breakdown__has_its_rows_after_the_others(api, shop):
    rows = table(api.get(PATH, {"breakdown": "country", "metric": "bought"}, headers={"Accept": "text/csv"}))
    assert [(row["attribute"], row["attributeValue"]) for row in rows[:2]] == [("", "")] * 2
    assert {row["attributeValue"] for row in rows[2:]} == {'"CH"', '"DE"', "null"}
    assert {(row["attribute"], row["metric"], row["type"]) for row in rows[2:]} == {("country", "bought", "conversion")}


def test_table__with_a_series__is_refused(api, shop):
    response = api.get(PATH, {"series": "daily"}, headers={"Accept": "text/csv"})
    assert "ask for JSON" in refused(response, "series", "invalid_value")


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/html", "nonsense"])
def test_results__other_forms__are_json(api, shop, accept):
    assert data(api.get(PATH, headers={"Accept": accept}))["experiment"] == "shop"


# --- statements ------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("parameters", "more"),
    [
        ({}, 0),
        ({"series": "daily"}, 1),
        ({"breakdown": "country"}, 1),
        ({"audit": "true"}, 2),
    ],
)
def test_results__with_all_that_may_be_asked_for__take_few_statements(
    api, production, django_assert_num_queries, parameters, more
):
    open_shop(production, SHOPPERS[:10])
    data(api.get(PATH))
    with django_assert_num_queries(1 + QUERIES + 2 + more):  # the experiment, ..., caps, events of unknown variants
        data(api.get(PATH, parameters))
