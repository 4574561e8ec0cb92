"""Exposures: the earliest counts, in whatever order it is heard; what the service assigned stands for ever."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest

from config.models import Environment
from events.models import Event
from events.recording import NewEvent, new_id, record
from experiments.exposures.recording import assign, events_of_unknown_variants
from experiments.lifecycle.changes import create_experiment, get_experiment, start_experiment, stop_experiment
from experiments.lifecycle.new_phase import open_phase
from experiments.metrics.changes import create_metric
from experiments.models import Experiment, Exposure
from experiments.results.analyse import compute_results
from flags.engine.bucketing import bucket, compile_split
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

VARIANTS = [{"key": key, "weight": 1} for key in ("a", "b", "c")]
_numbers = count()


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    return make_experiment(production)


def make_experiment(environment: Environment, started_at: datetime = NOON) -> Experiment:
    who = {"key": f"experiment-{next(_numbers)}", "environment": environment, "actor": ACTOR, "now": NOON}
    create_experiment(**who, variants=VARIANTS, metrics=["buy"])
    return start_experiment(**who, started_at=started_at)


def report(experiment: Experiment, variant: str, second: float, *, user: str = "u", name: str = "seen") -> NewEvent:
    moment = NOON + timedelta(seconds=second)
    properties = {"experimentId": str(experiment.pk), "variant": variant, "seen": f"{variant} at {second}"}
    return NewEvent(new_id(), user, name, moment, NOON + timedelta(days=1), properties)


def stored(experiment: Experiment, user: str = "u") -> tuple[str, float, bool]:
    exposure = Exposure.objects.get(experiment=experiment, user_id=user)
    return exposure.variant, (exposure.exposed_at - NOON).total_seconds(), exposure.is_in_several_variants


def test_report__several_of_one_variant__the_earliest_counts(experiment: Experiment) -> None:
    for second in (7, 3.5, 9, 3.5, 4):
        record([report(experiment, "a", second)], experiment.environment)

    assert stored(experiment) == ("a", 3.5, False)


def test_report__by_key__counts_like_by_id(experiment: Experiment) -> None:
    event = report(experiment, "b", 1)
    event.properties["experimentId"] = experiment.key  # type: ignore[index]
    record([event], experiment.environment)

    assert stored(experiment) == ("b", 1, False)


@pytest.mark.parametrize("spell", [str.upper, lambda pk: pk.replace("-", ""), "urn:uuid:{}".format])
def test_report__by_id_in_another_spelling__counts_too(experiment: Experiment, spell: Callable[[str], str]) -> None:
    event = report(experiment, "b", 1)
    event.properties["experimentId"] = spell(str(experiment.pk))  # type: ignore[index]
    record([event], experiment.environment)

    assert stored(experiment) == ("b", 1, False)


def test_report__by_a_key_that_looks_like_an_id__counts(production: Environment) -> None:
    experiment = ExperimentFactory(key="0F" * 16, environment=production, running=True, metrics=[])
    variant = experiment.variant_keys[0]
    event = report(experiment, variant, 1)
    event.properties["experimentId"] = experiment.key  # type: ignore[index]
    record([event], production)

    assert stored(experiment) == (variant, 1, False)
    assert events_named(production, experiment) == ["u"]


def events_named(environment: Environment, experiment: Experiment) -> list[str]:
    named = Event.objects.filter(environment=environment).referring_to(*experiment.references())
    return list(named.values_list("user_id", flat=True))


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("seconds", [(5, 2), (2, 5)])
def test_report__second_variant__the_first_seen_counts_and_the_user_is_marked(
    experiment: Experiment, seconds: tuple[int, int], together: bool
) -> None:
    events = [report(experiment, "a", seconds[0]), report(experiment, "b", seconds[1])]
    for batch in [events] if together else [[event] for event in events]:
        record(batch, experiment.environment)

    assert stored(experiment) == ("a" if seconds[0] == 2 else "b", 2, True)


@pytest.mark.parametrize("seed", range(20))
def test_report__any_order_of_arrival_in_any_batches__ends_the_same(production: Environment, seed: int) -> None:
    chance = random.Random(seed)
    happened = [
        (f"user-{chance.randrange(6)}", chance.choice("abc"), chance.randrange(-2, 8))
        for _ in range(chance.randrange(1, 40))
    ]
    for _ in range(2):
        experiment = make_experiment(production)
        events = [report(experiment, variant, second, user=user) for user, variant, second in happened]
        chance.shuffle(events)
        while events:
            size = chance.randrange(1, 8)
            record(events[:size], production)
            del events[:size]
        rows = Exposure.objects.filter(experiment=experiment).order_by("user_id")
        columns = ("user_id", "variant", "exposed_at", "is_in_several_variants", "attributes")
        assert list(rows.values_list(*columns)) == expected_of(experiment, happened)


def expected_of(experiment: Experiment, happened: list[tuple[str, str, int]]) -> list[tuple[Any, ...]]:
    split = compile_split([(each["key"], each["weight"]) for each in experiment.variants], experiment.key)
    expected = []
    for user in sorted({user for user, _, second in happened if second >= 0}):
        seen = sorted(
            (second, split(user) != variant, bucket(f"{experiment.key}:{variant}", user), variant)
            for name, variant, second in happened
            if name == user and second >= 0
        )
        is_in_several = len({variant for *_, variant in seen}) > 1
        second, *_, variant = seen[0]
        attributes = {"seen": f"{variant} at {second}"}
        expected.append((user, variant, NOON + timedelta(seconds=second), is_in_several, attributes))
    return expected


def test_report__name_of_a_metric__is_no_exposure(experiment: Experiment) -> None:
    record([report(experiment, "a", 1, name="buy")], experiment.environment)

    assert not Exposure.objects.exists()


@pytest.mark.parametrize(("name", "is_exposure"), [("rate", False), ("paid", False), ("seen", True)])
def test_report__event_that_a_defined_metric_counts__is_no_exposure_but_what_it_divides_by_is(
    production: Environment, name: str, is_exposure: bool
) -> None:
    create_metric(key="rate", type="ratio", event="paid", denominator={"event": "seen"}, actor=ACTOR, now=NOON)
    who = {"key": "defined", "environment": production, "actor": ACTOR, "now": NOON}
    create_experiment(**who, variants=VARIANTS, metrics=["rate"])
    early = report(get_experiment("defined", production), "a", 0.5, user="early", name=name)
    record([early], production)  # before the start is known, within its second
    experiment = start_experiment(**who, started_at=NOON)
    record([report(experiment, "a", 1, name=name)], production)

    users = {"early", "u"} if is_exposure else set()
    assert set(Exposure.objects.values_list("user_id", flat=True)) == users
    record([report(experiment, "z", 2, name=name)], production)
    assert events_of_unknown_variants(experiment).count() == int(is_exposure)


def test_report__unknown_variant__is_not_stored(experiment: Experiment) -> None:
    record([report(experiment, "z", 1)], experiment.environment)

    assert not Exposure.objects.exists()


def test_report__outside_of_the_run__is_not_stored(production: Environment) -> None:
    experiment = make_experiment(production, started_at=NOON + timedelta(seconds=0.9))
    stop_experiment(
        key=experiment.key, environment=production, actor=ACTOR, now=NOON, stopped_at=NOON + timedelta(seconds=60)
    )
    record([report(experiment, "a", -0.1, user="before"), report(experiment, "a", 60.1, user="after")], production)
    record(
        [report(experiment, "a", 0, user="same second"), report(experiment, "a", 60, user="at the stop")], production
    )

    assert set(Exposure.objects.values_list("user_id", flat=True)) == {"same second", "at the stop"}


def test_report__draft__is_not_stored(production: Environment) -> None:
    draft = create_experiment(key="draft", environment=production, variants=VARIANTS, actor=ACTOR, now=NOON)
    record([report(draft, "a", 1)], production)

    assert not Exposure.objects.exists()


def test_report__just_before_the_start_within_its_second__counts_whatever_arrives_first(
    production: Environment,
) -> None:
    who = {"key": "e", "environment": production, "actor": ACTOR, "now": NOON}
    draft = create_experiment(**who, variants=VARIANTS, metrics=["buy"])
    by_key = report(draft, "b", 0.4, user="by key")
    by_key.properties["experimentId"] = "e"  # type: ignore[index]
    events = [report(draft, "a", 0.2), by_key, report(draft, "a", -0.2, user="too early"), report(draft, "z", 0.3)]
    record([*events, report(draft, "a", 0.3, user="metric", name="buy")], production)
    start_experiment(**who, started_at=NOON + timedelta(seconds=0.7))

    assert stored(draft) == ("a", 0.2, False)
    assert stored(draft, "by key") == ("b", 0.4, False)
    assert Exposure.objects.count() == 2


def test_report__key_that_is_the_id_of_another_experiment__means_that_other_one(production: Environment) -> None:
    one = make_experiment(production)
    who = {"key": str(one.pk), "environment": production, "actor": ACTOR, "now": NOON}
    create_experiment(**who, variants=VARIANTS, metrics=["buy"])
    other = start_experiment(**who, started_at=NOON)
    for experiment in (one, other):
        assign(experiment.pk, "u", "a", NOON)
    record([report(one, "b", 1, user="v"), report(one, "", 2, name="buy")], production)

    assert not Exposure.objects.filter(experiment=other, user_id="v").exists()
    assert compute_results(one, NOON)["a"].conversions == 1
    assert compute_results(other, NOON)["a"].conversions == 0


def test_report__experiment_of_another_environment__is_not_stored(experiment: Experiment, staging: Environment) -> None:
    record([report(experiment, "a", 1)], staging)

    assert not Exposure.objects.exists()


def test_report__clock_that_runs_ahead__counts_from_the_receipt(experiment: Experiment) -> None:
    event = report(experiment, "a", 10 * 24 * 3600)
    record([event], experiment.environment)

    assert stored(experiment) == ("a", 24 * 3600, False)


def test_assign__twice__keeps_the_first(experiment: Experiment) -> None:
    assert assign(experiment.pk, "u", "a", NOON) == "a"
    assert assign(experiment.pk, "u", "b", NOON + timedelta(seconds=1)) == "a"
    assert stored(experiment) == ("a", 0, False)


def test_assign__after_a_report__keeps_the_variant_that_was_seen(experiment: Experiment) -> None:
    record([report(experiment, "c", 5)], experiment.environment)

    assert assign(experiment.pk, "u", "a", NOON + timedelta(seconds=9)) == "c"
    assert stored(experiment) == ("c", 5, False)


@pytest.mark.parametrize("reported_before", [True, False])
def test_assign__earlier_report_of_another_variant_comes_late__what_was_answered_stands(
    experiment: Experiment, reported_before: bool
) -> None:
    if reported_before:
        record([report(experiment, "a", 5)], experiment.environment)
    assign(experiment.pk, "u", "a", NOON + timedelta(seconds=5))
    record([report(experiment, "b", 1), report(experiment, "a", 3)], experiment.environment)

    assert stored(experiment) == ("a", 3, True)
    assert assign(experiment.pk, "u", "b", NOON + timedelta(seconds=9)) == "a"


# --- phases ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def phased(experiment: Experiment) -> Experiment:
    """An experiment whose second phase began ten seconds after the first."""
    who = {"key": experiment.key, "environment": experiment.environment, "actor": ACTOR, "now": NOON}
    changes = {"conditions": [{"attribute": "plan", "operator": "equals", "value": "pro"}]}
    return open_phase(**who, changes=changes, opened_at=NOON + timedelta(seconds=10), reason="fewer of them")


def phase_of(experiment: Experiment, user: str = "u") -> int:
    return Exposure.objects.get(experiment=experiment, user_id=user).phase


@pytest.mark.parametrize(("second", "phase"), [(0, 1), (9.9, 1), (10, 2), (99, 2)])
def test_report__of_a_moment__belongs_to_the_phase_of_then(phased: Experiment, second: float, phase: int) -> None:
    record([report(phased, "a", second)], phased.environment)

    assert phase_of(phased) == phase


@pytest.mark.parametrize("variant", ["a", "b"])
def test_report__that_turns_out_to_be_the_earliest__brings_its_phase(phased: Experiment, variant: str) -> None:
    record([report(phased, "a", 12)], phased.environment)
    record([report(phased, variant, 3)], phased.environment)

    assert stored(phased)[:2] == (variant, 3)
    assert phase_of(phased) == 1


@pytest.mark.parametrize(("variant", "second"), [("a", 3), ("b", 12)])
def test_assign__then_reported_with_an_earlier_moment__counts_from_then_for_the_phase_that_assigned(
    phased: Experiment, variant: str, second: int
) -> None:
    assign(phased.pk, "u", "a", NOON + timedelta(seconds=12), phase=2)
    record([report(phased, variant, 3)], phased.environment)

    assert (stored(phased)[1], phase_of(phased)) == (second, 2)


def test_assign__after_a_report_of_an_earlier_phase__stays_in_that(phased: Experiment) -> None:
    record([report(phased, "c", 3)], phased.environment)
    assign(phased.pk, "u", "a", NOON + timedelta(seconds=12), phase=2)

    assert phase_of(phased) == 1
