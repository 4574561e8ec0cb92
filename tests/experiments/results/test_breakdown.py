"""Sums by the values of an attribute. Each user is in one slice."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import reduce
from operator import add
from random import Random
from typing import Any

import pytest

from config.models import Environment
from experiments.exposures.recording import assign
from experiments.metrics.definition import Definition, Quantity
from experiments.models import Experiment, Exposure
from experiments.results import quantiles
from experiments.results.breakdown import Slice, read_breakdown
from experiments.results.maturity import read_mature
from experiments.results.refresh import refresh
from experiments.results.sums import EXPOSURE, NAMES, ExactSums, SumsAsOf, read_caps, read_sums
from experiments.results.values import as_if_stopped
from tests.conftest import NOON
from tests.experiments.results.histories import DEFINITIONS, ODD_NAME, History, make_experiment
from tests.factories import EventFactory, ExperimentFactory

pytestmark = pytest.mark.django_db


def read(experiment: Experiment, attribute: str, **options: Any) -> list[Slice]:
    return read_breakdown(experiment, attribute, read_caps(experiment), **options)


def expose(experiment: Experiment, **plans: Any) -> None:
    for user, plan in plans.items():
        assign(experiment.pk, user, "green", NOON, attributes={} if plan is None else {ODD_NAME: plan, "other": "x"})


def test_read_breakdown__numbers_that_differ_in_the_last_digit__are_distinct(production: Environment) -> None:
    experiment = ExperimentFactory(running=True)
    expose(experiment, a=0.3, b=0.30000000000000004, c=2**53 + 1, d=2**63, e=1e22)
    refresh(experiment, NOON)
    assert {part.value: part.users for part in read(experiment, ODD_NAME)} == {
        0.3: 1,
        0.30000000000000004: 1,
        2**53 + 1: 1,
        2**63: 1,
        1e22: 1,
    }


def test_read_breakdown__values_of_every_type__are_distinct(production: Environment) -> None:
    experiment = ExperimentFactory(running=True)
    expose(experiment, a="pro", b="pro", c=True, d=1, e=2.5, f="true", g="1", h=None, i=1.0, j=False, k='"é"')
    EventFactory(user_id="b", name="purchase")
    refresh(experiment, NOON)

    slices = {(kind_of(part.value), part.value): part for part in read(experiment, ODD_NAME)}
    assert {key: part.users for key, part in slices.items()} == {
        (str, "pro"): 2,
        (float, 1): 2,
        (bool, True): 1,
        (bool, False): 1,
        (float, 2.5): 1,
        (str, "true"): 1,
        (str, "1"): 1,
        (str, '"é"'): 1,
        (type(None), None): 1,
    }
    assert [key for key, part in slices.items() if 0 in part.totals] == [(str, "pro")]
    assert slices[str, "pro"].totals[0]["green"].positive == 1
    assert not any(part.is_rest for part in slices.values())


@pytest.mark.parametrize(
    ("numbers", "value"),
    [
        ([1, 1.0], 1),
        ([1.0, 1.0], 1),
        ([100.0, 100, 100.0], 100),
        ([0, -0.0, 0.0], 0),
        ([0.1234567, 0.1234567], 0.1234567),
        ([20240115], 20240115),
        ([2**53 + 1], 2**53 + 1),
        ([10**15, 1e15], 10**15),
        ([1e300], 1e300),
    ],
)
def test_read_breakdown__numbers_of_one_value__are_one_exact_slice(
    production: Environment, numbers: list[float], value: float
) -> None:
    experiment = ExperimentFactory(running=True)
    expose(experiment, **{f"user-{index}": number for index, number in enumerate(numbers)}, text=str(value))
    refresh(experiment, NOON)

    slices = read(experiment, ODD_NAME)
    assert {repr(part.value): part.users for part in slices} == {repr(value): len(numbers), repr(str(value)): 1}


def kind_of(value: object) -> type:
    """Return the type in JSON, where 1 and 1.0 are equal, but differ from true and "1"."""
    return float if type(value) is int else type(value)


def test_read_breakdown__more_values_than_the_maximum__puts_the_rarer_together(production: Environment) -> None:
    experiment = ExperimentFactory(running=True)
    expose(experiment, a="x", b="x", c="x", d="y", e="y", f="z", g="w", h=None, i=None, j=None, k=None)
    refresh(experiment, NOON)

    slices = read(experiment, ODD_NAME, most=2)
    assert [(part.value, part.is_rest, part.users) for part in slices] == [
        (None, False, 4),
        ("x", False, 3),
        ("y", False, 2),
        (None, True, 2),
    ]


def test_read_breakdown__attribute_that_nobody_has__is_one_slice_of_all(production: Environment) -> None:
    experiment = ExperimentFactory(running=True)
    expose(experiment, a="x", b=None)
    refresh(experiment, NOON)

    slices = read(experiment, "100")
    assert [(part.value, part.is_rest, part.users) for part in slices] == [(None, False, 2)]


def test_read_breakdown__one_phase__has_its_users_and_the_values_that_most_of_them_have(
    production: Environment,
) -> None:
    experiment = ExperimentFactory(running=True)
    expose(experiment, a="x", b="x", c="x", d="y", e="y", f="z", g=None)
    Exposure.objects.filter(user_id__in="cdefg").update(phase=2)
    refresh(experiment, NOON)

    slices = read(experiment, ODD_NAME, phases=[2], most=1)
    assert [(part.value, part.is_rest, part.users) for part in slices] == [
        ("y", False, 2),
        (None, False, 1),
        (None, True, 2),
    ]
    assert read(experiment, ODD_NAME, phases=[3]) == []


@pytest.mark.parametrize("seed", range(3))
def test_read_breakdown__after_a_history__adds_up_to_the_sums(production: Environment, seed: int) -> None:
    experiment = make_experiment(production)
    history = History(experiment, Random(seed))
    for _ in range(30):
        history.chance.choice([history.record, history.report, history.assign])()
    for exposure in Exposure.objects.all():
        exposure.attributes = {"plan": history.chance.choice(["a", "b", 3])}
        exposure.save(update_fields=["attributes"])
    refresh(experiment, NOON)

    slices: dict[tuple[int, str], list[ExactSums]] = {}
    for part in read(experiment, "plan", most=1):
        for metric_index, variants in part.totals.items():
            for variant, totals in variants.items():
                slices.setdefault((metric_index, variant), []).append(totals)
    expected = {
        (metric_index, variant): totals
        for metric_index, variants in read_sums(experiment).items()
        for variant, totals in variants.items()
    }
    assert {key: figures(reduce(add, parts)) for key, parts in slices.items()} == {
        key: pytest.approx(figures(totals)) for key, totals in expected.items()
    }
    assert (EXPOSURE, "green") in expected


def figures(totals: ExactSums) -> list[float]:
    return [getattr(totals, name) for name in NAMES]


@pytest.mark.parametrize("seed", range(3))
def test_read_breakdown__at_a_moment__adds_up_to_the_sums_over_mature_users(production: Environment, seed: int) -> None:
    experiment = make_experiment(production)
    history = History(experiment, Random(seed))
    for _ in range(40):
        history.chance.choice([history.record, history.report, history.assign, history.move])()
    for exposure in Exposure.objects.all():
        exposure.attributes = {"plan": history.chance.choice(["a", "b", 3])}
        exposure.save(update_fields=["attributes"])
    at = NOON + timedelta(days=5)
    refresh(experiment, at)

    slices = [part.sums for part in read(experiment, "plan", most=1, now=at)]
    reading = read_mature(experiment, at, read_caps(experiment)).sums
    assert added(sums_by_key(part) for part in slices) == added([sums_by_key(reading)])
    assert added(users_by_key(part) for part in slices) == added([users_by_key(reading)])
    assert len(slices) > 1


def sums_by_key(sums: SumsAsOf) -> dict[Any, list[float]]:
    return {
        (phase, index, variant): figures(totals)
        for phase, by_metric in sums.by_phase.items()
        for index, by_variant in by_metric.items()
        for variant, totals in by_variant.items()
    }


def users_by_key(sums: SumsAsOf) -> dict[Any, list[float]]:
    return {
        (span, phase, variant): [users]
        for span, by_phase in sums.mature.items()
        for phase, by_variant in by_phase.items()
        for variant, users in by_variant.items()
    }


def added(parts: Iterable[dict[Any, list[float]]]) -> dict[Any, list[str]]:
    """Add the parts up, to nine digits, without zeros."""
    whole: dict[Any, list[float]] = {}
    for part in parts:
        for key, values in part.items():
            whole[key] = [left + right for left, right in zip(whole.get(key, [0] * len(values)), values, strict=True)]
    return {key: [f"{float(value) + 0.0:.9e}" for value in values] for key, values in whole.items() if any(values)}


@pytest.fixture(params=["in memory", "counted by the database"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How quantiles are found: from values that the service reads, or from counts of the database."""
    if request.param != "in memory":
        monkeypatch.setattr(quantiles, "MAX_IN_MEMORY", 0)


