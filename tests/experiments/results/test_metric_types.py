"""Results of funnels and quantiles, and slices of metrics with a window."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.models import Environment
from events.models import Event
from experiments.exposures.recording import assign
from experiments.lifecycle.decisions import stop_experiment
from experiments.metrics.checks import MAX_STEPS
from experiments.metrics.conditions import MAX_CONDITIONS
from experiments.metrics.definition import Condition, Definition, Quantity
from experiments.models import Experiment
from experiments.results import archive, quantiles
from experiments.results.ages import read_ages
from experiments.results.analyse import analyse_experiment
from experiments.results.archive import freeze
from experiments.results.explain import explain
from experiments.results.quantiles import compute_quantiles
from experiments.results.refresh import bring_series_up_to_date, refresh_locked
from experiments.results.series import read_series
from experiments.results.types import VariantFigures
from tests.conftest import ACTOR, NOON
from tests.experiments.results.histories import make_experiment
from tests.factories import EventFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
STEPS = (Quantity("view"), Quantity("basket"), Quantity("purchase"))
METRICS = (
    Definition("through", 1, "funnel", STEPS[0], steps=STEPS, window=DAY),
    Definition("loading", 1, "quantile", Quantity("view", "seconds"), quantile=0.5),
)


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """A running experiment with three users in green on paid plans who came at NOON, and one who came a day later."""
    experiment = make_experiment(production, *METRICS)
    for number, names in enumerate((["view", "basket", "purchase"], ["view", "basket"], ["basket", "view"], ["view"])):
        exposed_at = NOON + DAY * (number == 3)
        assign(experiment.pk, f"u{number}", "green", exposed_at, attributes={"plan": "free" if number == 3 else "paid"})
        for second, name in enumerate(names):
            at = exposed_at + timedelta(seconds=second)
            EventFactory(user_id=f"u{number}", name=name, timestamp=at, properties={"seconds": number + 1})
    return experiment


def green(experiment: Experiment, **options: Any) -> dict[str, VariantFigures]:
    results = analyse_experiment(experiment, NOON + 1.5 * DAY, **options)
    return of_green(results.metrics)


def of_green(metrics: Any) -> dict[str, VariantFigures]:
    return {
        figures.definition.key: variant for figures in metrics for variant in figures.variants if variant.key == "green"
    }


def test_results__funnel__have_the_users_of_each_step_who_are_mature(experiment: Experiment) -> None:
    figures = green(experiment)["through"]

    assert (figures.counted_users, figures.value) == (3, pytest.approx(1 / 3))
    assert [(step.event, step.users) for step in figures.steps] == [("view", 3), ("basket", 2), ("purchase", 1)]
    everybody = green(experiment, maturity="all")["through"]
    assert (everybody.counted_users, [step.users for step in everybody.steps]) == (4, [4, 2, 1])


def test_results__quantile__have_the_value_of_the_events(experiment: Experiment) -> None:
    figures = green(experiment)["loading"]

    assert (figures.counted_users, figures.value) == (4, 2.5)


def test_results__slices__count_mature_users_and_have_quantiles(experiment: Experiment) -> None:
    results = analyse_experiment(experiment, NOON + 1.5 * DAY, breakdown="plan")
    assert results.breakdown is not None
    slices = {part.value: of_green(part.metrics) for part in results.breakdown.values}

    through = {value: (part["through"].users, part["through"].counted_users) for value, part in slices.items()}
    assert through == {"paid": (3, 3), "free": (1, 0)}
    assert [step.users for step in slices["paid"]["through"].steps] == [3, 2, 1]
    assert {value: part["loading"].value for value, part in slices.items()} == {"paid": 2, "free": 4}


def test_results__frozen_and_events_gone__keep_quantiles_and_maturity(experiment: Experiment) -> None:
    Experiment.objects.update(status="stopped", stopped_at=NOON + 1.5 * DAY)
    stopped = Experiment.objects.get()
    before = green(stopped)
    freeze(stopped, NOON + 9 * DAY)
    Event.objects.all().delete()

    frozen = green(Experiment.objects.get())
    assert {key: (figures.counted_users, figures.value, figures.steps) for key, figures in frozen.items()} == {
        key: (figures.counted_users, figures.value, figures.steps) for key, figures in before.items()
    }
    assert frozen["loading"].value == 2.5
    assert green(Experiment.objects.get(), maturity="all")["loading"].value == 2.5


@pytest.mark.django_db(transaction=True)  # within one transaction, PostgreSQL would find everything new again
@pytest.mark.parametrize("with_winner", [False, True])
def test_freeze__quantiles__are_computed_before_anything_is_locked(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch, with_winner: bool
) -> None:
    at, statuses = NOON + 9 * DAY, []
    if not with_winner:
        Experiment.objects.update(status="stopped", stopped_at=NOON + 1.5 * DAY)

    def compute(current: Experiment, *arguments: Any) -> Any:
        statuses.append((current.status, is_locked))
        return compute_quantiles(current, *arguments)

    def refresh(*arguments: Any) -> Any:
        nonlocal is_locked
        is_locked = True
        return refresh_locked(*arguments)

    is_locked = False
    monkeypatch.setattr(quantiles, "compute_quantiles", compute)
    monkeypatch.setattr(archive, "refresh_locked", refresh)
    if with_winner:
        stop_experiment(
            key=experiment.key, environment=experiment.environment, actor=ACTOR, now=at, winner="green", reason="-"
        )
    else:
        freeze(Experiment.objects.get(), at)

    assert statuses == [("running" if with_winner else "stopped", False)] * 2  # of mature users, and of all
    [frozen] = Experiment.objects.all()
    assert frozen.frozen_at is not None
    assert green(frozen)["loading"].value == 2.5


def test_results__distinct__tell_values_of_different_types_apart(production: Environment) -> None:
    experiment = make_experiment(production, Definition("seen", 1, "distinct", Quantity("view", "item")))
    assign(experiment.pk, "u", "green", NOON)
    for item in (True, "true", False, "false", 1, 1.0, "1", None, [1], ["a"], {}, {"a": 1}):
        EventFactory(user_id="u", name="view", timestamp=NOON, properties={"item": item})

    assert green(experiment)["seen"].value == 6


def test_results__funnel_of_the_most_steps_and_conditions__are_read_in_every_view(production: Environment) -> None:
    """SQLite reads statements of a limited depth only."""
    values = ("a", 1, True, *(f"v{number}" for number in range(17)))
    where = tuple(Condition(f"p{number}", "notIn", values) for number in range(MAX_CONDITIONS))
    steps = tuple(Quantity(f"s{number}", where=where) for number in range(MAX_STEPS))
    experiment = make_experiment(production, Definition("through", 1, "funnel", steps[0], steps=steps))
    assign(experiment.pk, "ada", "green", NOON)
    for number, step in enumerate(steps):
        properties = {condition.property: "other" for condition in where}
        at = NOON + timedelta(minutes=number)
        EventFactory(user_id="ada", name=step.event, timestamp=at, properties=properties)
    now = NOON + 2 * DAY
    assert green(experiment)["through"].value == 1
    bring_series_up_to_date(experiment, now)
    *_, (_, sums) = read_series(experiment, now)
    assert sums.by_phase[1][0]["green"].positive == 1
    first, *_ = read_ages(experiment, 0, now, {})
    assert first[1][0]["green"].positive == 1
    assert explain(experiment, 0, "green", now=now)["value"] == 1


def test_results__distinct_values_that_differ_in_the_last_digit__are_distinct(production: Environment) -> None:
    """Numbers that are equal are one value however they are written. Texts are others."""
    experiment = make_experiment(production, Definition("kinds", 1, "distinct", Quantity("view", "kind")))
    assign(experiment.pk, "ada", "green", NOON)
    for kind in (0.3, 0.30000000000000004, 1769860800.123456, 1769860800.123457, 2**53, 2**53 + 1, 2, 2.0, 1e22, "2"):
        EventFactory(user_id="ada", name="view", timestamp=NOON, properties={"kind": kind})
    assert green(experiment)["kinds"].value == 9
