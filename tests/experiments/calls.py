"""What the applications of an experiment do: ask for a variant, report one that was shown, track what users do."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from flags.engine.types import Configuration, Context
from tests.answers import data


def assign(client: Any, user: str, key: str = "e") -> str:
    assignment = data(client.post(f"/v1/experiments/{key}/variant", {"userId": user}))
    assert list(assignment) == ["variant", "experimentId"]
    return assignment["variant"]


def report(client: Any, user: str, variant: str, *, experiment: str = "e", **event: Any) -> str:
    properties = {"experimentId": experiment, "variant": variant}
    return track(client, user, **{"event": "exposed", "properties": properties, **event})


def track(client: Any, user: str, event: str = "purchase", **rest: Any) -> str:
    acknowledged = data(client.post("/v1/events", {"event": event, "userId": user, **rest}), 202)
    assert acknowledged["status"] == "accepted"
    return acknowledged["id"]


def asking(user: str, at: datetime, **attributes: Any) -> Context:
    """A user with an evaluated flag."""
    return Context(user, attributes, Configuration({}, {}), at)
