"""The guards of results, which count users and events that should not exist, and the assignment audit."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from events.recording import NewEvent, new_id, record
from experiments.exposures.recording import assign, events_of_unknown_variants
from experiments.models import Experiment
from flags.engine.bucketing import compile_split
from tests.conftest import NOON
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
