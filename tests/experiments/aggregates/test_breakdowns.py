"""Totals by the values of an attribute: each user in one slice, whatever the values are."""

from __future__ import annotations

from functools import reduce
from operator import add
from random import Random
from typing import Any

import pytest

from config.models import Environment
from experiments.aggregates.breakdowns import Slice, read_breakdown
from experiments.aggregates.refresh import refresh
from experiments.aggregates.variant_sums import EXPOSURES, NAMES, VariantTotals, read_caps, read_sums
from experiments.exposures.recording import assign
from experiments.models import Experiment, Exposure
from tests.conftest import NOON
from tests.experiments.aggregates.histories import ODD_NAME, History, make_experiment
from tests.factories import EventFactory, ExperimentFactory

pytestmark = pytest.mark.django_db


def read(experiment: Experiment, attribute: str, **options: Any) -> list[Slice]:
    return read_breakdown(experiment, attribute, read_caps(experiment), **options)


def expose(experiment: Experiment, **plans: Any) -> None:
    for user, plan in plans.items():
        assign(experiment.pk, user, "green", NOON, attributes={} if plan is None else {ODD_NAME: plan, "other": "x"})


def test_read_breakdown__values_of_every_type__are_told_apart(production: Environment) -> None:
    experiment = ExperimentFactory(running=True)
    expose(experiment, a="pro", b="pro", c=True, d=1, e=2.5, f="true", g="1", h=None, i=1.0, j=False, k='"é"')
    EventFactory(user_id="b", name="purchase")
    refresh(experiment, NOON)

    found = {(kind_of(each.value), each.value): each for each in read(experiment, ODD_NAME)}
    assert {key: each.users for key, each in found.items()} == {
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
    assert [key for key, each in found.items() if 0 in each.totals] == [(str, "pro")]
    assert found[str, "pro"].totals[0]["green"].positive == 1
    assert not any(each.is_rest for each in found.values())


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
    expose(experiment, **{f"user-{place}": number for place, number in enumerate(numbers)}, text=str(value))
    refresh(experiment, NOON)

    found = read(experiment, ODD_NAME)
    assert {repr(each.value): each.users for each in found} == {repr(value): len(numbers), repr(str(value)): 1}


def kind_of(value: object) -> type:
    """JSON has numbers: 1 is 1.0, but neither true nor "1"."""
    return float if type(value) is int else type(value)


def test_read_breakdown__more_values_than_wanted__puts_the_rarer_together(production: Environment) -> None:
    experiment = ExperimentFactory(running=True)
    expose(experiment, a="x", b="x", c="x", d="y", e="y", f="z", g="w", h=None, i=None, j=None, k=None)
    refresh(experiment, NOON)

    found = read(experiment, ODD_NAME, most=2)
    assert [(each.value, each.is_rest, each.users) for each in found] == [
        (None, False, 4),
        ("x", False, 3),
        ("y", False, 2),
        (None, True, 2),
    ]


def test_read_breakdown__attribute_that_nobody_has__is_one_slice_of_all(production: Environment) -> None:
    experiment = ExperimentFactory(running=True)
    expose(experiment, a="x", b=None)
    refresh(experiment, NOON)

    assert [(each.value, each.is_rest, each.users) for each in read(experiment, "100")] == [(None, False, 2)]


def test_read_breakdown__one_phase__has_its_users_and_the_values_that_most_of_them_have(
    production: Environment,
) -> None:
    experiment = ExperimentFactory(running=True)
    expose(experiment, a="x", b="x", c="x", d="y", e="y", f="z", g=None)
    Exposure.objects.filter(user_id__in="cdefg").update(phase=2)
    refresh(experiment, NOON)

    found = read(experiment, ODD_NAME, phases=[2], most=1)
    assert [(each.value, each.is_rest, each.users) for each in found] == [
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

    slices: dict[tuple[int, str], list[VariantTotals]] = {}
    for each in read(experiment, "plan", most=1):
        for place, variants in each.totals.items():
            for variant, totals in variants.items():
                slices.setdefault((place, variant), []).append(totals)
    expected = {(place, key): each for place, found in read_sums(experiment).items() for key, each in found.items()}
    assert {key: figures(reduce(add, each)) for key, each in slices.items()} == {
        key: pytest.approx(figures(each)) for key, each in expected.items()
    }
    assert (EXPOSURES, "green") in expected


def figures(totals: VariantTotals) -> list[float]:
    return [getattr(totals, name) for name in NAMES]