@pytest.mark.usefixtures("_way")
def test_read_breakdown__quantile__is_that_of_the_users_of_each_slice(production: Environment) -> None:
    median = Definition("median", 1, "quantile", Quantity("load", "seconds"), quantile=0.5)
    experiment = make_experiment(production, median)
    expose(experiment, a="pro", b="pro", c="free", d=None)
    for user, seconds in (("a", 1), ("a", 2), ("b", 9), ("c", 4), ("d", 5)):
        EventFactory(user_id=user, name="load", properties={"seconds": seconds})
    refresh(experiment, NOON)

    slices = {part.value: part.quantiles[0][0]["green"] for part in read(experiment, ODD_NAME, now=NOON, splits=[[1]])}
    assert {value: (part.n, part.events, part.value) for value, part in slices.items()} == {
        "pro": (2, 3, 2),
        "free": (1, 1, 4),
        None: (1, 1, 5),
    }


@pytest.mark.usefixtures("_way")
def test_read_breakdown__quantile_of_several_splits__is_that_of_the_users_of_each(production: Environment) -> None:
    median = Definition("median", 1, "quantile", Quantity("load", "seconds"), quantile=0.5)
    experiment = make_experiment(production, median)
    expose(experiment, a="pro", b="pro", c="pro", d="free")
    Exposure.objects.filter(user_id__in="bc").update(phase=2)
    for user, seconds in (("a", 1), ("b", 9), ("b", 7), ("c", 4), ("d", 5)):
        EventFactory(user_id=user, name="load", properties={"seconds": seconds})
    refresh(experiment, NOON)

    slices = {part.value: part.quantiles for part in read(experiment, ODD_NAME, now=NOON, splits=[[1], [2, 3]])}
    first, second = (of_split[0]["green"] for of_split in slices["pro"])
    assert ((first.n, first.value), (second.n, second.value)) == ((1, 1), (2, 7))
    assert [len(of_split) for of_split in slices["free"]] == [1, 0]


