"""CUPED in results: it decides where it was registered, with the raw figures beside the adjusted ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from config.models import Environment
from tests.experiments.results import brute_force
from tests.experiments.results.asking import ask
from tests.experiments.results.shop import make_shoppers, open_shop

pytestmark = pytest.mark.django_db

SHOPPERS = make_shoppers(300)


def close(value: float) -> Any:
    return pytest.approx(value, rel=1e-6, abs=1e-12)


def both(name: str) -> list[np.ndarray]:
    """Return the amounts of the users in control, and of those in green."""
    amounts = [(shopper.variant, sum(getattr(shopper, name))) for shopper in SHOPPERS]
    return [np.array([amount for variant, amount in amounts if variant == key]) for key in ("control", "green")]


def test_results__with_cuped__are_those_of_the_adjusted_values(api: Any, production: Environment) -> None:
    open_shop(production, SHOPPERS, metrics=("revenue",), lookback_days=14)
    figures = ask(api)["metrics"][0]["variants"][1]
    after, before = both("spent"), both("before")
    centred = [((y - y.mean()), (x - x.mean())) for y, x in zip(after, before, strict=True)]
    theta = sum((y * x).sum() for y, x in centred) / sum((x * x).sum() for _, x in centred)
    reduction = theta * sum((y * x).sum() for y, x in centred) / sum((y * y).sum() for y, _ in centred)
    everyone = np.concatenate(before).mean()
    control, green = (y - theta * (x - everyone) for y, x in zip(after, before, strict=True))

    comparison = figures["comparison"]
    assert comparison["cuped"] == {"theta": close(theta), "varianceReduction": close(reduction), "lookbackDays": 14}
    assert figures["value"] == close(green.mean())
    assert comparison["difference"]["estimate"] == close(green.mean() - control.mean())
    explained = (theta * centred[1][1], theta * centred[0][1])
    test = brute_force.Means(green.mean(), control.mean(), (centred[1][0], centred[0][0]), explained)
    welch = stats.ttest_ind(green, control, equal_var=False)
    assert comparison["singleLook"]["difference"]["pValue"] == close(2 * stats.t(welch.df).sf(abs(test.z)))

    raw = stats.t.interval(0.95, len(after[1]) - 1, after[1].mean(), stats.sem(after[1]))
    assert figures["raw"]["value"] == close(after[1].mean())
    assert figures["raw"]["interval"] == {"lower": close(raw[0]), "upper": close(raw[1])}
    assert figures["raw"]["difference"]["estimate"] == close(after[1].mean() - after[0].mean())


def test_verdict__with_cuped__rests_on_the_adjusted_values(api: Any, production: Environment) -> None:
    open_shop(production, SHOPPERS, metrics=("revenue",), lookback_days=14, minimum_days=0)
    answer = ask(api)
    difference = answer["metrics"][0]["variants"][1]["comparison"]["difference"]
    reason, *_ = answer["verdict"]["reasons"]
    assert f"revenue of green is {abs(difference['estimate']):.3g}" in reason["message"]
    assert answer["plan"]["lookbackDays"] == 14


def test_before_exposure__spending_of_both_variants__is_compared(api: Any, production: Environment) -> None:
    open_shop(production, SHOPPERS, metrics=("revenue",), lookback_days=14)
    answer = ask(api)
    control, green = both("before")
    before = answer["metrics"][0]["variants"][1]["comparison"]["beforeExposure"]
    assert before["estimate"] == close(green.mean() - control.mean())
    assert answer["guards"]["differentBefore"] == []


def test_before_exposure__of_variants_that_differed_already__is_a_warning(api: Any, production: Environment) -> None:
    unlike = [replace(shopper, before=(50.0, 50.0) if shopper.variant == "green" else ()) for shopper in SHOPPERS]
    unlike[0] = replace(unlike[0], before=(49.0, 50.0))
    open_shop(production, unlike, metrics=("revenue",), lookback_days=14)
    answer = ask(api)
    [warning] = answer["guards"]["differentBefore"]
    assert (warning["metric"], warning["variant"]) == ("revenue", "green")
    assert warning["difference"]["alwaysValid"]["pValue"] < 0.001
    assert "different_before" in [reason["code"] for reason in answer["verdict"]["reasons"]]
