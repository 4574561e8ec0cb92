"""Experiments after forgetting: results are as if the user had never been, and what they need is never purged."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from config.models import Environment
from events.recording import NewEvent, new_id, record
from events.removal import erase_user, plan_purge, purge
from experiments.exposures.recording import assign
from experiments.models import Experiment, Exposure, ResultState, UserValue
from experiments.results.analyse import VariantResult, analyse_experiment, compute_results
from experiments.results.archive import freeze
from experiments.results.refresh import refresh
from tests.conftest import NOON
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db


def happen(user: str, name: str = "seen", second: float = 1, **properties: str) -> NewEvent:
    moment = NOON + timedelta(seconds=second)
    return NewEvent(new_id(), user, name, moment, moment, properties)


def see(user: str, experiment: str, variant: str = "green", second: float = 1) -> NewEvent:
    return happen(user, second=second, experimentId=experiment, variant=variant)


def changed(user: str, environment: Environment) -> list[tuple[str, str]]:
    """The experiments whose numbers change with the erasure of a user."""
    return [(each.key, each.status) for each in erase_user(user, environment).experiments]


def test_erase_user__exposed_to_some_experiments__names_those_and_deletes_the_exposures(
    production: Environment,
) -> None:
    running, stopped = ExperimentFactory(key="b", running=True), ExperimentFactory(key="a", stopped=True)
    ExperimentFactory(key="c", running=True)
    assign(running.pk, "u", "green", NOON)
    assign(running.pk, "v", "green", NOON)
    record([see("u", "a"), see("v", "c"), happen("u", "purchase")], production)

    erased = erase_user("u", production)
    assert (erased.events, erased.exposures) == (2, 2)
    assert [(each.id, each.key, each.status) for each in erased.experiments] == [
        (stopped.pk, "a", "stopped"),
        (running.pk, "b", "running"),
    ]
    assert set(Exposure.objects.values_list("user_id", "experiment__key")) == {("v", "b"), ("v", "c")}


def test_erase_user__exposed_without_an_event__loses_the_exposure(production: Environment) -> None:
    experiment = ExperimentFactory(running=True)
    assign(experiment.pk, "u", "green", NOON)

    erased = erase_user("u", production)
    assert (erased.events, erased.exposures, len(erased.experiments)) == (0, 1, 1)
    assert compute_results(experiment, NOON)["green"].sample_size == 0


def test_erase_user__exposed_in_another_environment__stays_there(production: Environment, staging: Environment) -> None:
    experiment = ExperimentFactory(key="e", environment=staging, running=True)
    record([see("u", "e")], staging)
    record([see("u", "e")], production)

    assert changed("u", production) == []
    assert Exposure.objects.get().experiment == experiment


@pytest.mark.parametrize(
    ("event", "is_anomaly"),
    [
        (see("u", "e", "purple"), True),
        (see("u", "e", ""), True),
        (see("u", "e", "p" * 300), True),
        (see("u", "e", "purple", second=-5), False),  # before the start
        (happen("u", experimentId="e"), False),
        (happen("u", "purchase", experimentId="e", variant="purple"), False),  # the name of a metric
        (see("u", "f", "purple"), False),
        (see("u", "e", "green", second=-5), False),
        (happen("u", "purchase"), False),
    ],
)
def test_erase_user__not_exposed__changes_an_experiment_only_by_its_anomalies(
    production: Environment, event: NewEvent, is_anomaly: bool
) -> None:
    experiment = ExperimentFactory(key="e", running=True)
    record([event, see("v", "e", "purple")], production)
    before = analyse_experiment(experiment, NOON).guards

    assert changed("u", production) == ([("e", "running")] if is_anomaly else [])
    assert (analyse_experiment(experiment, NOON).guards != before) == is_anomaly


def test_erase_user__anomaly_of_a_draft_named_by_id__is_reported(production: Environment) -> None:
    draft = ExperimentFactory(key="d")
    record([see("u", str(draft.pk), "purple")], production)

    assert changed("u", production) == [("d", "draft")]


@pytest.mark.parametrize("state", ["running", "stopped", "frozen"])
def test_erase_user__counted_before__leaves_no_value_and_no_trace_in_the_sums(
    production: Environment, state: str
) -> None:
    experiment = ExperimentFactory(key="e", **{"running" if state == "running" else "stopped": True})
    for user in ("u", "v"):
        record([see(user, "e"), happen(user, "purchase", second=2)], production)
    refresh(experiment, NOON)
    assert compute_results(experiment, NOON)["green"] == VariantResult(2, 2)
    if state == "frozen":
        freeze(experiment, NOON + timedelta(days=2))
        experiment.refresh_from_db()

    erase_user("u", production)
    assert set(UserValue.objects.values_list("user_id", flat=True)) == {"v"}
    assert compute_results(experiment, NOON)["green"] == VariantResult(1, 1)


def test_erase_user__back_at_once__counts_by_what_is_new(production: Environment) -> None:
    experiment = ExperimentFactory(key="e", running=True)
    record([see("u", "e"), happen("u", "purchase", second=2)], production)
    refresh(experiment, NOON)
    erase_user("u", production)
    record([see("u", "e", "control", second=3)], production)

    found = compute_results(experiment, NOON)
    assert (found["control"], found["green"]) == (VariantResult(1, 0), VariantResult())


def test_erase_user__exposed_again_afterwards__is_new(production: Environment) -> None:
    experiment = ExperimentFactory(running=True)
    assign(experiment.pk, "u", "green", NOON)
    erase_user("u", production)

    assert assign(experiment.pk, "u", "control", NOON) == "control"


@pytest.mark.parametrize("seed", range(5))
def test_erase_user__any_history__leaves_what_there_were_without_the_user(production: Environment, seed: int) -> None:
    chance = random.Random(seed)
    users = [f"user-{at}" for at in range(8)]
    happened = [
        chance.choice(
            [
                see(user, "e", chance.choice(["control", "green", "purple"]), second),
                happen(user, chance.choice(["purchase", "seen"]), second),
                happen(user, "purchase", second, experimentId=chance.choice(["e", "f"])),
            ]
        )
        for user, second in ((chance.choice(users), chance.randrange(60)) for _ in range(120))
    ]
    gone = set(chance.sample(users, 3))
    found = []
    for environment in (production, Environment.objects.get(key="staging")):
        experiment = ExperimentFactory(key="e", environment=environment, running=True)
        events = [NewEvent(new_id(), *list_of(each)) for each in happened]
        if environment == production:
            record(events, environment)
            for user in sorted(gone):
                erase_user(user, environment)
        else:
            record([each for each in events if each.user_id not in gone], environment)
        found.append((compute_results(experiment, NOON), analyse_experiment(experiment, NOON).guards))
    assert found[0] == found[1]


def list_of(event: NewEvent) -> tuple[object, ...]:
    return event.user_id, event.name, event.timestamp, event.received_at, event.properties


@pytest.mark.parametrize("state", [{"running": True}, {"stopped": True}])
def test_purge__started_experiment__keeps_events_of_its_look_back_before_the_second_of_its_start_on(
    production: Environment, state: dict[str, bool]
) -> None:
    begin = NOON + timedelta(seconds=0.7)
    stop = {"stopped_at": begin + timedelta(seconds=9)} if "stopped" in state else {}
    experiment = ExperimentFactory(key="e", **{**state, "started_at": begin, **stop})
    early = timedelta(days=-28).total_seconds()
    record([see("first", "e", second=0)], production)
    record([happen("first", "purchase", second=second) for second in (early - 0.1, early, -0.1, 2)], production)
    before = values_of(experiment)
    assert [(row["value"], row["value_before"]) for row in before if row["metric"] == 0] == [(1, 1)]

    plan = plan_purge(production, NOON + timedelta(days=1))
    assert plan.obstacles() == ["Experiment e keeps 4 older events, from 2026-01-03T12:00:00.000000Z on."]
    assert purge(plan) == 1
    UserValue.objects.all().delete()
    ResultState.objects.update(watermark="")
    assert values_of(experiment) == before


def values_of(experiment: Experiment) -> list[dict[str, Any]]:
    refresh(experiment, NOON)
    return [*UserValue.objects.order_by("metric").values()]


def test_purge__frozen_experiment__keeps_nothing(production: Environment) -> None:
    experiment = ExperimentFactory(key="e", stopped=True)
    record([see("u", "e"), happen("u", "purchase", second=2)], production)
    freeze(experiment, NOON + timedelta(days=2))

    plan = plan_purge(production, NOON + timedelta(days=2))
    assert plan.holds == []
    assert purge(plan) == 2
    assert compute_results(experiment, NOON + timedelta(days=3))["green"].conversion == 1


def test_purge__drafts_and_experiments_elsewhere__hold_nothing(production: Environment, staging: Environment) -> None:
    ExperimentFactory(key="draft")
    ExperimentFactory(key="elsewhere", environment=staging, running=True)
    record([happen("u", second=60)], production)

    plan = plan_purge(production, NOON + timedelta(days=1))
    assert plan.holds == []
    assert purge(plan) == 1


def test_purge__experiment_started_a_look_back_after_what_goes__is_no_obstacle(production: Environment) -> None:
    ExperimentFactory(key="e", running=True)
    lookback = timedelta(days=28)
    record([happen("u", second=-60 - lookback.total_seconds()), happen("u", second=60)], production)

    plan = plan_purge(production, NOON - lookback)
    assert plan.obstacles() == []
    assert purge(plan) == 1
