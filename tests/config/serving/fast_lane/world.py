"""What the fast lane and Django are compared on: flags of every kind, experiments, users, and keys that work or not."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from config.access.api_keys import revoke_key
from config.models import Environment, Scope
from config.snapshot import signal_file
from experiments.exposures.assignment_cache import _Page, assignment_cache
from experiments.exposures.recording import assign
from experiments.lifecycle.changes import stop_experiment, update_experiment
from experiments.models import Experiment
from flags.changes.flag_changes import archive_flag
from flags.changes.segment_changes import create_segment
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory, KeyFactory

COLOURS = [{"key": "red", "value": "#f00"}, {"key": "blue", "value": "#00f"}]
NUMBERS = [{"key": "few", "value": 1}, {"key": "some", "value": 2.5}]
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
FLAGS: dict[str, dict[str, Any]] = {
    "known": {},
    "on": {"enabled": True},
    "half": {"enabled": True, "rules": [{"type": "percentage", "percentage": 50}]},
    "pro": {"enabled": True, "rules": [{"type": "attribute", "conditions": [PRO], "name": "Customers who pay"}]},
    "listed": {"enabled": True, "rules": [{"type": "segment", "segment": "some"}]},
    "colour": {"enabled": True, "type": "string", "variants": COLOURS,
               "rules": [{"type": "percentage", "percentage": 60, "split": [{"variant": "red", "weight": 1},
                                                                            {"variant": "blue", "weight": 2}]}]},
    "number": {"enabled": True, "type": "number", "variants": NUMBERS},
    "child": {"enabled": True, "prerequisites": [{"flag": "colour", "variants": ["red"]}]},
    "archived": {"enabled": True},
    "hidden": {"enabled": True, "client_visible": False},
    "below-hidden": {"enabled": True, "prerequisites": [{"flag": "hidden"}]},
    "driven": {"enabled": True},
    "below-driven": {"enabled": True, "prerequisites": [{"flag": "driven"}]},
}  # fmt: skip
EXPERIMENTS = ("running", "driving", "draft", "stopped", "won", "none")
EXPOSED = [f"exposed-{number}" for number in range(6)]
USERS = [*EXPOSED, "u", "v", "forced", "new-1", "new-2", "größe", "🙂", "a b"]


@dataclass
class World:
    """`keys` are the secrets of keys by what they are. `entries` are the variants that the process remembers."""

    keys: dict[str, str] = field(default_factory=dict)
    entries: dict[Any, str] = field(default_factory=dict)

    def remember_variants(self) -> None:
        """Fill the cache of variants, which stays empty within the transaction of a test."""
        assignment_cache._page = _Page(signal_file.read(), float("inf"), dict(self.entries))


def build() -> World:
    world = World()
    production = Environment.objects.get(key="production")
    create_segment(key="some", user_ids=["u", EXPOSED[0]], actor=ACTOR, now=NOON)
    for key, values in FLAGS.items():
        FlagFactory(key=key, **values)
    archive_flag(key="archived", environment=production, actor=ACTOR, now=NOON)
    _build_experiments(world, production)
    _build_keys(world, production)
    return world


def _build_experiments(world: World, production: Environment) -> None:
    common = {"environment": production, "actor": ACTOR, "now": NOON}
    running = ExperimentFactory(key="running", conditions=[PRO], running=True)
    serves = {"control": False, "green": True}
    driving = ExperimentFactory(key="driving", flag={"key": "driven", "serves": serves}, running=True)
    ExperimentFactory(key="draft")
    ExperimentFactory(key="stopped", stopped=True)
    ExperimentFactory(key="won", running=True)
    at = {**common, "now": NOON + timedelta(hours=1)}
    stop_experiment(key="won", winner="green", **{**at, "reason": "We like it."})
    update_experiment(key="running", changes={"forced_variants": {"forced": "green"}}, **common)
    for experiment in (running, driving):
        for user in EXPOSED:
            world.entries[experiment.pk, user] = assign(experiment.pk, user, "green", NOON)
    assert Experiment.objects.count() == len(EXPERIMENTS) - 1


def _build_keys(world: World, production: Environment) -> None:
    for scope in Scope:
        world.keys[scope.value] = KeyFactory(scope=scope, environment=production)[1]
    world.keys["staging"] = KeyFactory(scope=Scope.CLIENT, environment=Environment.objects.get(key="staging"))[1]
    soon = NOON + timedelta(days=1)
    world.keys["expired"] = KeyFactory(scope=Scope.CLIENT, expires_at=soon)[1]
    revoked, world.keys["revoked"] = KeyFactory(scope=Scope.CLIENT)
    revoke_key(revoked, actor=ACTOR, now=NOON)
