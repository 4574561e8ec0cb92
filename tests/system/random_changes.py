"""Configuration changed at random over the API: flags with all that they may have, segments, in
both environments.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from tests.system.server import Server

FLAGS = [f"flag-{at}" for at in range(10)]
SEGMENTS = [f"segment-{at}" for at in range(4)]
PLANS = ("free", "pro", "team")
USERS: list[Mapping[str, Any]] = [
    {"userId": "ada", "attributes": {"plan": "pro"}},
    {"userId": "grace", "attributes": {"plan": "free"}},
    {"userId": "edsger", "attributes": {"plan": "team"}},
    {"userId": "linus"},
]
VARIANTS = [{"key": "one", "value": "1"}, {"key": "two", "value": "2"}, {"key": "three", "value": "3"}]


class RandomChanges:
    """The same ones in each run, for a seed. What the service refuses is part of it; `done` counts
    what it does not.
    """

    def __init__(self, server: Server, seed: int) -> None:
        self.chance = random.Random(seed)
        self.server = server
        self.keys = [keys["manage"] for _, keys in sorted(server.keys.items())]
        self.done: Counter[str] = Counter()
        self.operations: dict[Callable[[], httpx.Response], int] = {
            self.create_flag: 4,
            self.switch: 6,
            self.give_rules: 8,
            self.give_variants: 2,
            self.give_prerequisites: 2,
            self.archive: 2,
            self.restore: 2,
            self.revert: 2,
            self.delete_flag: 2,
            self.create_segment: 2,
            self.change_segment: 4,
            self.delete_segment: 2,
        }
        """The possible changes, and their relative frequency."""

    def make_one(self) -> None:
        [operation] = self.chance.choices([*self.operations], [*self.operations.values()])
        response = operation()
        assert response.status_code < 500, response.text
        if response.is_success:
            self.done[operation.__name__] += 1
        else:
            assert response.json()["error"]["code"] in _EXPECTED, response.text

    def ask(self, method: str, path: str, document: Any = None) -> httpx.Response:
        return self.server.ask(method, path, key=self.chance.choice(self.keys), json=document)

    # flags

    def create_flag(self) -> httpx.Response:
        flag = {"key": self.chance.choice(FLAGS), "enabled": self.chance.random() < 0.5, "rules": self.rules()}
        return self.ask("POST", "/v1/flags", flag)

    def change_flag(self, **values: Any) -> httpx.Response:
        return self.ask("PATCH", f"/v1/flags/{self.chance.choice(FLAGS)}", values)

    def switch(self) -> httpx.Response:
        return self.change_flag(enabled=self.chance.random() < 0.6)

    def give_rules(self) -> httpx.Response:
        return self.change_flag(rules=self.rules())

    def give_variants(self) -> httpx.Response:
        return self.change_flag(type="string", variants=VARIANTS[: self.chance.randrange(1, 4)])

    def give_prerequisites(self) -> httpx.Response:
        needed = self.chance.sample(FLAGS, self.chance.randrange(3))
        return self.change_flag(prerequisites=[{"flag": key} for key in needed])

    def archive(self) -> httpx.Response:
        return self.ask("POST", f"/v1/flags/{self.chance.choice(FLAGS)}/archive")

    def restore(self) -> httpx.Response:
        return self.ask("POST", f"/v1/flags/{self.chance.choice(FLAGS)}/restore")

    def revert(self) -> httpx.Response:
        path = f"/v1/flags/{self.chance.choice(FLAGS)}"
        history = self.ask("GET", f"{path}/history")
        if not history.is_success:
            return history
        return self.ask("POST", f"{path}/revert", {"revision": self.chance.choice(history.json()["data"])["revision"]})

    def delete_flag(self) -> httpx.Response:
        return self.ask("DELETE", f"/v1/flags/{self.chance.choice(FLAGS)}")

    def rules(self) -> list[Any]:
        kinds = (
            {"type": "percentage", "percentage": self.chance.randrange(101)},
            {"type": "users", "userIds": ["ada", "linus"], "percentage": self.chance.randrange(101)},
            {"type": "attribute", "conditions": [self.condition()]},
            {"type": "segment", "segment": self.chance.choice(SEGMENTS)},
            {"type": "percentage", "percentage": 90, "variant": self.chance.choice(VARIANTS)["key"]},
        )
        return [self.chance.choice(kinds) for _ in range(self.chance.randrange(4))]

    # segments

    def create_segment(self) -> httpx.Response:
        return self.ask("POST", "/v1/segments", {"key": self.chance.choice(SEGMENTS), **self.members()})

    def change_segment(self) -> httpx.Response:
        return self.ask("PATCH", f"/v1/segments/{self.chance.choice(SEGMENTS)}", self.members())

    def delete_segment(self) -> httpx.Response:
        return self.ask("DELETE", f"/v1/segments/{self.chance.choice(SEGMENTS)}")

    def members(self) -> dict[str, Any]:
        listed = [user["userId"] for user in self.chance.sample(USERS, self.chance.randrange(3))]
        return {"userIds": listed, "conditions": [self.condition() for _ in range(self.chance.randrange(2))]}

    def condition(self) -> dict[str, Any]:
        if self.chance.random() < 0.3:
            return {"operator": "inSegment", "value": self.chance.choice(SEGMENTS)}
        return {"attribute": "plan", "operator": "equals", "value": self.chance.choice(PLANS)}


_EXPECTED = {"already_exists", "flag_not_found", "not_found", "validation_failed", "in_use", "enabled_elsewhere"}
"""No flag or segment of this key, or one already; one that something else needs, or that needs what
is not there.
"""
