"""Variants cached by a process: served without the database, until something happens that may change them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from config import snapshot
from config.models import Environment
from config.snapshot import signal_file
from events.recording import NewEvent, new_id, record
from events.removal import erase_user
from experiments.exposures import assignment_cache
from experiments.exposures.assignment import get_variant
from experiments.exposures.assignment import record_for_flag as record_of_flag
from experiments.exposures.assignment import stored_for_flags as stored_for_flag
from experiments.exposures.assignment_cache import AssignmentCache
from experiments.exposures.recording import assign
from experiments.lifecycle.changes import update_experiment
from experiments.lifecycle.new_phase import open_phase
from experiments.models import Experiment, Exposure
from tests.conftest import ACTOR, NOON
from tests.experiments.calls import asking
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db(transaction=True)

Reads = Callable[[int], Any]


@pytest.fixture
def experiment(transactional_db: None) -> Experiment:
    return ExperimentFactory(key="e", running=True)


@pytest.fixture
def cache() -> AssignmentCache:
    return AssignmentCache()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that have passed."""
    passed = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: passed[0])
    return passed


def ask(environment: Environment, user: str = "u") -> str:
    return get_variant(key="e", environment=environment, user_id=user, now=NOON).variant


def test_get__once_read__asks_the_database_no_more(
    experiment: Experiment, cache: AssignmentCache, django_assert_num_queries: Reads
) -> None:
    assign(experiment.pk, "u", "green", NOON)
    whose = experiment.pk, "u"
    with django_assert_num_queries(1):
        found = [cache.get([whose]) for _ in range(3)]

    assert [each[whose] for each in found] == [("green", True)] * 3


def test_get__some_known_and_some_not__asks_for_the_others_alone(
    experiment: Experiment, cache: AssignmentCache, django_assert_num_queries: Reads
) -> None:
    users = [(experiment.pk, user) for user in ("u", "v", "nobody")]
    for _, user in users[:2]:
        assign(experiment.pk, user, "green", NOON)
    cache.get(users[:1])
    with django_assert_num_queries(2):  # who has none is asked for each time
        assert cache.get(users).keys() == cache.get(users).keys() == {*users[:2]}


def test_get__only_reported__is_read_each_time(
    experiment: Experiment, production: Environment, cache: AssignmentCache, django_assert_num_queries: Reads
) -> None:
    properties = {"experimentId": "e", "variant": "green"}
    record([NewEvent(new_id(), "u", "seen", NOON, NOON, properties)], production)
    with django_assert_num_queries(2):
        for _ in range(2):
            assert cache.get([(experiment.pk, "u")]) == {(experiment.pk, "u"): ("green", False)}


def test_get__within_a_transaction__remembers_nothing(experiment: Experiment, cache: AssignmentCache) -> None:
    with transaction.atomic():
        assign(experiment.pk, "u", "green", NOON)
        assert cache.get([(experiment.pk, "u")])
        transaction.set_rollback(True)

    assert cache.get([(experiment.pk, "u")]) == {}


def test_get__erased__is_forgotten_at_once(
    experiment: Experiment, production: Environment, cache: AssignmentCache
) -> None:
    assign(experiment.pk, "u", "green", NOON)
    cache.get([(experiment.pk, "u")])
    erase_user("u", production)

    assert cache.get([(experiment.pk, "u")]) == {}


def test_get__another_process_has_erased__is_forgotten_at_once(experiment: Experiment, cache: AssignmentCache) -> None:
    assign(experiment.pk, "u", "green", NOON)
    cache.get([(experiment.pk, "u")])
    Exposure.objects.all().delete()
    assert cache.get([(experiment.pk, "u")])
    signal_file._shared.cache_clear()  # the file is opened again, as in another process
    signal_file.signal_change()

    assert cache.get([(experiment.pk, "u")]) == {}


