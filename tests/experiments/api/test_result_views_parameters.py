"""What may be asked of results: which metric, control and correction, the days, the values of an attribute."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine

from events.recording import record
from experiments.models import Exposure
from tests.answers import error
from tests.conftest import NOON
from tests.experiments.conftest import LATER, SHOPPERS
from tests.experiments.results.asking import PATH, ask, refused
from tests.experiments.results.shop import make_shoppers, open_shop

pytestmark = pytest.mark.django_db


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


def test_results__other_correction__adjusts_otherwise(api, production):
    open_shop(production, make_shoppers(300))
    found = {
        correction: [
            entry["variants"][1]["comparison"]["difference"]["alwaysValid"]["pValue"] for entry in answer["metrics"][:3]
        ]
        for correction in ("holm", "benjamini-hochberg")
        if (answer := ask(api, correction=correction))["correction"] == correction
    }
    assert all(one >= other for one, other in zip(found["holm"], found["benjamini-hochberg"], strict=True))
    assert found["holm"] != found["benjamini-hochberg"]


# --- series and breakdowns -------------------------------------------------------------------------------------------


def test_results__daily_series__has_every_day_and_ends_with_the_whole(api, shop):
    for metric in ask(api, series="daily")["metrics"]:
        for figures in metric["variants"]:
            of_variant = [shopper for shopper in SHOPPERS if shopper.variant == figures["key"]]
            assert [(entry["day"], entry["users"], entry["countedUsers"]) for entry in figures["series"]] == [
                (str((NOON + timedelta(days=day)).date()), *[sum(entry.day <= day for entry in of_variant)] * 2)
                for day in range(7)
            ]
            last = figures["series"][-1]
            assert (last["value"], last["interval"]) == (figures["value"], figures["interval"])
            comparison = figures["comparison"]
            assert last["difference"] == (comparison["difference"] if comparison else None)
            assert last["lift"] == (comparison["lift"] if comparison else None)


def test_results__daily_series__is_what_was_true_of_the_users_until_then(api, production):
    with time_machine.travel(LATER, tick=False):
        open_shop(production, [shopper for shopper in SHOPPERS if shopper.day <= 1])
        at_the_time = ask(api)["metrics"][1]["variants"][1]
        record([event for entry in SHOPPERS if entry.day > 1 for event in entry.events()], production)
        [_, second, *_] = ask(api, series="daily")["metrics"][1]["variants"][1]["series"]
    assert second["value"] == pytest.approx(at_the_time["value"])
    assert second["difference"]["estimate"] == pytest.approx(at_the_time["comparison"]["difference"]["estimate"])


def test_results__breakdown__has_the_figures_of_the_users_with_each_value(api, shop):
    found = ask(api, breakdown="country", metric="revenue")["breakdown"]
    assert found["attribute"] == "country"
    assert sum(entry["users"] for entry in found["values"]) == len(SHOPPERS)
    assert {entry["value"] for entry in found["values"]} == {"CH", "DE", None}
    for entry in found["values"]:
        [metric] = entry["metrics"]
        for figures in metric["variants"]:
            amounts = [
                sum(shopper.spent)
                for shopper in SHOPPERS
                if (shopper.country, shopper.variant) == (entry["value"], figures["key"])
            ]
            assert figures["users"] == len(amounts)
            assert figures["value"] == pytest.approx(sum(amounts) / len(amounts))


def test_results__breakdown__adjusts_for_all_values_goals_and_treatments(api, shop):
    slices = ask(api, breakdown="country")["breakdown"]["values"]
    families = {1: [0], 2: [1, 2]}  # the first goal in three slices, and two other goals in three slices
    for goals, indexes in families.items():
        compared = [entry["metrics"][index]["variants"][1]["comparison"] for entry in slices for index in indexes]
        assert {comparison["familySize"] for comparison in compared} == {3 * goals}
        least = min(compared, key=lambda comparison: comparison["unadjustedPValue"])
        adjusted = least["difference"]["alwaysValid"]["pValue"]
        assert adjusted == pytest.approx(min(1, 3 * goals * least["unadjustedPValue"]))


def test_results__breakdown_by_more_values_than_are_reported__has_the_rest_as_one(api, production):
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
    assert [entry["users"] for entry in values] == [2] * 5 + [1] * 15 + [5]
    assert [entry["isRest"] for entry in values] == [False] * 20 + [True]
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
    found = [entry["value"] for entry in ask(api, breakdown="value")["breakdown"]["values"]]
    assert sorted(map(repr, found)) == sorted(map(repr, values))


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "value", "code", "said"),
    [
        ("metric", "sales", "unknown_reference", "bought, revenue, per-look, complaints."),
        ("control", "blue", "unknown_reference", "control, green."),
        ("correction", "bonferroni", "invalid_value", "Must be holm or benjamini-hochberg."),
        ("series", "weekly", "invalid_value", "Must be daily or daysSinceExposure"),
        ("maturity", "old", "invalid_value", "Must be mature or all."),
        ("breakdown", "planet", "unknown_reference", "country."),
        ("breakdown", "x" * 101, "too_long", ""),
        ("audit", "yes", "invalid_value", "true or false"),
        (
            "metrics",
            "bought",
            "unknown_field",
            "use audit, breakdown, control, correction, maturity, metric, phase, series.",
        ),
        ("phase", "2", "unknown_reference", "all, 1."),
        ("phase", "01", "unknown_reference", "all, 1."),
        ("metric", "", "out_of_range", "leave it out"),
        ("metric", "bo\0ught", "invalid_value", ""),
    ],
)
def test_results__parameter_that_is_not_acceptable__is_named_with_what_is(api, shop, parameter, value, code, said):
    assert said in refused(api.get(PATH, {parameter: value}), parameter, code)


def test_results__several_unknown_references__are_all_named(api, shop):
    found = error(api.get(PATH, {"metric": "x", "control": "y"}), 400, "invalid_parameter")
    assert [entry["field"] for entry in found["details"]] == ["metric", "control"]


def test_results__breakdown_where_nothing_was_recorded__says_that_there_is_none(api, production):
    open_shop(production, [])
    assert "there are none" in refused(api.get(PATH, {"breakdown": "country"}), "breakdown", "unknown_reference")


@pytest.mark.parametrize("path", ["/v1/experiments/none/results", "/v1/experiments/none/results/explain"])
def test_results__unknown_experiment__are_not_found(api, path):
    error(api.get(path, {"metric": "m", "variant": "v"} if "explain" in path else {}), 404, "experiment_not_found")


def test_results__of_another_environment__are_not_found(staging_api, shop):
    error(staging_api.get(PATH), 404, "experiment_not_found")
