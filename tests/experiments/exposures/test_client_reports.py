"""Reports of exposures with keys of scope `client`: only of variants that the hash gives the user."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from config.models import Environment, Scope
from events.models import Event
from events.recording import NewEvent, new_id, record
from events.removal import erase_user
from experiments.exposures.recording import assign, doubted_reports
from experiments.lifecycle.changes import create_experiment, get_experiment, start_experiment, stop_experiment
from experiments.lifecycle.new_phase import open_phase
from experiments.models import Experiment, Exposure
from flags.engine.bucketing import BUCKETS, bucket, compile_split
from tests.answers import data
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db

KEY = "shop"
EVEN = [{"key": key, "weight": 50} for key in ("control", "green")]
GREEN_ALONE = [{"key": "control", "weight": 0}, {"key": "green", "weight": 50}]
split = compile_split([("control", 50), ("green", 50)], KEY)


def user(variant: str, *, is_in_half: bool = True) -> str:
    """A user to whom an even split gives a variant, in or outside of the half of the users."""
    users = map("user-{}".format, range(1000))
    return next(each for each in users if split(each) == variant and (bucket(KEY, each) < BUCKETS // 2) is is_in_half)


def open_shop(environment: Environment, *, starts: bool = True, **values: Any) -> Experiment:
    who = {"key": KEY, "environment": environment, "actor": ACTOR, "now": NOON}
    create_experiment(**who, variants=EVEN, metrics=["buy"], **values)
    return start_experiment(**who, started_at=NOON) if starts else get_experiment(KEY, environment)


def report(user_id: str, variant: str, minutes: float = 1, *, by_client: bool = True) -> NewEvent:
    moment = NOON + timedelta(minutes=minutes)
    properties = {"experimentId": KEY, "variant": variant}
    return NewEvent(new_id(), user_id, "seen", moment, NOON + timedelta(days=1), properties, by_client)


def exposures() -> set[tuple[str, str, float, bool]]:
    return {
        (row.user_id, row.variant, (row.exposed_at - NOON) / timedelta(minutes=1), row.is_in_several_variants)
        for row in Exposure.objects.all()
    }


def doubted() -> int:
    return doubted_reports(Experiment.objects.get(key=KEY)).count()


def test_report__variant_that_the_hash_gives__is_an_exposure(production: Environment) -> None:
    open_shop(production)
    for variant in ("control", "green"):
        record([report(user(variant), variant)], production)
    assert exposures() == {(user(variant), variant, 1, False) for variant in ("control", "green")}
    assert doubted() == 0


@pytest.mark.parametrize(("given", "told"), [("control", "green"), ("green", "control")])
def test_report__other_variant__is_doubted_and_no_exposure(production: Environment, given: str, told: str) -> None:
    open_shop(production)
    record([report(user(given), told), report(user(given), told, 2)], production)
    assert (exposures(), doubted()) == (set(), 2)
    record([report(user(given), given, 3)], production)
    assert (exposures(), doubted()) == ({(user(given), given, 3, False)}, 2)


def test_report__by_a_server__may_name_every_variant(production: Environment) -> None:
    open_shop(production)
    record([report(user("control"), "green", by_client=False)], production)
    assert (exposures(), doubted()) == ({(user("control"), "green", 1, False)}, 0)
    assert not Event.objects.filter(is_doubted__isnull=False).exists()


def test_report__of_a_user_outside_of_the_percentage__may_name_the_control(production: Environment) -> None:
    open_shop(production, percentage=50)
    for variant in ("control", "green"):
        outsider = user(variant, is_in_half=False)
        record([report(outsider, "control"), report(outsider, "green")], production)
    assert (exposures(), doubted()) == (set(), 2)


def test_report__conditions__are_not_checked(production: Environment) -> None:
    open_shop(production, conditions=[{"attribute": "plan", "operator": "equals", "value": "pro"}])
    record([report(user("green"), "green")], production)
    assert (len(exposures()), doubted()) == (1, 0)


def test_report__after_a_new_phase__may_name_what_an_earlier_one_gave(production: Environment) -> None:
    open_shop(production)
    open_phase(
        key=KEY,
        environment=production,
        changes={"variants": GREEN_ALONE},
        actor=ACTOR,
        now=NOON + timedelta(hours=1),
        opened_at=NOON + timedelta(hours=1),
        reason="It looks good.",
    )
    moved = user("control")
    record([report(moved, "green", 1)], production)
    assert (exposures(), doubted()) == (set(), 1)
    record([report(moved, "control", 90)], production)
    assert exposures() == {(moved, "control", 90, False)}
    record([report(moved, "green", 95)], production)
    assert (exposures(), doubted()) == ({(moved, "control", 90, True)}, 1)


def test_report__of_the_variant_that_the_user_has__is_not_counted_as_an_anomaly(production: Environment) -> None:
    experiment = open_shop(production, forced_variants={"forced": "green"})
    assign(experiment.pk, user("control"), "green", NOON + timedelta(minutes=5))
    record([report(user("control"), "green"), report("forced", "green"), report("forced", "control")], production)
    assert (exposures(), doubted()) == ({(user("control"), "green", 5, False)}, 0)


def test_reports__in_any_order__lead_to_the_same(production: Environment) -> None:
    open_shop(production, percentage=50)
    chance = random.Random(3)
    users = [user(variant, is_in_half=is_in) for variant in ("control", "green") for is_in in (True, False)]
    events = [
        report(chance.choice(users), chance.choice(["control", "green"]), at, by_client=chance.random() < 0.7)
        for at in range(1, 60)
    ]
    outcomes = []
    for batch in (1, 7, 60):
        Exposure.objects.all().delete()
        Event.objects.all().delete()
        chance.shuffle(events)
        for at in range(0, len(events), batch):
            record(events[at : at + batch], production)
        marked = set(Event.objects.filter(is_doubted=True).values_list("pk", flat=True))
        outcomes.append((exposures(), marked, doubted()))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert outcomes[0][0]
    assert outcomes[0][2]


def test_reports__stored_before_the_start_is_known__are_judged_with_it(production: Environment) -> None:
    open_shop(production, starts=False)
    record([report(user("green"), "green", 0.01), report(user("control"), "green", 0.01)], production)
    assert (exposures(), doubted()) == (set(), 0)
    start_experiment(key=KEY, environment=production, actor=ACTOR, now=NOON, started_at=NOON)
    assert (exposures(), doubted()) == ({(user("green"), "green", 0.01, False)}, 1)


def test_reports__after_the_stop__are_not_doubted(production: Environment) -> None:
    open_shop(production)
    stop_experiment(key=KEY, environment=production, actor=ACTOR, now=NOON, stopped_at=NOON + timedelta(minutes=5))
    record([report(user("control"), "green", 4), report(user("control"), "green", 6)], production)
    assert doubted() == 1


@pytest.mark.both_lanes
@pytest.mark.parametrize(("scope", "is_doubted"), [(Scope.CLIENT, True), (Scope.SERVER, None), (Scope.MANAGE, None)])
def test_track__with_keys_of_each_scope__doubts_those_of_clients_alone(
    client_of: Callable[..., Any], production: Environment, scope: Scope, is_doubted: bool | None
) -> None:
    open_shop(production)
    event = {
        "event": "seen",
        "userId": user("control"),
        "timestamp": "2026-01-31T12:30:00Z",
        "properties": {"experimentId": KEY, "variant": "green"},
    }
    plain = {"event": "seen", "userId": "u"}
    client, server = client_of(scope), client_of(Scope.SERVER, "production")
    data(client.post("/v1/events", event), 202)
    data(client.post("/v1/events", plain), 202)
    data(client.post("/v1/events/batch", {"events": [event, plain] * 20}), 202)
    stored = list(Event.objects.values_list("user_id", "is_doubted").distinct().order_by("user_id"))
    assert stored == [("u", None), (user("control"), is_doubted)]
    assert Exposure.objects.exists() is (is_doubted is None)
    guards = data(server.get(f"/v1/experiments/{KEY}/results"))["guards"]
    assert guards["doubtedReports"] == (21 if is_doubted else 0)


def test_doubted_reports__of_an_erased_user__are_gone(production: Environment) -> None:
    open_shop(production)
    record([report(user("control"), "green")], production)
    assert doubted() == 1
    erase_user(user("control"), production)
    assert doubted() == 0


def test_doubted_reports__among_many_events__are_found_by_their_own_index(production: Environment) -> None:
    plan = doubted_reports(open_shop(production)).order_by().explain()
    assert connection.vendor != "sqlite" or "INDEX event_doubted" in plan
