"""Groups of experiments: no user is in two experiments of a group, even with concurrent writes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from config.errors import DomainError, ValidationFailed
from config.models import Environment
from experiments.lifecycle.changes import create_experiment, delete_experiment, get_experiment, stop_experiment
from experiments.lifecycle.changes import update_experiment as update
from experiments.lifecycle.groups import free_in
from experiments.models import Experiment
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory
from tests.threads import SECONDS, Threads

VARIANTS = [{"key": "control", "weight": 1}, {"key": "green", "weight": 1}]


def part(start: float, end: float, key: str = "checkout") -> dict[str, Any]:
    return {"key": key, "from": start, "to": end}


def write_arguments(key: str, environment: Environment) -> dict[str, Any]:
    return {"key": key, "environment": environment, "actor": ACTOR, "now": NOON}


@pytest.mark.django_db
@pytest.mark.parametrize("taken", [(0, 100), (0, 50.001), (49.999, 60), (20, 30), (10, 20.001), (0, 20.001)])
def test_part__that_another_has_some_of__is_refused_and_says_what_is_free(
    production: Environment, taken: tuple[float, float]
) -> None:
    ExperimentFactory(key="first", group=part(*taken))
    with pytest.raises(DomainError) as refused:
        create_experiment(**write_arguments("second", production), variants=VARIANTS, group=part(20, 50))

    assert refused.value.code == "in_use"
    assert "first" in refused.value.message
    assert free_in(production, "checkout") in refused.value.message
    assert [detail.field for detail in refused.value.details] == ["group"]
    assert not Experiment.objects.filter(key="second").exists()


@pytest.mark.django_db
def test_part__next_to_another__is_had(production: Environment) -> None:
    ExperimentFactory(key="first", group=part(0, 50), running=True)
    ExperimentFactory(key="second", group=part(50, 75.5))

    assert free_in(production, "checkout") == "75.5 to 100 %"
    ExperimentFactory(key="third", group=part(75.5, 100))
    assert free_in(production, "checkout") == "nothing"


@pytest.mark.django_db
def test_part__of_another_group_or_environment__is_another_part(production: Environment, staging: Environment) -> None:
    ExperimentFactory(key="first", group=part(0, 50))
    ExperimentFactory(key="second", group=part(0, 50, "search"))
    elsewhere = create_experiment(**write_arguments("first", staging), variants=VARIANTS, group=part(0, 50))

    assert elsewhere.group == part(0, 50)
    assert free_in(production, "basket") == "0 to 100 %"


@pytest.mark.django_db
def test_part__of_a_group_with_the_key_of_the_experiment__is_refused(production: Environment) -> None:
    with pytest.raises(ValidationFailed) as refused:
        create_experiment(**write_arguments("checkout", production), variants=VARIANTS, group=part(0, 50))
    assert [detail.field for detail in refused.value.details] == ["group.key"]

    ExperimentFactory(key="checkout")
    with pytest.raises(ValidationFailed, match=r"group\.key"):
        update(**write_arguments("checkout", production), changes={"group": part(0, 50)})


@pytest.mark.django_db
def test_part__of_an_experiment_that_stopped_or_was_deleted__is_free(production: Environment) -> None:
    ExperimentFactory(key="running", group=part(0, 50), running=True)
    ExperimentFactory(key="draft", group=part(50, 100))
    stop_experiment(**write_arguments("running", production))
    delete_experiment(**write_arguments("draft", production))

    assert ExperimentFactory(key="next", group=part(0, 100)).group == part(0, 100)


@pytest.mark.django_db
def test_part__changed__is_checked_against_the_others_alone(production: Environment) -> None:
    ExperimentFactory(key="first", group=part(0, 40))
    ExperimentFactory(key="second", group=part(60, 100))
    update(**write_arguments("first", production), changes={"group": part(0, 60)})
    with pytest.raises(DomainError) as refused:
        update(**write_arguments("first", production), changes={"group": part(0, 60.001)})

    assert refused.value.code == "in_use"
    assert get_experiment("first", production).group == part(0, 60)


def _attempt(environment: Environment, key: str, start: float) -> str:
    try:
        create_experiment(**write_arguments(key, environment), variants=VARIANTS, group=part(start, start + 20))
    except DomainError as error:
        return str(error.code)
    return "had"


@pytest.mark.django_db(transaction=True)
def test_parts__many_writers_at_once__never_overlap(threads: Threads) -> None:
    production = Environment.objects.get(key="production")
    starts = [at * 5 for at in range(17)] * 2
    futures = [threads.start(_attempt, production, f"e{at}", start) for at, start in enumerate(starts)]
    outcomes = Counter(future.result(SECONDS) for future in futures)

    parts = sorted(
        (experiment.group["from"], experiment.group["to"])
        for experiment in Experiment.objects.all()
        if experiment.group
    )
    assert outcomes == {"had": len(parts), "in_use": len(starts) - len(parts)}
    assert 3 <= len(parts) <= 5
    assert all(one[1] <= other[0] for one, other in pairwise(parts))


def _move(environment: Environment, key: str) -> str:
    try:
        update(**write_arguments(key, environment), changes={"group": part(50, 100)})
    except DomainError as error:
        return str(error.code)
    return "had"


@pytest.mark.django_db(transaction=True)
def test_part__drafts_that_want_it_at_once__one_gets_it(threads: Threads) -> None:
    production = Environment.objects.get(key="production")
    for at in range(8):
        create_experiment(**write_arguments(f"e{at}", production), variants=VARIANTS)
    futures = [threads.start(_move, production, f"e{at}") for at in range(8)]

    assert Counter(future.result(SECONDS) for future in futures) == {"had": 1, "in_use": 7}
    assert sum(experiment.group is not None for experiment in Experiment.objects.all()) == 1
