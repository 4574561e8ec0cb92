"""Results of an experiment with several phases: which phases they cover, by default and on request."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from itertools import count, islice
from typing import Any

import pytest
import time_machine

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.changes import stop_experiment
from experiments.lifecycle.new_phase import open_phase
from experiments.models import Experiment
from experiments.results.archive import freeze
from flags.engine.bucketing import bucket, threshold
from tests.answers import data
from tests.conftest import ACTOR, NOON
from tests.experiments.results.asking import PATH, ask, refused
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
LATER = NOON + timedelta(days=9)
EVEN, UNEVEN = (50, 50), (9, 1)
USERS = {1: (30, 30), 2: (60, 60), 3: (90, 10), 4: (45, 5)}
"""The users of each phase in control and in green. Every tenth of them buys."""


def weights(control: float, green: float) -> list[dict[str, Any]]:
    return [{"key": "control", "weight": control}, {"key": "green", "weight": green}]


def next_phase(environment: Environment, days: int, **changes: Any) -> Experiment:
    arguments = {"key": "shop", "environment": environment, "actor": ACTOR, "now": NOON}
    return open_phase(**arguments, opened_at=NOON + days * DAY, changes=changes, reason=f"day {days}")


def admitted_users(prefix: str) -> Iterator[str]:
    """Yield users that the percentage admits from the first phase on."""
    return (user for number in count() if bucket("shop", user := f"{prefix} {number}") < threshold(10))


def record_users(environment: Environment, phase: int, users: tuple[int, int]) -> None:
    """Record users exposed in a phase; every tenth buys. Each phase begins a day after the one before."""
    at, events = NOON + (phase - 1) * DAY + timedelta(hours=1), []
    for variant, number in zip(("control", "green"), users, strict=True):
        for index, user in enumerate(islice(admitted_users(f"{variant} {phase}"), number)):
            properties = {"experimentId": "shop", "variant": variant, "plan": f"plan {phase}"}
            events.append(NewEvent(new_id(), user, "exposed", at, at, properties))
            if index % 10 == 0:
                events.append(NewEvent(new_id(), user, "buy", at, at + timedelta(minutes=1), {}))
    record(events, environment)


@pytest.fixture
def shop(production: Environment) -> Any:
    """An experiment in four phases: even weights for 10% and then all users, and then uneven weights."""
    with time_machine.travel(LATER, tick=False):
        ExperimentFactory(key="shop", environment=production, metrics=["buy"], percentage=10, running=True)
        next_phase(production, 1, percentage=100)
        next_phase(production, 2, variants=weights(*UNEVEN))
        shop = next_phase(production, 3, conditions=[{"attribute": "plan", "operator": "equals", "value": "pro"}])
        for phase, users in USERS.items():
            record_users(production, phase, users)
        yield shop


def figures(answer: Any) -> list[tuple[int, float]]:
    return [(variant["users"], variant["value"]) for variant in answer["metrics"][0]["variants"]]


def test_results__several_phases__cover_all(api, shop):
    answer = ask(api)
    assert (answer["users"], [users for users, _ in figures(answer)]) == (330, [225, 105])
    assert answer["variants"] == [
        {"key": "control", "weight": 9, "users": 225, "expectedUsers": pytest.approx(225)},
        {"key": "green", "weight": 1, "users": 105, "expectedUsers": pytest.approx(105)},
    ]
    assert all(row["isCovered"] for row in answer["phases"])
    assert ask(api, phase="all") == answer


def test_results__phases_of_other_weights__are_combined_as_strata(api, shop):
    """Each variant's share is the mean of its shares in both strata, weighted by the users of all variants there."""
    control, green = ask(api)["metrics"][0]["variants"]
    assert control["value"] == pytest.approx((180 * 9 / 90 + 150 * 14 / 135) / 330)
    assert green["value"] == pytest.approx((180 * 9 / 90 + 150 * 2 / 15) / 330)
    difference = green["comparison"]["difference"]["estimate"]
    assert difference == pytest.approx(green["value"] - control["value"])


def test_results__phases__have_their_configuration_and_users(api, shop):
    phases = ask(api)["phases"]
    assert [(row["percentage"], len(row["conditions"]), row["reason"]) for row in phases] == [
        (10, 0, ""),
        (100, 0, "day 1"),
        (100, 0, "day 2"),
        (100, 1, "day 3"),
    ]
    assert [tuple(variant["users"] for variant in row["variants"]) for row in phases] == list(USERS.values())
    assert [[variant["weight"] for variant in row["variants"]] for row in phases] == [[50, 50]] * 2 + [[9, 1]] * 2
    assert [row["users"] for row in phases] == [sum(users) for users in USERS.values()]
    assert all(row["sampleRatio"]["chiSquarePValue"] == pytest.approx(1) for row in phases)


@pytest.mark.parametrize(
    ("phase", "users"), [("1", (30, 30)), ("2", (60, 60)), ("3", (90, 10)), ("4", (45, 5)), ("all", (225, 105))]
)
def test_results__phase_asked_for__has_its_users_alone_in_everything(api, shop, phase, users):
    answer = ask(api, phase=phase, series="daily", breakdown="plan")
    assert tuple(variant["users"] for variant in answer["variants"]) == users
    variants = answer["metrics"][0]["variants"]
    assert tuple(variant["users"] for variant in variants) == users
    assert tuple(variant["matureUsers"] for variant in variants) == users
    assert tuple(variant["series"][-1]["users"] for variant in variants) == users
    assert sum(part["users"] for part in answer["breakdown"]["values"]) == sum(users)
    assert [str(row["number"]) for row in answer["phases"] if row["isCovered"]] == (
        list("1234") if phase == "all" else [phase]
    )


