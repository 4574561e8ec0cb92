"""The guards of results, which count users and events that should not exist, and the assignment audit."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import connection

from events.models import Event
from events.recording import NewEvent, new_id, record
from experiments.exposures.recording import assign, events_of_unknown_variants
from experiments.lifecycle.changes import stop_experiment
from experiments.models import Experiment, ResultState
from experiments.results.archive import freeze
from flags.engine.bucketing import compile_split
from tests.conftest import ACTOR, NOON
from tests.experiments.results.asking import ask
from tests.experiments.results.shop import open_shop

pytestmark = pytest.mark.django_db


def test_guards__unknown_and_second_variants__are_counted(api, production):
    open_shop(production, [])
    at = NOON + timedelta(hours=1)
    for user, variants in (("u", ("green", "control")), ("v", ("green",)), ("w", ("purple",))):
        for variant in variants:
            record([NewEvent(new_id(), user, "seen", at, at, {"experimentId": "shop", "variant": variant})], production)
    guards = ask(api)["guards"]
    assert (guards["usersInSeveralVariants"], guards["eventsOfUnknownVariants"]) == (1, 1)
    counted = {"usersInSeveralVariants", "eventsOfUnknownVariants", "doubtedReports"}
    assert guards.keys() == {"sampleRatio", "differentBefore", "flagOffSince", *counted}


def test_audit__variants_that_the_hash_does_not_give__are_counted(api, production):
    experiment = open_shop(production, [])
    split = compile_split((("control", 50), ("green", 50)), "shop")
    for user in range(20):
        assign(experiment.pk, f"right-{user}", split(f"right-{user}"), NOON)
    other = {"control": "green", "green": "control"}
    for user in range(3):
        assign(experiment.pk, f"wrong-{user}", other[split(f"wrong-{user}")], NOON)
    report = {"experimentId": "shop", "variant": other[split("reported")]}
    record([NewEvent(new_id(), "reported", "seen", NOON, NOON, report)], production)

    guards = ask(api, audit="true")["guards"]
    assert guards["unexpectedVariants"] == 3
    expected = {"exposures": 24, "differing": 4, "share": 4 / 24, "selfReported": 1, "unexplained": 3}
    assert {name: guards["assignments"][name] for name in expected} == expected


@pytest.mark.parametrize(
    ("hours", "name", "properties", "is_counted"),
    [
        (1, "purchase", {}, True),
        (1, "purchase", {"experimentId": "shop"}, True),
        (1, "purchase", {"experimentId": "other"}, False),
        (1, "nothing", {}, False),
        (1, "look", {}, True),  # the denominator of a metric
        (-1, "purchase", {}, False),  # before the start
        (2, "purchase", {}, False),  # in the second of the exposure
        (3, "purchase", {}, False),
    ],
)
def test_audit__events_of_metrics_between_start_and_exposure__are_counted(
    api, production, hours, name, properties, is_counted
):
    open_shop(production, [])
    exposed, at = NOON + timedelta(hours=2, seconds=0.5), NOON + timedelta(hours=hours)
    report = {"experimentId": "shop", "variant": "green"}
    record([NewEvent(new_id(), "u", "seen", exposed, exposed, report)], production)
    record([NewEvent(new_id(), user, name, at, at, properties) for user in ("u", "never exposed")], production)

    assert ask(api, audit="true")["guards"]["eventsBeforeExposure"] == int(is_counted)


def test_audit__user_exposed_after_the_stop__counts_as_never_exposed(api, production):
    experiment = open_shop(production, [])
    at = NOON + timedelta(hours=1)
    record([NewEvent(new_id(), user, "purchase", at, at, {}) for user in ("u", "v")], production)
    stopped = NOON + timedelta(hours=2)
    for user, after in (("u", 0), ("v", 1)):
        assign(experiment.pk, user, "green", stopped + timedelta(seconds=after))
    Experiment.objects.filter(pk=experiment.pk).update(status="stopped", stopped_at=stopped)

    assert ask(api, audit="true")["guards"]["eventsBeforeExposure"] == 1


def test_events_of_unknown_variants__any_number_of_events__are_found_by_an_index_of_experiments(production):
    plan = events_of_unknown_variants(open_shop(production, [])).order_by().explain()
    assert connection.vendor != "sqlite" or "INDEX event_by_experiment" in plan


def exposed(user: str, variant: str = "green", at: datetime = NOON) -> NewEvent:
    return NewEvent(new_id(), user, "seen", at, at, {"experimentId": "shop", "variant": variant})


def bought(user: str, amount: float = 1) -> NewEvent:
    at = NOON + timedelta(hours=1)
    return NewEvent(new_id(), user, "purchase", at, at, {"revenue": amount, "currency": "EUR"})


def test_audit__conversions_of_users_who_were_never_exposed__are_counted_with_a_reason(api, production):
    experiment = open_shop(production, [])
    look = NewEvent(new_id(), "nobody", "look", NOON, NOON, {})  # a denominator is no conversion
    record([exposed("ada"), bought("ada"), bought("Ada "), bought("eve"), bought("eve"), look], production)
    reason = (
        "The ids of 1 of these users differ from those of exposed users in blanks or case alone: send the same ids."
    )
    expected = {"events": 3, "users": 2, "similarUsers": 1, "reason": reason}
    assert ask(api, audit="true")["guards"]["unexposedConversions"] == expected

    stop_experiment(key="shop", environment=production, actor=ACTOR, now=NOON + timedelta(days=1))
    freeze(Experiment.objects.get(pk=experiment.pk), NOON + timedelta(days=9))
    Event.objects.all().delete()
    assert ask(api, audit="true")["guards"]["unexposedConversions"] == expected
    state = ResultState.objects.get()
    del state.archive["unexposed"]
    state.save()
    assert "unexposedConversions" not in ask(api, audit="true")["guards"]


def test_audit__ids_that_differ_in_blanks_or_case_alone__are_counted(api, production):
    open_shop(production, [])
    record(
        [exposed(user) for user in ("ada", "Ada", "A\u00a0da ", "bob", "eve", "eve\u200b", "\u00e9", "e")], production
    )
    assert ask(api, audit="true")["guards"]["similarIds"] == 5


@pytest.mark.parametrize(("amount", "share"), [(10_000_000, 10_000_000 / 10_000_039), (4, None)])
def test_audit__one_value_over_a_tenth_of_the_sum__names_the_user(api, production, amount, share):
    open_shop(production, [], metrics=("revenue", "bought"))
    users = [f"u{number}" for number in range(40)]
    record([event for user in users for event in (exposed(user), bought(user))], production)
    record([bought("u7", amount - 1)], production)

    large = ask(api, audit="true")["guards"].get("largeValues", [])
    expected = {"metric": "revenue", "variant": "green", "userId": "u7", "value": amount, "share": share}
    assert large == ([expected] if share else [])


def test_audit__large_value_with_a_cap__counts_as_the_cap(api, production):
    experiment = open_shop(production, [], metrics=("revenue",))
    experiment.definitions[0]["capValue"] = 10
    experiment.save(update_fields=["definitions"])
    users = [f"u{number}" for number in range(40)]
    record([event for user in users for event in (exposed(user), bought(user))], production)
    record([bought("u7", 1e7)], production)

    [large] = ask(api, audit="true")["guards"]["largeValues"]
    assert (large["userId"], large["value"], large["share"]) == ("u7", 10, 10 / 49)


def test_audit__large_value_of_few_users__is_left_out(api, production):
    open_shop(production, [], metrics=("revenue",))
    record([event for user in "abc" for event in (exposed(user), bought(user))], production)
    assert "largeValues" not in ask(api, audit="true")["guards"]
