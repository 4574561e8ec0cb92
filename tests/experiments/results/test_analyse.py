"""Results, recomputed by hand from random histories."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.changes import create_experiment, start_experiment, stop_experiment
from experiments.models import Experiment
from experiments.results.analyse import VariantResult, analyse_experiment, compute_results
from tests.conftest import ACTOR, NOON
from tests.experiments.results.counted_directly import count_directly

pytestmark = pytest.mark.django_db

VARIANTS = [{"key": "control", "weight": 1}, {"key": "green", "weight": 1}]


def make_experiment(environment: Environment, key: str = "e", stopped: float | None = None, **values) -> Experiment:
    arguments = {"key": key, "environment": environment, "actor": ACTOR, "now": NOON}
    create_experiment(**arguments, **{"variants": VARIANTS, "metrics": ["buy"], **values})
    experiment = start_experiment(**arguments, started_at=NOON)
    return experiment if stopped is None else stop_experiment(**arguments, stopped_at=NOON + timedelta(seconds=stopped))


def make_event(user: str, name: str, second: float, *, received: float | None = None, **properties: str) -> NewEvent:
    at = NOON + timedelta(seconds=second)
    received_at = NOON + timedelta(seconds=second if received is None else received)
    return NewEvent(new_id(), user, name, at, received_at, properties)


def results(experiment: Experiment) -> dict[str, tuple[int, int]]:
    return {key: (result.sample_size, result.conversions) for key, result in compute_results(experiment, NOON).items()}


def test_results__nobody_exposed__are_zero_for_every_variant(production: Environment) -> None:
    experiment = make_experiment(production)

    assert dict(compute_results(experiment, NOON)) == {"control": VariantResult(), "green": VariantResult()}
    assert compute_results(experiment, NOON)["green"].conversion == 0


def test_results__no_metrics__count_users_only(production: Environment) -> None:
    experiment = make_experiment(production, metrics=[])
    record([make_event("u", "seen", 1, experimentId="e", variant="green"), make_event("u", "buy", 2)], production)

    assert results(experiment) == {"control": (0, 0), "green": (1, 0)}


@pytest.mark.parametrize(
    ("second", "received", "converts"),
    [
        (9.9, 9.9, False),  # before the second of the exposure
        (10.0, 10.0, True),  # within the second of the exposure, by a client that sends whole seconds
        (10.5, 10.5, True),
        (60.0, 60.0, True),  # at the stop
        (60.1, 60.1, False),
        (50.0, 3600.0, True),  # late to arrive
        (99999.0, 20.0, True),  # a clock ahead: counts as its receipt
        (99999.0, 61.0, False),
        (99999.0, 5.0, False),
    ],
)
def test_results__conversion_at_a_moment__counts_within_the_run_and_after_the_exposure(
    production: Environment, second: float, received: float, converts: bool
) -> None:
    experiment = make_experiment(production, stopped=60)
    record([make_event("u", "seen", 10.5, experimentId="e", variant="green")], production)
    record([make_event("u", "buy", second, received=received)], production)

    assert results(experiment)["green"] == (1, int(converts))


def test_results__event_names_an_experiment__counts_for_that_one_only(production: Environment) -> None:
    one, other = make_experiment(production, "one"), make_experiment(production, "other")
    for key in ("one", "other"):
        for user in ("names id", "names key", "names none", "names unknown"):
            record([make_event(user, "seen", 1, experimentId=key, variant="green")], production)
    record(
        [
            make_event("names id", "buy", 2, experimentId=str(one.pk)),
            make_event("names key", "buy", 2, experimentId="one"),
            make_event("names none", "buy", 2),
            make_event("names unknown", "buy", 2, experimentId="nothing"),
        ],
        production,
    )

    assert results(one)["green"] == (4, 3)
    assert results(other)["green"] == (4, 1)


def test_results__several_conversions_of_one_user__count_once(production: Environment) -> None:
    experiment = make_experiment(production)
    record([make_event("u", "seen", 1, experimentId="e", variant="green")], production)
    record([make_event("u", "buy", second) for second in range(2, 9)], production)

    assert results(experiment)["green"] == (1, 1)


def test_results__other_environment_user_and_event__do_not_count(production: Environment, staging: Environment) -> None:
    experiment = make_experiment(production)
    record([make_event("u", "seen", 1, experimentId="e", variant="green")], production)
    record([make_event("u", "buy", 2)], staging)
    record([make_event("v", "buy", 2), make_event("u", "look", 2)], production)

    assert results(experiment)["green"] == (1, 0)


@pytest.mark.one_server("Citus takes a statement for each setting of its planner")
@pytest.mark.django_db(transaction=True)
def test_results__of_many_users__take_few_statements(production: Environment, django_assert_max_num_queries) -> None:
    experiment = make_experiment(production)
    reports = [make_event(f"u{number}", "seen", 1, experimentId="e", variant="green") for number in range(50)]
    record(reports, production)
    compute_results(experiment, NOON)
    with django_assert_max_num_queries(12):  # with nothing new
        analyse_experiment(experiment, NOON)
    record([make_event("u7", "buy", 2)], production)
    with django_assert_max_num_queries(31):
        analyse_experiment(experiment, NOON)


@pytest.mark.parametrize("seed", range(10))
def test_results__random_history__is_what_counting_by_hand_gives(production: Environment, seed: int) -> None:
    chance = random.Random(seed)
    experiment = make_experiment(production, stopped=chance.choice([None, 30.0]))
    history = [random_event(chance) for _ in range(300)]
    for start in range(0, len(history), 37):
        record(history[start : start + 37], production)
        assert results(experiment) == count_directly(experiment)

    assert results(experiment) == count_by_hand(history, experiment)


def random_event(chance: random.Random) -> NewEvent:
    user, second = f"user-{chance.randrange(30)}", chance.randrange(-20, 500) / 10
    received = max(0.0, second + chance.choice([0.0, 0.3, 40.0, -5.0]))
    if chance.random() < 0.3:
        variant = chance.choice(["control", "green", "blue"])
        return make_event(user, "seen", second, received=received, experimentId="e", variant=variant)
    names = chance.choice([{}, {}, {"experimentId": "e"}, {"experimentId": "f"}])
    return make_event(user, chance.choice(["buy", "look"]), second, received=received, **names)


def count_by_hand(history: list[NewEvent], experiment: Experiment) -> dict[str, tuple[int, int]]:
    end = experiment.stopped_at or NOON + timedelta(days=1)
    first: dict[str, tuple[datetime, str]] = {}
    for event in history:
        variant = event.properties.get("variant")
        if variant in ("control", "green") and NOON <= event.counted_at <= end:
            first[event.user_id] = min(
                first.get(event.user_id, (event.counted_at, variant)), (event.counted_at, variant)
            )
    converted = {
        event.user_id
        for event in history
        if event.name == "buy"
        and event.properties.get("experimentId") in (None, "e")
        and event.user_id in first
        and first[event.user_id][0].replace(microsecond=0) <= event.counted_at <= end
    }
    return {
        key: (
            sum(variant == key for _, variant in first.values()),
            sum(first[user][1] == key for user in converted),
        )
        for key in ("control", "green")
    }


def test_guards__second_and_unknown_variants__are_counted(production: Environment) -> None:
    experiment = make_experiment(production)
    record(
        [
            make_event("u", "seen", 1, experimentId="e", variant="green"),
            make_event("u", "seen", 2, experimentId="e", variant="control"),
            make_event("v", "seen", 2, experimentId=str(experiment.pk), variant="blue"),
            make_event("v", "seen", 3, experimentId="f", variant="blue"),
            make_event("v", "buy", 3, experimentId="e", variant="blue"),
            make_event("v", "look", 3, experimentId="e"),
        ],
        production,
    )

    guards = analyse_experiment(experiment, NOON).guards
    assert (guards.users_in_several_variants, guards.events_of_unknown_variants) == (1, 1)