def test_results__all_phases_of_other_splits__are_combined_as_strata(api, shop):
    answer = ask(api, phase="all")
    assert answer["verdict"]["decision"] == "keep_running"
    assert answer["guards"]["sampleRatio"]["isMismatch"] is False
    assert [variant["expectedUsers"] for variant in answer["variants"]] == pytest.approx([225, 105])


def test_results__phase_without_users__has_a_breakdown_without_values(api, production, shop):
    next_phase(production, 8, percentage=50)
    breakdown = ask(api, phase="5", breakdown="plan")["breakdown"]
    assert (breakdown["values"], breakdown["interactions"][0]["pValue"]) == ([], None)


def test_results__unknown_phase__is_refused_with_the_known_ones(api, shop):
    assert "all, 1, 2, 3, 4." in refused(api.get(PATH, {"phase": "5"}), "phase", "unknown_reference")


def test_results__mismatch_in_a_phase_that_is_not_covered__is_reported_for_that_phase_only(api, production, shop):
    record_users(production, 2, (400, 60))
    answer = ask(api, phase="4")
    assert [row["sampleRatio"]["isMismatch"] for row in answer["phases"]] == [False, True, False, False]
    assert answer["guards"]["sampleRatio"]["isMismatch"] is False
    assert ask(api, phase="all")["guards"]["sampleRatio"]["isMismatch"] is True


def test_results__as_a_table__has_the_users_of_the_phases_that_are_covered(api, shop):
    rows = api.get(PATH, headers={"accept": "text/csv"}).content.decode().splitlines()
    head = rows[0].split(",")
    assert [row.split(",")[head.index("users")] for row in rows[1:]] == ["225", "105"]


def test_experiment__several_phases__counts_the_users_of_all(api, shop):
    results = data(api.get("/v1/experiments/shop"))["results"]
    counted = [explain(api, variant=variant) for variant in results]
    assert [variant["sampleSize"] for variant in results.values()] == [225, 105]
    assert [variant["conversion"] for variant in results.values()] == [
        entry["sum"] / entry["users"] for entry in counted
    ]


# --- explanations ----------------------------------------------------------------------------------------------------


def explain(api: Any, **parameters: str) -> Any:
    return data(api.get(f"{PATH}/explain", {"metric": "buy", "variant": "control", **parameters}))


@pytest.mark.parametrize("is_frozen", [False, True])
def test_explanation__phase_asked_for__is_what_the_results_of_it_say(api, production, shop, is_frozen):
    if is_frozen:
        stopped = stop_experiment(key="shop", environment=production, actor=ACTOR, now=LATER)
        freeze(stopped, LATER + 2 * DAY)
    for parameters in ({}, {"phase": "1"}, {"phase": "4"}):
        control = ask(api, **parameters)["metrics"][0]["variants"][0]
        explained = explain(api, **parameters)
        assert (explained["users"], explained["value"]) == (control["users"], pytest.approx(control["value"]))
        assert explained["steps"][0] == {
            "name": "events_of_the_name",
            "description": "Events named buy in the environment.",
            "rows": 34,
            "users": 34,
        }
        assert explained["steps"][-1]["rows"] == control["events"]


def test_explanation__of_some_phases__says_which(api, shop):
    exposed = explain(api, phase="2")["steps"][1]
    assert exposed["description"] == "Events by users who were exposed to the variant in phase 2."
    assert (exposed["rows"], exposed["users"]) == (6, 6)
    assert explain(api)["steps"][1]["description"] == "Events by users who were exposed to the variant."


def test_explanation__phases_of_other_weights__has_a_stratum_for_each_split(api, shop):
    strata = explain(api)["strata"]
    assert [(part["phases"], part["users"], part["sum"], part["denominatorSum"]) for part in strata] == [
        ([1, 2], 90, 9, None),
        ([3, 4], 135, 14, None),
    ]
    assert [part["weight"] for part in strata] == pytest.approx([180 / 330, 150 / 330])
    assert explain(api, phase="2")["strata"] is None


def test_explanation__unknown_phase__is_refused(api, shop):
    wrong = {"metric": "buy", "variant": "control", "phase": "0"}
    assert "all, 1, 2, 3, 4." in refused(api.get(f"{PATH}/explain", wrong), "phase", "unknown_reference")


# --- why -------------------------------------------------------------------------------------------------------------


def test_results__variants_alike_and_buyers_more_by_the_phase__are_no_winner(api, production):
    """Simpson's paradox: most users in control are exposed when few buy, and most in green when many do."""
    chance, events = random.Random(11), []
    ExperimentFactory(key="shop", environment=production, metrics=["buy"], running=True, variants=weights(9, 1))
    next_phase(production, 1, variants=weights(1, 9))
    for phase, share in ((1, 0.1), (2, 0.3)):
        at = NOON + (phase - 1) * DAY
        for index in range(3000):
            user, variant = f"{phase} {index}", chance.choices(("control", "green"), ((9, 1), (1, 9))[phase - 1])[0]
            properties = {"experimentId": "shop", "variant": variant}
            events.append(NewEvent(new_id(), user, "exposed", at, at, properties))
            if chance.random() < share:
                events.append(NewEvent(new_id(), user, "buy", at, at, {}))
    record(events, production)

    with time_machine.travel(LATER, tick=False):
        answer = ask(api)
    raw = data(api.get("/v1/experiments/shop"))["results"]
    assert raw["green"]["conversion"] > raw["control"]["conversion"] + 0.1  # as if green were better by far
    control, green = answer["metrics"][0]["variants"]
    interval = green["comparison"]["difference"]["alwaysValid"]
    assert interval["lower"] < 0 < interval["upper"]
    assert control["value"] == pytest.approx(0.2, abs=0.03)
    assert (green["comparison"]["label"], answer["verdict"]["decision"]) == ("unclear", "keep_running")
