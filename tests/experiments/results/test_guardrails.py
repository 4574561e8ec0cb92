"""Guardrails in results: a winner is not shipped until they are shown to be safe."""

from __future__ import annotations

from typing import Any

import pytest

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.metrics.changes import create_metric
from tests.conftest import ACTOR, NOON
from tests.experiments.results.asking import ask
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

USERS = 400


def open_shop(environment: Environment, numbers: dict[str, tuple[int, int]], **margin: Any) -> None:
    """Expose 400 users to each variant. Of control and green, so many have each event."""
    create_metric(key="calls", type="conversion", event="call", role="guardrail", actor=ACTOR, now=NOON, **margin)
    design = {"metrics": ["purchase", "calls"], "minimum_days": 0, "lookback_days": 0}
    ExperimentFactory(key="shop", environment=environment, running=True, **design)
    events = []
    for index, variant in enumerate(("control", "green")):
        for number in range(USERS):
            user, report = f"{variant}-{number}", {"experimentId": "shop", "variant": variant}
            events.append(NewEvent(new_id(), user, "exposed", NOON, NOON, report))
            names = (name for name, counts in numbers.items() if number < counts[index])
            events += [NewEvent(new_id(), user, name, NOON, NOON, {}) for name in names]
    record(events, environment)


def guardrail(answer: Any) -> Any:
    return answer["metrics"][1]["variants"][1]["comparison"]["guardrail"]


def test_verdict__guardrail_without_power__keeps_running_and_says_how_many_users_it_needs(
    api: Any, production: Environment
) -> None:
    open_shop(production, {"purchase": (200, 290), "call": (12, 6)})
    answer = ask(api)
    assert answer["verdict"]["decision"] == "keep_running"
    [reason] = [reason for reason in answer["verdict"]["reasons"] if reason["code"] == "guardrail_undecided"]
    found = guardrail(answer)
    assert "calls" in reason["message"]
    assert f"{found['usersNeeded']:,} more users" in reason["message"]
    assert found["status"] == "undecided"
    assert found["margin"] == {"relative": 0.1, "absolute": pytest.approx(0.1 * 12 / USERS)}


def test_verdict__guardrail_within_its_margin__ships(api: Any, production: Environment) -> None:
    open_shop(production, {"purchase": (200, 290), "call": (14, 8)}, margin_absolute=0.1)
    answer = ask(api)
    assert (guardrail(answer)["status"], answer["verdict"]["decision"]) == ("safe", "ship")


def test_verdict__guardrail_that_falls__does_not_ship(api: Any, production: Environment) -> None:
    open_shop(production, {"purchase": (200, 290), "call": (200, 60)})
    answer = ask(api)
    assert (guardrail(answer)["status"], answer["verdict"]["decision"]) == ("harmed", "do_not_ship")


def test_verdict__guardrail_without_an_event__is_silent_and_ships(api: Any, production: Environment) -> None:
    open_shop(production, {"purchase": (200, 290)})
    answer = ask(api)
    assert (guardrail(answer)["status"], answer["verdict"]["decision"]) == ("silent", "ship")
    assert [metric["neverReceived"] for metric in answer["metrics"]] == [[], ["call"]]


def test_verdict__of_a_goal__has_no_guardrail(api: Any, production: Environment) -> None:
    open_shop(production, {"purchase": (200, 290)})
    assert ask(api)["metrics"][0]["variants"][1]["comparison"]["guardrail"] is None
