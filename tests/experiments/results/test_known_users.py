"""The results of recorded events, compared with SciPy and NumPy computing from the values of each user."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pytest_django import DjangoDbBlocker
from scipy import integrate, stats

from config.access.api_keys import create_key
from config.models import Environment, Scope
from tests.answers import data
from tests.conftest import ACTOR, NOON, CommittingClient
from tests.experiments.results import brute_force
from tests.experiments.results.brute_force import ALPHA, always_valid_p, always_valid_width
from tests.experiments.results.shop import Shopper, make_shoppers, open_shop
from tests.transactions import rolled_back

pytestmark = pytest.mark.django_db

SHOPPERS = make_shoppers()


def of(variant: str, value: Any) -> np.ndarray:
    return np.array([value(shopper) for shopper in SHOPPERS if shopper.variant == variant], float)


def both(value: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of the users in control, and of those in green."""
    return of("control", value), of("green", value)


def bought(shopper: Shopper) -> bool:
    return bool(shopper.spent)


def spent(shopper: Shopper) -> float:
    return sum(shopper.spent)


@pytest.fixture(scope="module")
def results(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[dict[str, Any]]:
    """The answer, requested once for all tests, which only read it."""
    with rolled_back(django_db_blocker):
        production = Environment.objects.get(key="production")
        open_shop(production, SHOPPERS, minimum_days=0)
        _, secret = create_key(name="reader", environment=production, scope=Scope.SERVER, actor=ACTOR, now=NOON)
        client = CommittingClient(HTTP_AUTHORIZATION=f"Bearer {secret}")
        yield data(client.get("/v1/experiments/shop/results"))


def variants_of(results: dict[str, Any], key: str) -> tuple[dict[str, Any], dict[str, Any]]:
    [metric] = [metric for metric in results["metrics"] if metric["key"] == key]
    control, green = metric["variants"]
    return control, green


def close(value: float) -> Any:
    return pytest.approx(value, rel=1e-6, abs=1e-12)


def test_users__by_variant__are_the_exposed_users(results):
    counted = [sum(shopper.variant == key for shopper in SHOPPERS) for key in ("control", "green")]
    assert [variant["users"] for variant in results["variants"]] == counted
    assert results["users"] == sum(counted)
    assert [variant["expectedUsers"] for variant in results["variants"]] == [len(SHOPPERS) / 2] * 2
    assert results["guards"]["sampleRatio"]["chiSquarePValue"] == close(stats.chisquare(counted).pvalue)


def test_share__of_each_variant__has_wilsons_interval(results):
    for figures, values in zip(variants_of(results, "bought"), both(bought), strict=True):
        interval = stats.binomtest(int(values.sum()), len(values)).proportion_ci(method="wilson")
        assert figures["value"] == close(values.mean())
        assert figures["interval"] == {"lower": close(interval.low), "upper": close(interval.high)}


def test_mean__of_each_variant__has_students_interval(results):
    for figures, values in zip(variants_of(results, "revenue"), both(spent), strict=True):
        lower, upper = stats.t.interval(1 - ALPHA, len(values) - 1, values.mean(), stats.sem(values))
        assert figures["value"] == close(values.mean())
        assert figures["interval"] == {"lower": close(lower), "upper": close(upper)}


def complaints(shopper: Shopper) -> int:
    return shopper.complaints


def of_key(key: str) -> brute_force.Test:
    """Return the test of a metric from the values of its users."""
    if key == "bought":
        control, green = both(bought)
        return brute_force.Shares.of(green, control)
    if key == "per-look":
        (control, green), (looks, green_looks) = both(lambda shopper: len(shopper.spent)), both(lambda s: s.looks)
        ratios = green.sum() / green_looks.sum(), control.sum() / looks.sum()
        value = (
            (green - ratios[0] * green_looks) / green_looks.mean(),
            (control - ratios[1] * looks) / looks.mean(),
        )
        return brute_force.Means(*ratios, value, (0 * green, 0 * control))
    control, green = both({"revenue": spent, "complaints": complaints}[key])
    return brute_force.Means.of(green, control)


@pytest.mark.parametrize(("key", "value"), [("bought", bought), ("revenue", spent)])
def test_difference__fixed_horizon__is_the_test_of_one_look(results, key, value):
    control, green = both(value)
    test, figures = of_key(key), variants_of(results, key)[1]["comparison"]
    welch = stats.ttest_ind(green, control, equal_var=False)
    distribution = stats.norm() if key == "bought" else stats.t(welch.df)
    lower, upper = test.difference(distribution.isf(ALPHA / 2))
    assert figures["difference"]["estimate"] == close(green.mean() - control.mean())
    assert figures["singleLook"]["difference"] == {
        "lower": close(lower),
        "upper": close(upper),
        "pValue": close(2 * distribution.sf(abs(test.z))),
        "level": close(0.95),
        "reason": None,
    }


@pytest.mark.parametrize("key", ["bought", "complaints"])
def test_difference__always_valid__is_that_of_the_published_formulas(results, key):
    figures, test = variants_of(results, key)[1]["comparison"]["difference"], of_key(key)
    lower, upper = test.difference(always_valid_width(len(SHOPPERS)))
    assert figures["alwaysValid"] == {
        "lower": close(lower),
        "upper": close(upper),
        "pValue": close(always_valid_p(len(SHOPPERS), test.z)),
        "level": close(0.95),
        "reason": None,
    }


@pytest.mark.parametrize("key", ["bought", "complaints"])
def test_lift__interval__has_the_ratios_that_the_same_test_does_not_reject(results, key):
    comparison, test = variants_of(results, key)[1]["comparison"], of_key(key)
    difference, lift = (comparison[name] for name in ("difference", "lift"))
    lower, upper = test.lift(always_valid_width(len(SHOPPERS)))
    assert upper is not None
    assert (lift["alwaysValid"]["lower"], lift["alwaysValid"]["upper"]) == (close(lower), close(upper))
    assert lift["estimate"] == close(test.treatment / test.control - 1)
    assert lift["alwaysValid"]["pValue"] == difference["alwaysValid"]["pValue"]


def test_ratio__value_and_error__are_those_of_the_delta_method(results):
    squared = 0.0
    for figures, numerator, denominator in zip(
        variants_of(results, "per-look"),
        both(lambda shopper: len(shopper.spent)),
        both(lambda shopper: shopper.looks),
        strict=True,
    ):
        ratio = numerator.sum() / denominator.sum()
        residuals = (numerator - ratio * denominator) / denominator.mean()
        assert figures["value"] == close(ratio)
        squared += residuals.var(ddof=1) / len(residuals)
    assert figures["comparison"]["difference"]["standardError"] == close(math.sqrt(squared))


def test_chance__of_shares__is_that_of_their_posteriors(results):
    control, green = (stats.beta(1 + values.sum(), 1 + len(values) - values.sum()) for values in both(bought))
    chance, _ = integrate.quad(lambda x: green.pdf(x) * control.cdf(x), 0, 1, points=[green.mean()])
    # E[max(0, C - G)] is the integral over t of P(G <= t < C).
    loss, _ = integrate.quad(lambda t: green.cdf(t) * control.sf(t), 0, 1, points=[green.mean()], epsabs=1e-13)
    look = variants_of(results, "bought")[1]["comparison"]["singleLook"]
    assert look["chanceToBeatControl"] == close(chance)
    assert look["expectedLoss"] == close(loss)


def test_chance__of_means__is_that_of_a_normal_difference(results):
    comparison = variants_of(results, "revenue")[1]["comparison"]
    estimate, error = (comparison["difference"][name] for name in ("estimate", "standardError"))
    posterior = stats.norm(estimate, error)
    loss, _ = integrate.quad(lambda x: max(0, -x) * posterior.pdf(x), estimate - 12 * error, 0)
    assert comparison["singleLook"]["chanceToBeatControl"] == close(posterior.sf(0))
    assert comparison["singleLook"]["expectedLoss"] == pytest.approx(loss, rel=1e-6)


def test_cuped__not_registered__leaves_the_figures_raw_and_says_so(results):
    figures = variants_of(results, "revenue")[1]
    assert (figures["raw"], figures["comparison"]["cuped"]) == (None, None)
    assert [(reason["field"], reason["code"]) for reason in figures["comparison"]["reasons"]] == [
        ("cuped", "not_registered")
    ]


def test_corrections__of_other_goals__are_holms_with_intervals_that_agree(results):
    keys = ("revenue", "per-look")
    goals = {key: variants_of(results, key)[1]["comparison"] for key in keys}
    alone = {key: always_valid_p(len(SHOPPERS), of_key(key).z) for key in keys}
    smallest = min(alone.values())
    for key, goal in goals.items():
        test = goal["difference"]["alwaysValid"]
        assert goal["unadjustedPValue"] == close(alone[key])
        assert test["pValue"] == close(min(1, max(2 * smallest, alone[key])))
        assert (test["lower"] > 0 or test["upper"] < 0) == (test["pValue"] < ALPHA) == (goal["label"] != "unclear")
        assert goal["familySize"] == 2
    assert variants_of(results, "complaints")[1]["comparison"]["familySize"] is None


def test_verdict__of_one_treatment__is_what_the_row_of_the_first_goal_says(results):
    goal = variants_of(results, "bought")[1]["comparison"]
    p = goal["difference"]["alwaysValid"]["pValue"]
    assert (p < ALPHA, goal["label"], goal["familySize"]) == (True, "better", 1)
    assert p == close(always_valid_p(len(SHOPPERS), of_key("bought").z))
    assert results["verdict"]["metric"] == "bought"
    [better] = [reason for reason in results["verdict"]["reasons"] if reason["code"] == "better"]
    assert better["message"].endswith(f", p = {p:.2g}: better.")


def test_guardrail__of_few_complaints__is_undecided_and_says_how_many_users_it_needs(results):
    guardrail = variants_of(results, "complaints")[1]["comparison"]["guardrail"]
    assert (guardrail["status"], guardrail["margin"]["relative"]) == ("undecided", 0.1)
    assert guardrail["usersNeeded"] > len(SHOPPERS)
    assert results["verdict"]["decision"] == "keep_running"
    assert "guardrail_undecided" in [reason["code"] for reason in results["verdict"]["reasons"]]