def test_read_breakdown__everybody__has_the_numbers_of_mature_users_as_well(production: Environment) -> None:
    bought = Definition("bought", 1, "conversion", Quantity("buy"), window=timedelta(days=1))
    experiment = make_experiment(production, bought)
    expose(experiment, a="pro", b="free")
    assign(experiment.pk, "c", "green", NOON + timedelta(hours=5), attributes={ODD_NAME: "pro"})
    EventFactory(user_id="c", name="buy", timestamp=NOON + timedelta(hours=6))
    at = NOON + timedelta(hours=26)
    refresh(experiment, at)

    parts = {part.value: part.sums for part in read(experiment, ODD_NAME, now=at, maturity="all")}
    assert parts["pro"].mature == {timedelta(days=1): {1: {"green": 1}}}
    assert parts["pro"].by_phase[1][0]["green"].positive == 1
    mature = {part.value: part.sums for part in read(experiment, ODD_NAME, now=at)}
    assert mature["pro"].mature == parts["pro"].mature
    assert 0 not in mature["pro"].by_phase[1]


@pytest.mark.parametrize("seed", range(3))
def test_read_breakdown__computed_until_a_moment__adds_up_to_the_sums_as_of_it(
    production: Environment, seed: int
) -> None:
    experiment = make_experiment(production)
    history = History(experiment, Random(seed))
    for _ in range(40):
        history.chance.choice([history.record, history.report, history.assign, history.move])()
    for exposure in Exposure.objects.all():
        exposure.attributes = {"plan": history.chance.choice(["a", "b", 3])}
        exposure.save(update_fields=["attributes"])
    refresh(experiment, NOON)
    moment = NOON + timedelta(days=5)

    stopped = as_if_stopped(experiment, moment)
    caps = {index: definition.cap_value for index, definition in enumerate(DEFINITIONS) if definition.cap_value}
    parts = read_breakdown(stopped, "plan", caps, most=1, now=moment, is_computed=True)
    refresh(stopped_in_the_database(experiment, moment), moment)
    stored = read_breakdown(stopped, "plan", caps, most=1, now=moment)
    assert added(sums_by_key(part.sums) for part in parts) == added(sums_by_key(part.sums) for part in stored)
    assert added(users_by_key(part.sums) for part in parts) == added(users_by_key(part.sums) for part in stored)
    assert len(parts) > 1


def stopped_in_the_database(experiment: Experiment, moment: datetime) -> Experiment:
    Experiment.objects.filter(pk=experiment.pk).update(status="stopped", stopped_at=moment)
    experiment.refresh_from_db()
    return experiment
