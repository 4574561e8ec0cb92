"""The results of recorded events, compared with SciPy and NumPy computing from the values of each user."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pytest_django import DjangoDbBlocker
from scipy import integrate, stats

from config.keys.api_keys import create_key
from config.models import Environment, Scope
from tests.answers import data
from tests.conftest import ACTOR, NOON, CommittingClient
from tests.experiments.results.shop import Shopper, make_shoppers, open_shop
from tests.transactions import rolled_back

pytestmark = pytest.mark.django_db

SHOPPERS = make_shoppers()
ALPHA = 0.05
TUNING_SIZE = 5000


def of(variant: str, value: Any) -> np.ndarray:
    return np.array([value(shopper) for shopper in SHOPPERS if shopper.variant == variant], float)


def both(value: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of the users in control, and of those in green."""
    return of("control", value), of("green", value)


def bought(shopper: Shopper) -> bool:
    return bool(shopper.spent)


def spent(shopper: Shopper) -> float:
    return sum(shopper.spent)


def spent_before(shopper: Shopper) -> float:
    return sum(shopper.before)


@pytest.fixture(scope="module")
def results(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[dict[str, Any]]:
    """The answer, requested once for all tests, which only read it."""
    with rolled_back(django_db_blocker):
        production = Environment.objects.get(key="production")
        open_shop(production, SHOPPERS)
        _, secret = create_key(name="reader", environment=production, scope=Scope.SERVER, actor=ACTOR, at=NOON)
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


@pytest.mark.parametrize(("key", "value"), [("bought", bought), ("revenue", spent)])
def test_difference__fixed_horizon__is_welchs_test(results, key, value):
    control, green = both(value)
    test = stats.ttest_ind(green, control, equal_var=False)
    interval = test.confidence_interval(1 - ALPHA)
    difference = variants_of(results, key)[1]["comparison"]["difference"]
    assert difference["estimate"] == close(green.mean() - control.mean())
    assert difference["fixedHorizon"] == {
        "lower": close(interval.low),
        "upper": close(interval.high),
        "pValue": close(test.pvalue),
    }


@pytest.mark.parametrize("figure", ["difference", "lift"])
@pytest.mark.parametrize("key", ["bought", "revenue", "per-look", "complaints"])
def test_estimate__always_valid__is_that_of_the_published_formulas(results, key, figure):
    figures = variants_of(results, key)[1]["comparison"][figure]
    users, estimate, error = len(SHOPPERS), figures["estimate"], figures["standardError"]
    rho2 = (-2 * math.log(ALPHA) + math.log(-2 * math.log(ALPHA) + 1)) / TUNING_SIZE
    grown = users * rho2 + 1
    half = error * math.sqrt(users) * math.sqrt(2 * grown / (users**2 * rho2) * math.log(math.sqrt(grown) / ALPHA))
    p = min(1, math.sqrt(grown) * math.exp(-rho2 * users * estimate**2 / (2 * error**2 * grown)))
    assert figures["alwaysValid"] == {
        "lower": close(estimate - half),
        "upper": close(estimate + half),
        "pValue": close(p),
    }


@pytest.mark.parametrize(("key", "value"), [("bought", bought), ("revenue", spent)])
def test_lift__standard_error__is_that_of_the_delta_method(results, key, value):
    control, green = both(value)
    lift = variants_of(results, key)[1]["comparison"]["lift"]
    squared = green.var(ddof=1) / len(green) / control.mean() ** 2
    squared += control.var(ddof=1) / len(control) * green.mean() ** 2 / control.mean() ** 4
    assert lift["estimate"] == close(green.mean() / control.mean() - 1)
    assert lift["standardError"] == close(math.sqrt(squared))


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
    comparison = variants_of(results, "bought")[1]["comparison"]
    assert comparison["chanceToBeatControl"] == close(chance)
    assert comparison["expectedLoss"] == close(loss)


def test_chance__of_means__is_that_of_a_normal_difference(results):
    comparison = variants_of(results, "revenue")[1]["comparison"]
    estimate, error = (comparison["difference"][name] for name in ("estimate", "standardError"))
    posterior = stats.norm(estimate, error)
    loss, _ = integrate.quad(lambda x: max(0, -x) * posterior.pdf(x), estimate - 12 * error, 0)
    assert comparison["chanceToBeatControl"] == close(posterior.sf(0))
    assert comparison["expectedLoss"] == pytest.approx(loss, rel=1e-6)


def test_cuped__of_revenue__takes_out_earlier_spending(results):
    cuped = variants_of(results, "revenue")[1]["comparison"]["cuped"]
    after, before = both(spent), both(spent_before)
    centred = [((y - y.mean()), (x - x.mean())) for y, x in zip(after, before, strict=True)]
    theta = sum((y * x).sum() for y, x in centred) / sum((x * x).sum() for _, x in centred)
    everyone = np.concatenate(before).mean()
    adjusted = [y - theta * (x - everyone) for y, x in zip(after, before, strict=True)]
    test = stats.ttest_ind(adjusted[1], adjusted[0], equal_var=False)
    explained = theta * sum((y * x).sum() for y, x in centred) / sum((y * y).sum() for y, _ in centred)
    assert cuped["theta"] == close(theta)
    assert cuped["varianceReduction"] == close(explained)
    assert cuped["value"] == close(adjusted[1].mean())
    assert cuped["difference"]["estimate"] == close(adjusted[1].mean() - adjusted[0].mean())
    assert cuped["difference"]["fixedHorizon"]["pValue"] == close(test.pvalue)


def test_adjusted_p_values__of_three_goals__are_holms(results):
    goals = [variants_of(results, key)[1]["comparison"] for key in ("bought", "revenue", "per-look")]
    p_values = sorted(goal["difference"]["alwaysValid"]["pValue"] for goal in goals)
    expected, least = {}, 0.0
    for rank, p in enumerate(p_values):
        least = max(least, min(1, (3 - rank) * p))
        expected[p] = least
    for goal in goals:
        assert goal["adjustedPValue"] == close(expected[goal["difference"]["alwaysValid"]["pValue"]])
    assert variants_of(results, "complaints")[1]["comparison"]["adjustedPValue"] is None


def test_verdict__of_one_treatment__is_what_the_first_goal_says_before_the_correction_for_others(results):
    goal = variants_of(results, "bought")[1]["comparison"]
    p = goal["difference"]["alwaysValid"]["pValue"]
    assert p < ALPHA < goal["adjustedPValue"]
    verdict = results["verdict"]
    assert (verdict["decision"], verdict["variant"], verdict["metric"]) == ("ship", "green", "bought")
    [reason] = verdict["reasons"]
    assert reason["code"] == "better"
    assert reason["message"].endswith(f", p = {p:.2g}: better.")
