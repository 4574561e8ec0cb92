"""Calibration with the users of an experiment: its users, its metrics, and its report."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from config.errors import DomainError
from experiments.exposures.recording import assign
from experiments.metrics.changes import create_metric
from experiments.models import Experiment
from experiments.planner import calibration
from experiments.planner.calibration import CalibrationReport, calibrate, total_splits
from experiments.stats.calibration_simulation import GuardrailRates
from experiments.stats.outcomes import Decision
from experiments.stats.simulation import (
    Comparison,
    ErrorRates,
    Labels,
    Look,
    Population,
    Simulation,
    VerdictRate,
    split,
)
from experiments.stats.types import Design, Weight
from tests.conftest import ACTOR, NOON
from tests.factories import EventFactory, ExperimentFactory
from tests.transactions import rolled_back

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
NOW = NOON + timedelta(days=2)


@pytest.fixture(scope="module")
def experiment_of_the_module(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Experiment]:
    with rolled_back(django_db_blocker):
        yield _make_experiment()


@pytest.fixture
def experiment(experiment_of_the_module: Experiment) -> Experiment:
    return Experiment.objects.select_related("environment").get(pk=experiment_of_the_module.pk)


def _make_experiment() -> Experiment:
    """120 users; every fourth buys, and the last ones are exposed first."""
    create_metric(key="spent", type="revenue", event="purchase", currency="EUR", actor=ACTOR, now=NOON)
    experiment = ExperimentFactory(key="e", metrics=["purchase", "spent"], running=True)
    for number in range(120):
        at = NOON + (120 - number) * MINUTE
        assign(experiment.pk, f"user-{number}", "control", at)
        if number % 4 == 0:
            EventFactory(purchase=True, user_id=f"user-{number}", timestamp=at + MINUTE)
    return experiment


def test_calibrate__all_metrics__splits_every_exposed_user_by_each(experiment: Experiment) -> None:
    progress: list[int] = []
    found = calibrate(experiment, now=NOW, rounds=3, looks=4, on_progress=progress.append)
    assert (found.users, found.rounds, found.looks, found.seed, found.alpha) == (120, 3, 4, 1, 0.05)
    assert [rates.comparison for rates in found.simulation.errors] == [
        Comparison("purchase", "green", is_cuped=False),
        Comparison("spent", "green", is_cuped=False),
    ]
    assert [look.users for look in found.simulation.sample_ratio] == [30, 60, 90, 120]
    assert progress == [1, 1, 1]


def test_calibrate__one_metric__takes_that_alone(experiment: Experiment) -> None:
    found = calibrate(experiment, now=NOW, metric="spent", rounds=2, looks=2)
    assert [rates.comparison.measure for rates in found.simulation.errors] == ["spent"]


def test_calibrate__users__are_in_the_order_of_their_exposures(experiment: Experiment, monkeypatch: Any) -> None:
    taken = []

    def take(population: Population, *_: Any, **__: Any) -> Simulation:
        taken.append(population)
        return Simulation(
            [ErrorRates(Comparison("purchase", "green", is_cuped=False), 1, [], [], 1.0, 1.0)], [], [], []
        )

    monkeypatch.setattr("experiments.planner.calibration.simulate", take)
    calibrate(experiment, now=NOW)
    assert taken[0].user_ids == [f"user-{number}" for number in reversed(range(120))]
    converts, spends = taken[0].observed
    assert converts.y.tolist() == [float(number % 4 == 0) for number in reversed(range(120))]
    assert (spends.y == 10 * converts.y).all()


def test_calibrate__seed__decides_on_the_splits(experiment: Experiment) -> None:
    once, again, other = (calibrate(experiment, now=NOW, rounds=20, looks=20, seed=seed) for seed in (1, 1, 2))
    assert once.simulation == again.simulation
    assert once.simulation != other.simulation


def test_calibrate__draft__is_refused() -> None:
    with pytest.raises(DomainError, match=r"^experiment: Is a draft"):
        calibrate(ExperimentFactory(), now=NOW)


def test_calibrate__few_users__is_refused_with_their_number() -> None:
    experiment = ExperimentFactory(running=True)
    assign(experiment.pk, "user", "control", NOON)
    with pytest.raises(DomainError, match=r"^experiment: Has 1 exposed users so far; at least 100 are required\.$"):
        calibrate(experiment, now=NOW)


def test_calibrate__no_users__is_refused() -> None:
    with pytest.raises(DomainError, match=r"Has 0 exposed users"):
        calibrate(ExperimentFactory(running=True), now=NOW)


def test_calibrate__metric_of_others__is_refused_with_its_own(experiment: Experiment) -> None:
    with pytest.raises(DomainError, match=r"^metric: Must be a metric of the experiment: purchase, spent\.$"):
        calibrate(experiment, now=NOW, metric="signup")


def test_calibrate__experiment_without_metrics__is_refused() -> None:
    with pytest.raises(DomainError, match=r"^experiment: Has no metrics"):
        calibrate(ExperimentFactory(running=True, metrics=[]), now=NOW)


@pytest.mark.parametrize("weights", [(0, 1, 1), (1, 0, 0), (0, 1)])
def test_calibrate__weights_that_leave_nothing_to_compare__is_refused(weights: tuple[int, ...]) -> None:
    variants = [{"key": f"v{at}", "weight": weight} for at, weight in enumerate(weights)]
    with pytest.raises(DomainError, match=r"at least one treatment\.$"):
        calibrate(ExperimentFactory(variants=variants, running=True), now=NOW)


def test_calibrate__everybody_converts__is_refused() -> None:
    experiment = ExperimentFactory(running=True)
    for number in range(100):
        assign(experiment.pk, f"user-{number}", "control", NOON)
        EventFactory(purchase=True, user_id=f"user-{number}", timestamp=NOON + MINUTE)
    with pytest.raises(DomainError, match=r"^experiment: Cannot be tested in any split"):
        calibrate(experiment, now=NOW, rounds=2, looks=2)


def test_calibrate__metric_that_nobody_did__is_reported_as_untested_beside_the_others(experiment: Experiment) -> None:
    both = ExperimentFactory(key="both", metrics=["purchase", "nobody"], running=True)
    for number in range(120):
        assign(both.pk, f"user-{number}", "control", NOON)
    found = calibrate(both, now=NOW, rounds=2, looks=2)
    assert [rates.comparison.measure for rates in found.simulation.errors] == ["purchase"]
    assert found.simulation.untested == [Comparison("nobody", "green", is_cuped=False)]
    assert found.as_json()["untested"] == [{"metric": "nobody", "variant": "green", "isCuped": False}]


def test_calibrate__variant_that_hardly_anybody_gets__counts_the_splits_that_can_be_tested(
    experiment: Experiment,
) -> None:
    variants = [{"key": "a", "weight": 98.5}, {"key": "b", "weight": 1.5}]
    rare = ExperimentFactory(key="rare", variants=variants, running=True)
    for number in range(120):
        assign(rare.pk, f"user-{number}", "a", NOON)
    [rates] = calibrate(rare, now=NOW, rounds=40, looks=1).simulation.errors
    assert 0 < rates.splits < 40


@pytest.mark.parametrize(
    ("always_valid", "mismatches", "is_as_promised"),
    [(0.0, 0.0, True), (0.07, 0.0, True), (0.071, 0.0, False), (0.0, 0.0039, True), (0.0, 0.0041, False)],
)
def test_calibration__more_errors_than_chance_allows__are_not_as_promised(
    always_valid: float, mismatches: float, is_as_promised: bool
) -> None:
    """At 1,000 splits three standard errors are 2.07 points of 5 %, and 0.3 points of 0.1 %."""
    looks, lifts = [Look(100, always_valid, 0.3)], [Look(100, 0.0, 0.3)]
    rates = ErrorRates(Comparison("m", "green", is_cuped=False), 1000, looks, lifts, 1.0, 0.95)
    simulation = Simulation([rates], [], [Look(100, mismatches, 0.0)], [])
    report = CalibrationReport(Experiment(key="e"), 100, 100, 1000, 1, 1, 0.05, simulation, [])
    assert report.is_as_promised is is_as_promised
    assert report.as_json()["isAsPromised"] is is_as_promised


@pytest.mark.parametrize(
    ("wrong", "is_as_promised"),
    [
        ({}, True),
        ({"lift": 0.08}, False),
        ({"primary": 0.08}, False),
        ({"others": 0.08}, False),
        ({"harmed": 0.08}, False),
        ({"safe_at_margin": 0.08}, False),
        ({"safe": 1.0, "shipped": 0.5}, True),
    ],
)
def test_calibration__lifts_labels_and_guardrails__are_promised_too(
    wrong: dict[str, float], is_as_promised: bool
) -> None:
    rates = {
        "lift": 0.0,
        "primary": 0.0,
        "others": 0.0,
        "harmed": 0.0,
        "safe": 0.0,
        "safe_at_margin": 0.0,
        "shipped": 0.0,
    }
    given = {**rates, **wrong}
    looks, lifts = [Look(100, 0.01, 0.3)], [Look(100, given["lift"], 0.3)]
    comparison = Comparison("m", "green", is_cuped=False)
    labels = Labels(100, given["primary"], given["others"], 0.3, given["shipped"], 0.0)
    simulation = Simulation(
        [ErrorRates(comparison, 1000, looks, lifts, 1.0, 0.95)], [], [Look(100, 0.0, 0.0)], [labels]
    )
    guardrails = [GuardrailRates("m", "green", given["harmed"], given["safe"], given["safe_at_margin"])]
    report = CalibrationReport(Experiment(key="e"), 100, 100, 1000, 1, 1, 0.05, simulation, guardrails)
    assert report.is_as_promised is is_as_promised


@pytest.fixture
def guarded(experiment: Experiment) -> Experiment:
    """The same users and purchases, with purchases as a goal, and money and refunds as guardrails."""
    create_metric(
        key="income", type="revenue", event="purchase", currency="EUR", role="guardrail", actor=ACTOR, now=NOON
    )
    create_metric(
        key="refund", type="conversion", event="purchase", role="guardrail", margin_absolute=0.05, actor=ACTOR, now=NOON
    )
    guarded = ExperimentFactory(key="guarded", metrics=["income", "purchase", "refund"], running=True)
    for number in range(120):
        assign(guarded.pk, f"user-{number}", "control", NOON)
    return guarded


def test_calibrate__guardrails__are_judged_without_a_difference_and_at_their_margin(guarded: Experiment) -> None:
    progress: list[int] = []
    found = calibrate(guarded, now=NOW, rounds=200, looks=3, on_progress=progress.append)
    assert [(rates.measure, rates.variant) for rates in found.guardrails] == [("income", "green"), ("refund", "green")]
    assert len(progress) == total_splits(guarded, None, 200) == 400
    assert total_splits(guarded, "purchase", 200) == 200

    income, purchase, _ = found.outcomes()
    assert purchase.rates is not None
    assert purchase.rates["guardrail"] is None
    assert purchase.rates["labels"] == found.simulation.labels[-1].primary
    assert income.rates is not None
    assert income.rates["labels"] is None
    assert income.rates["guardrail"].keys() == {"harmed", "safeAtMargin"}
    assert income.rates["lift"].keys() == {"alwaysValid", "fixedHorizon"}
    document = found.as_json()
    assert [entry["metric"] for entry in document["guardrails"]] == ["income", "refund"]
    assert [look["users"] for look in document["labels"]] == [40, 80, 120]


def test_calibrate__metric_with_a_window__counts_the_users_whose_window_is_over(
    experiment: Experiment, monkeypatch: Any
) -> None:
    create_metric(key="soon", type="conversion", event="purchase", window_hours=47, actor=ACTOR, now=NOON)
    windowed = ExperimentFactory(key="w", metrics=["soon"], running=True)
    for number in range(120):
        assign(windowed.pk, f"user-{number}", "control", NOON + number * MINUTE)
    taken: list[Population] = []
    simulated = calibration.simulate

    def take(population: Population, *given: Any, **settings: Any) -> Simulation:
        taken.append(population)
        return simulated(population, *given, **settings)

    monkeypatch.setattr(calibration, "simulate", take)
    calibrate(windowed, now=NOW, rounds=2, looks=1)
    [observed] = taken[0].observed
    assert observed.mature is not None
    assert observed.mature.tolist() == [1.0] * 61 + [0.0] * 59
    assert not observed.y[61:].any()
    [[sums]] = split(taken[0], Design([Weight("a", 1), Weight("b", 1)], "a", is_running=True), salt="s", looks=1)
    assert sum(part.n for part in sums.values()) == 61


@pytest.mark.parametrize(
    ("decision", "share", "with_effect", "is_as_promised"),
    [
        (Decision.SHIP, 0.06, False, True),
        (Decision.SHIP, 0.08, False, False),
        (Decision.DO_NOT_SHIP, 0.08, False, False),
        (Decision.NO_DIFFERENCE, 0.08, False, True),
        (Decision.SHIP, 0.8, True, True),
        (Decision.NO_DIFFERENCE, 0.08, True, False),
    ],
)
def test_calibration__wrong_verdicts__are_promised_not_to_be_frequent(
    decision: Decision, share: float, with_effect: bool, is_as_promised: bool
) -> None:
    """To ship is right with an effect, and no difference is right without one."""
    rates = ErrorRates(
        Comparison("m", "green", is_cuped=False), 1000, [Look(9, 0.0, 0.3)], [Look(9, 0.0, 0.3)], 1.0, 0.95
    )
    verdicts = [VerdictRate("a_rule", decision, share), VerdictRate("another_rule", Decision.KEEP_RUNNING, 1 - share)]
    simulation = Simulation([rates], [], [Look(9, 0.0, 0.0)], [], [] if with_effect else verdicts)
    report = CalibrationReport(
        Experiment(key="e"), 9, 9, 1000, 1, 1, 0.05, simulation, [], 0.1, verdicts if with_effect else []
    )
    assert report.is_as_promised is is_as_promised
    as_json = report.as_json()
    assert as_json["verdictsWithMinimumEffect" if with_effect else "verdicts"][0] == {
        "rule": "a_rule",
        "decision": str(decision),
        "share": share,
    }


def test_total_splits__with_a_smallest_effect_and_a_goal__are_as_many_more() -> None:
    planned = ExperimentFactory(key="planned", minimum_effect=0.1, running=True)
    assert total_splits(planned, None, 200) == 400
    assert total_splits(ExperimentFactory(key="unplanned", running=True), None, 200) == 200
