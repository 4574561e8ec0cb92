"""Helpers that ask the planner over HTTP, ten days after the first users came."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from experiments.exposures.recording import assign
from tests.answers import data, error
from tests.conftest import NOON

PATH = "/v1/planner"
DAY = timedelta(days=1)
NOW = NOON + 10 * DAY


def ask(api: Any, **parameters: Any) -> Any:
    return data(api.get(PATH, {"mde": "0.05", **parameters}))


def refused(api: Any, **parameters: Any) -> tuple[str, str, str]:
    """Return the only detail of a refusal."""
    [detail] = error(api.get(PATH, {"mde": "0.05", "baseline": "0.1", **parameters}), 400, "invalid_parameter")[
        "details"
    ]
    return detail["field"], detail["code"], detail["message"]


def expose(experiment: Any, users: int, *, at: Any, first: int = 0) -> None:
    """Assign users in turn to control and green."""
    for number in range(first, first + users):
        assign(experiment.pk, f"user-{number}", ("control", "green")[number % 2], at)
