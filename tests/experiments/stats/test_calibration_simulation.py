"""Guardrails of simulated experiments: seldom harmed without a difference, seldom safe at their margin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.stats.calibration_simulation import at_margin, simulate_guardrails, simulate_smallest_effect, with_lift
from experiments.stats.outcomes import Decision, Verdict
from experiments.stats.simulation import Observed, Population, Simulation, simulate, verdict_rates
from experiments.stats.types import Design, Kind, Margin, Measure, Plan, Quantile, Weight

HALVES = Design([Weight("a", 1), Weight("b", 1)], "a", is_running=True)
USERS = 4000
TREATED = np.arange(100_000) % 2 == 1


def observed(
    kind: Kind, y: np.ndarray, margin: Margin, *, is_decrease_good: bool = False, is_guardrail: bool = True
) -> Observed:
    measure = Measure("m", kind, is_decrease_good=is_decrease_good, is_guardrail=is_guardrail, margin=margin)
    return Observed(measure, y, np.ones(len(y)) * 2, np.zeros(len(y)), np.zeros(len(y)))


def converted(rate: float, users: int = USERS, seed: int = 1) -> np.ndarray:
    return (np.random.default_rng(seed).random(users) < rate).astype(float)


def rates_of(given: Observed, rounds: int = 150) -> tuple[float, float, float | None]:
    population = Population([str(number) for number in range(len(given.y))], [given])
    [rates] = simulate_guardrails(population, HALVES, rounds=rounds, looks=5, seed=1)
    assert (rates.measure, rates.variant) == ("m", "b")
    return rates.harmed, rates.safe, rates.safe_at_margin


@pytest.mark.parametrize(
    ("kind", "margin", "is_decrease_good"),
    [
        ("share", Margin(relative=0.3), False),
        ("share", Margin(relative=0.3), True),
        ("share", Margin(absolute=0.08), False),
        ("mean", Margin(relative=0.4), False),
        ("mean", Margin(absolute=0.5), True),
        ("ratio", Margin(relative=0.4), False),
        ("ratio", Margin(absolute=0.25), False),
    ],
)
def test_simulate_guardrails__always_valid__keep_their_promise(
    kind: Kind, margin: Margin, is_decrease_good: bool
) -> None:
    values = converted(0.3) if kind == "share" else np.random.default_rng(2).exponential(1.5, USERS)
    harmed, safe, safe_at_margin = rates_of(observed(kind, values, margin, is_decrease_good=is_decrease_good))
    assert harmed <= 0.05
    assert safe > 0.9
    assert safe_at_margin is not None
    assert safe_at_margin <= 0.05


def test_simulate_guardrails__test_that_is_too_narrow__is_found_out() -> None:
    """With alpha 0.9 intervals are far too narrow for a promise of 5 %."""
    given = observed("share", converted(0.3), Margin(relative=0.05))
    population = Population([str(number) for number in range(USERS)], [given])
    careless = Design([Weight("a", 1), Weight("b", 1)], "a", is_running=True, alpha=0.9)
    [rates] = simulate_guardrails(population, careless, rounds=100, looks=5, seed=1)
    assert rates.harmed > 0.1
    assert rates.safe_at_margin is not None
    assert rates.safe_at_margin > 0.05


@pytest.mark.parametrize(
    ("kind", "values", "margin", "is_decrease_good", "expected"),
    [
        ("share", converted(0.3, 100_000), Margin(relative=0.2), False, 0.24),
        ("share", converted(0.3, 100_000), Margin(relative=0.2), True, 0.36),
        ("share", converted(0.3, 100_000), Margin(absolute=0.1), True, 0.4),
        ("mean", np.full(100_000, 5.0), Margin(relative=0.1), False, 4.5),
        ("mean", np.full(100_000, -5.0), Margin(relative=0.1), False, -5.5),
        ("mean", np.full(100_000, -5.0), Margin(absolute=2.0), True, -3.0),
        ("ratio", np.full(100_000, 5.0), Margin(relative=0.1), True, 5.5),
        ("ratio", np.full(100_000, 5.0), Margin(absolute=0.5), False, 4.0),  # of 2 in the denominator
    ],
)
def test_at_margin__treated_users__have_the_mean_at_the_margin(
    kind: Kind, values: np.ndarray, margin: Margin, is_decrease_good: bool, expected: float
) -> None:
    given = observed(kind, values, margin, is_decrease_good=is_decrease_good)
    worse = at_margin(given, TREATED, np.random.default_rng(5))
    assert worse is not None
    assert worse.y[TREATED].mean() == pytest.approx(expected, abs=0.006 if kind == "share" else 1e-9)
    assert (worse.y[~TREATED] == values[~TREATED]).all()
    if kind == "share":
        assert set(worse.y) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("values", "margin", "is_decrease_good"),
    [
        (converted(0.8), Margin(relative=0.5), True),  # a rate of 120 %
        (np.zeros(USERS), Margin(relative=0.5), False),
        (converted(0.3), Margin(absolute=0.4), False),
    ],
)
def test_at_margin__rates_that_cannot_be__are_not_simulated(
    values: np.ndarray, margin: Margin, is_decrease_good: bool
) -> None:
    given = observed("share", values, margin, is_decrease_good=is_decrease_good)
    assert at_margin(given, np.ones(USERS, bool), np.random.default_rng(5)) is None
    assert rates_of(given, rounds=3)[2] is None


def test_at_margin__users_whose_window_is_not_over__do_not_change() -> None:
    mature = (np.arange(100_000) < 50_000).astype(float)
    for kind, margin in (("share", Margin(relative=0.2)), ("mean", Margin(absolute=0.1))):
        values = converted(0.3, 100_000) * mature
        measure = Measure("m", kind, is_decrease_good=True, is_guardrail=True, margin=margin)
        given = Observed(measure, values, values, values, mature=mature)
        worse = at_margin(given, TREATED, np.random.default_rng(5))
        assert worse is not None
        assert not worse.y[50_000:].any()
        assert worse.y[:50_000][TREATED[:50_000]].mean() > values[:50_000].mean() + 0.03


def test_at_margin__quantile__moves_by_its_margin() -> None:
    def quantiles(groups: np.ndarray, number: int) -> list[Quantile]:
        users = [int((groups == group).sum()) for group in range(number)]
        return [Quantile(count, count, 20.0, 0.5) for count in users]

    for margin, value, error in ((Margin(relative=0.1), 18.0, 0.5 * 0.81), (Margin(absolute=3.0), 17.0, 0.5)):
        measure = Measure("m", "quantile", is_guardrail=True, margin=margin)
        given = Observed(measure, np.ones(10), np.zeros(10), np.zeros(10), quantiles=quantiles)
        worse = at_margin(given, TREATED[:10], np.random.default_rng(5))
        assert worse is not None
        assert worse.quantiles is not None
        groups = np.where(TREATED[:10], 1, 0)
        control, moved = worse.quantiles(groups, 2)
        assert control == quantiles(groups, 2)[0]
        assert (moved.value, moved.squared_error) == pytest.approx((value, error))


def test_simulate_guardrails__seed__decides_on_the_splits() -> None:
    given = observed("share", converted(0.3, 400), Margin(relative=0.9))
    population = Population([str(number) for number in range(400)], [given])
    first, again, other = (simulate_guardrails(population, HALVES, rounds=30, looks=2, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_simulate_guardrails__goals_alone__are_not_judged() -> None:
    given = observed("share", converted(0.3), Margin(), is_guardrail=False)
    population = Population([str(number) for number in range(USERS)], [given])
    assert simulate_guardrails(population, HALVES, rounds=3, looks=2, seed=1) == []
    assert isinstance(simulate(population, HALVES, rounds=1, looks=1, seed=1), Simulation)


@pytest.mark.parametrize(
    ("kind", "values", "is_decrease_good", "expected"),
    [
        ("share", converted(0.3, 100_000), False, 0.36),
        ("share", converted(0.3, 100_000), True, 0.24),
        ("mean", np.full(100_000, 5.0), False, 6.0),
        ("mean", np.full(100_000, -5.0), False, -4.0),
        ("ratio", np.full(100_000, 5.0), True, 4.0),
    ],
)
def test_with_lift__any_kind__makes_treated_users_better_by_it(
    kind: Kind, values: np.ndarray, is_decrease_good: bool, expected: float
) -> None:
    given = observed(kind, values, Margin(relative=0.9), is_decrease_good=is_decrease_good, is_guardrail=False)
    changed = with_lift(given, 0.2, TREATED, np.random.default_rng(2))
    assert changed is not None
    assert changed.y[TREATED].mean() == pytest.approx(expected, rel=0.02)
    assert (changed.y[~TREATED] == given.y[~TREATED]).all()


def smallest_effect(given: Observed, minimum_effect: float | None) -> dict[Decision, float] | None:
    users = len(given.y)
    design = replace(HALVES, plan=Plan(size=users, minimum_effect=minimum_effect))
    population = Population([str(number) for number in range(users)], [given])
    progress: list[int] = []
    rates = simulate_smallest_effect(population, design, rounds=100, seed=2, on_progress=progress.append)
    assert progress == ([1] * 100 if rates is not None else [])
    return None if rates is None else {rate.decision: rate.share for rate in rates}


def test_simulate_smallest_effect__large_enough_to_be_seen__is_shipped_and_hardly_ever_no_difference() -> None:
    goal = observed("share", converted(0.3), Margin(), is_guardrail=False)
    rates = smallest_effect(goal, 0.2)
    assert rates is not None
    assert sum(rates.values()) == pytest.approx(1.0)
    assert rates[Decision.SHIP] > 0.5
    assert rates.get(Decision.NO_DIFFERENCE, 0.0) <= 0.05


def test_simulate_smallest_effect__that_cannot_be__is_not_simulated() -> None:
    goal = observed("share", converted(0.8), Margin(), is_guardrail=False)
    assert smallest_effect(goal, None) is None
    assert smallest_effect(goal, 0.5) is None  # no share is above 1
    assert smallest_effect(observed("share", converted(0.3), Margin()), 0.2) is None  # no goal


def test_verdict_rates__of_verdicts__count_rules_and_decisions() -> None:
    ship, wait = Verdict(Decision.SHIP, "b", [], "one"), Verdict(Decision.KEEP_RUNNING, None, [], "two")
    rates = verdict_rates([wait, ship, wait, wait])
    assert [(rate.rule, rate.decision, rate.share) for rate in rates] == [
        ("two", Decision.KEEP_RUNNING, 0.75),
        ("one", Decision.SHIP, 0.25),
    ]
