"""No lift of a quantity that cannot be negative lies under -100 %."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from config.models import Environment
from events.recording import NewEvent, new_id, record
from tests.conftest import NOON
from tests.experiments.results.asking import ask
from tests.experiments.results.test_plans import DAY, expose, open_shop

pytestmark = pytest.mark.django_db

AMOUNT = {"property": "amount", "operator": "greaterThanOrEqual", "value": 0}
METRICS = {
    "errors": {"type": "ratio", "event": "error", "denominator": {"event": "view"}},
    "spent": {"type": "revenue", "event": "buy", "currency": "EUR"},
    "amount": {"type": "sum", "event": "buy", "property": "amount"},
    "each": {"type": "ratio", "event": "buy", "property": "amount", "denominator": {"event": "view"}},
    "bounded": {
        "type": "ratio",
        "event": "error",
        "denominator": {"event": "view", "property": "amount", "where": [AMOUNT]},
    },
    "unbounded": {"type": "ratio", "event": "error", "denominator": {"event": "view", "property": "amount"}},
}


@pytest.fixture
def shop(production: Environment) -> None:
    """400 users in each variant, all with a view; 60 of control and 3 of green have an error and have bought."""
    open_shop(production, METRICS)
    expose(production, 800)
    active = [*range(0, 120, 2), 1, 3, 5]
    do(production, range(800), "view", amount=1)
    do(production, active, "error")
    do(production, active, "buy", amount=5, revenue=5, currency="EUR")


def do(environment: Environment, users: Any, name: str, **properties: Any) -> None:
    at = NOON + timedelta(minutes=1)
    record([NewEvent(new_id(), f"0-{user}", name, at, at, properties) for user in users], environment)


def lifts(api: Any, **options: Any) -> dict[str, Any]:
    with time_machine.travel(NOON + DAY, tick=False):
        metrics = ask(api, **options)["metrics"]
    return {metric["key"]: metric["variants"][1]["comparison"]["lift"]["alwaysValid"] for metric in metrics}


@pytest.mark.usefixtures("shop")
def test_lift__of_what_cannot_be_or_never_was_negative__ends_at_100_percent_less(api: Any) -> None:
    lower = {key: lift["lower"] for key, lift in lifts(api).items()}
    assert lower.pop("unbounded") < -1
    assert set(lower.values()) == {-1}


@pytest.mark.usefixtures("shop")
def test_lift__of_amounts_with_a_refund_that_leaves_a_user_below_0__has_no_such_end(
    api: Any, production: Environment
) -> None:
    do(production, [1], "buy", amount=-1, revenue=-1, currency="EUR")
    assert [key for key, lift in lifts(api).items() if lift["lower"] < -1] == ["unbounded"]
    do(production, [1], "buy", amount=-5, revenue=-5, currency="EUR")
    lower = {key: lift["lower"] for key, lift in lifts(api).items()}
    assert {key for key, bound in lower.items() if bound == -1} == {"errors", "bounded"}
    assert all(bound < -1 for key, bound in lower.items() if key not in ("errors", "bounded"))
