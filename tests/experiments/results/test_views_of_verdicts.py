"""The verdict does not depend on who looked when, or at which view."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.metrics.changes import create_metric
from tests.conftest import ACTOR, NOON
from tests.experiments.results.asking import ask
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
VARIANTS = ("control", "green", "blue")
BUYERS = {"control": 2, "green": 5, "blue": 2}
"""Of ten users each."""
WEIGHTS = [{"key": "control", "weight": 34}, {"key": "green", "weight": 33}, {"key": "blue", "weight": 33}]


@pytest.fixture
def shop(production: Environment) -> Environment:
    create_metric(key="buys", type="conversion", event="buy", window_hours=24, actor=ACTOR, now=NOON)
    return production


def start(environment: Environment, **design: Any) -> None:
    usual = {"lookback_days": 0, "minimum_days": 0, "metrics": ["buys"], "variants": WEIGHTS}
    ExperimentFactory(key="shop", environment=environment, running=True, **usual, **design)


def expose(environment: Environment, users: int = 300) -> None:
    """Expose this many users to each variant."""
    events = [
        NewEvent(new_id(), f"{variant}-{user}", "seen", NOON, NOON, {"experimentId": "shop", "variant": variant})
        for variant in VARIANTS
        for user in range(users)
    ]
    record(events, environment)


def buy(environment: Environment, users: int = 300) -> None:
    at = NOON + timedelta(hours=1)
    buyers = [f"{variant}-{user}" for variant in VARIANTS for user in range(users) if user % 10 < BUYERS[variant]]
    record([NewEvent(new_id(), user, "buy", at, at, {}) for user in buyers], environment)


def ask_at(api: Any, moment: datetime, **parameters: str) -> Any:
    with time_machine.travel(moment, tick=False):
        return ask(api, **parameters)


def outcome(results: Any) -> tuple[str, str | None]:
    return results["verdict"]["decision"], results["verdict"]["variant"]


@pytest.mark.parametrize("looks", [0, 1, 3])
def test_fixed_analysis__looks_between_two_imports__change_nothing(api: Any, shop: Environment, looks: int) -> None:
    start(shop, analysis="fixed", planned_size=600, minimum_effect=0.1)
    expose(shop)
    for number in range(looks):
        early = ask_at(api, NOON + 2 * DAY + timedelta(hours=number))
        assert [variant["value"] for variant in early["metrics"][0]["variants"]] == [0, 0, 0]
    buy(shop)

    results = ask_at(api, NOON + 2 * DAY + timedelta(hours=12))
    assert outcome(results) == ("ship", "green")
    assert [variant["value"] for variant in results["metrics"][0]["variants"]] == [0.2, 0.5, 0.2]
    assert outcome(ask_at(api, NOON + 9 * DAY)) == ("ship", "green")


@pytest.mark.parametrize(
    ("view", "named"),
    [
        ({"control": "green"}, "control green"),
        ({"correction": "benjamini-hochberg"}, "correction benjamini-hochberg"),
        ({"maturity": "all"}, "maturity all"),
        ({"control": "blue", "maturity": "all"}, "control blue and maturity all"),
    ],
)
def test_verdict__in_another_view__stays_and_says_so(
    api: Any, shop: Environment, view: dict[str, str], named: str
) -> None:
    start(shop)
    expose(shop)
    buy(shop)

    for moment in (NOON + timedelta(hours=12), NOON + 2 * DAY):  # before and after the users are mature
        usual, other = ask_at(api, moment)["verdict"], ask_at(api, moment, **view)["verdict"]
        assert (other["decision"], other["variant"]) == (usual["decision"], usual["variant"])
        assert other["reasons"][:-1] == usual["reasons"]
        assert other["reasons"][-1]["code"] == "other_view"
        assert f"The figures shown are for {named}. " in other["reasons"][-1]["message"]


def test_verdict__in_the_usual_view_named_in_full__has_no_note(api: Any, shop: Environment) -> None:
    start(shop)
    expose(shop)
    buy(shop)

    full = ask_at(api, NOON + 2 * DAY, control="control", correction="holm", maturity="mature", phase="all")
    assert full["verdict"] == ask_at(api, NOON + 2 * DAY)["verdict"]
    assert outcome(full) == ("ship", "green")