def test_get__erased_while_it_is_read__is_not_remembered(
    experiment: Experiment, production: Environment, cache: AssignmentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    assign(experiment.pk, "u", "green", NOON)
    find_variants = assignment_cache.find_variants

    def find_and_erase(users: Any) -> Any:
        found = find_variants(users)
        erase_user("u", production)
        return found

    monkeypatch.setattr(assignment_cache, "find_variants", find_and_erase)
    assert cache.get([(experiment.pk, "u")])
    monkeypatch.undo()

    assert cache.get([(experiment.pk, "u")]) == {}


@pytest.mark.parametrize("steps", [[61], [19, 19, 22], [30, 31], [1] * 61])
def test_get__erased_by_another_host__is_forgotten_within_a_minute(
    experiment: Experiment, cache: AssignmentCache, clock: list[float], steps: list[int]
) -> None:
    assign(experiment.pk, "u", "green", NOON)
    cache.get([(experiment.pk, "u")])
    Exposure.objects.all().delete()
    for step in steps:
        clock[0] += step
        found = cache.get([(experiment.pk, "u")])

    assert found == {}


def test_get__within_the_time__is_remembered(
    experiment: Experiment, cache: AssignmentCache, clock: list[float], django_assert_num_queries: Reads
) -> None:
    assign(experiment.pk, "u", "green", NOON)
    cache.get([(experiment.pk, "u")])
    with django_assert_num_queries(0):
        for _ in range(19):
            clock[0] += 1
            assert cache.get([(experiment.pk, "u")])


def test_get__more_users_than_it_holds__forgets_the_oldest(
    experiment: Experiment, cache: AssignmentCache, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Reads
) -> None:
    monkeypatch.setattr(assignment_cache, "MAX_ENTRIES", 2)
    users = [(experiment.pk, f"u{at}") for at in range(5)]
    for _, user in users:
        assign(experiment.pk, user, "green", NOON)
    for whose in users:
        cache.get([whose])
    with django_assert_num_queries(0):
        assert [len(cache.get([whose])) for whose in users[2:]] == [1, 1, 1]
    with django_assert_num_queries(1):
        assert cache.get(users[:2]).keys() == {*users[:2]}


def test_get_variant__known_user__asks_the_database_no_more(
    experiment: Experiment, production: Environment, django_assert_num_queries: Reads
) -> None:
    first = [ask(production) for _ in range(2)]
    with django_assert_num_queries(0):
        assert [ask(production)] * 2 == first
        assert stored_for_flag(production, ["e", "unknown"], "u") == {"e": first[0]}
        assert record_of_flag(production, "e", "other", asking("u", NOON)) == first[0]


def test_get_variant__forced_in_between__is_answered_anew_and_assigned_anew_afterwards(
    experiment: Experiment, production: Environment
) -> None:
    who = {"key": "e", "environment": production, "actor": ACTOR, "now": NOON}
    natural = ask(production)
    other = "green" if natural == "control" else "control"
    Exposure.objects.update(variant=other)
    signal_file.signal_change()
    assert [ask(production) for _ in range(2)] == [other, other]
    update_experiment(**who, changes={"forced_variants": {"u": other}})
    update_experiment(**who, changes={"forced_variants": {}})

    assert ask(production) == natural


def test_record__for_a_flag__keeps_phase_attributes_and_the_first_variant(
    experiment: Experiment, production: Environment
) -> None:
    later = NOON + timedelta(seconds=5)
    assert record_of_flag(production, "e", "green", asking("u", later, plan="pro")) == "green"
    assert record_of_flag(production, "e", "control", asking("u", NOON)) == "green"

    [exposure] = Exposure.objects.all()
    assert (exposure.origin, exposure.phase, exposure.attributes) == ("assigned", 1, {"plan": "pro"})
    assert exposure.exposed_at == later


@pytest.mark.parametrize(
    ("changes", "variant", "phase"),
    [
        ({"variants": [{"key": "control", "weight": 1}, {"key": "green", "weight": 0}]}, "green", 1),
        ({"variants": [{"key": "control", "weight": 1}, {"key": "green", "weight": 0}]}, "control", 2),
        ({"percentage": 0}, "control", 1),
        ({"conditions": [{"attribute": "plan", "operator": "equals", "value": "pro"}]}, "green", 1),
    ],
)
def test_record__for_a_flag_evaluated_before_a_phase_was_opened__belongs_to_the_phase_that_gives_it(
    experiment: Experiment, production: Environment, changes: Any, variant: str, phase: int
) -> None:
    user = next(each for each in map(str, range(99)) if ask(production, each) == variant)
    Exposure.objects.all().delete()
    open_phase(key="e", environment=production, changes=changes, actor=ACTOR, now=NOON, reason="Why not?")
    snapshot.refresh()

    assert record_of_flag(production, "e", variant, asking(user, NOON)) == variant
    assert Exposure.objects.get().phase == phase


def test_record__for_a_flag_of_an_experiment_that_is_over__records_nothing(production: Environment) -> None:
    ExperimentFactory(key="e", stopped=True)

    assert record_of_flag(production, "e", "green", asking("u", NOON)) is None
    assert not Exposure.objects.exists()
