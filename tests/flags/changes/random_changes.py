"""Random changes of every kind from a fixed seed. The domain refuses many of them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random
from typing import Any

from config.access.environments import create_environment
from config.change_log.writing import writing
from config.errors import DomainError
from config.models import Change, Environment
from flags.changes import segment_changes
from flags.changes.experiment_rules import put_rule, remove_rule
from flags.changes.flag_changes import (
    archive_flag,
    create_flag,
    delete_flag,
    get_flag,
    restore_flag,
    update_flag,
)
from flags.changes.reversion import revert_flag, revert_segment
from flags.changes.segment_changes import create_segment, delete_segment, update_segment
from tests.conftest import ACTOR, NOON

FLAGS = [f"flag-{at}" for at in range(15)]
SEGMENTS = [f"segment-{at}" for at in range(8)]
VARIANTS = [{"key": key, "value": key.upper()} for key in ("blue", "green", "red")]


class RandomChanges:
    """Each call of `make` tries one change. `made` counts the accepted ones."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.made: Counter[str] = Counter()
        self.at = NOON + timedelta(days=1000)  # after the environments of the database were made

    def make(self) -> None:
        kinds = {
            self.update_flag: 30,
            self.create_flag: 10,
            self.revert_flag: 4,
            self.archive_flag: 4,
            self.restore_flag: 4,
            self.delete_flag: 5,
            self.update_segment: 12,
            self.change_members: 4,
            self.revert_segment: 4,
            self.create_segment: 8,
            self.delete_segment: 4,
            self.create_environment: 1,
            self.drive_flag: 2,
            self.leave_flag: 4,
        }
        [change] = self.chance.choices(list(kinds), list(kinds.values()))
        self.at += timedelta(minutes=1)
        try:
            change()
        except DomainError:
            return
        self.made[change.__name__] += 1

    def create_flag(self) -> None:
        create_flag(**self._flag(), **self._values())

    def update_flag(self) -> None:
        values = self._values()
        names = self.chance.sample(list(values), k=self.chance.randrange(1, 4))
        update_flag(**self._flag(), changes={name: values[name] for name in names})

    def revert_flag(self) -> None:
        flag = self._flag()
        revisions = list(Change.objects.of_key("flag", flag["key"]).values_list("revision", flat=True))
        revert_flag(**flag, revision=self.chance.choice(revisions or [0]))

    def archive_flag(self) -> None:
        archive_flag(**self._flag())

    def restore_flag(self) -> None:
        restore_flag(**self._flag())

    def delete_flag(self) -> None:
        delete_flag(**self._flag())

    def drive_flag(self) -> None:
        flag, chance = self._flag(), self.chance
        served: list[Any] = [variant["key"] for variant in get_flag(flag["key"], flag["environment"]).variants]
        variants = [{"key": key, "weight": 1, "serves": chance.choice(served or [True, False])} for key in "ab"]
        rule = {"type": "experiment", "experiment": chance.choice("xy"), "variants": variants}
        with writing(actor=ACTOR, now=self.at) as log:
            put_rule(log, key=flag["key"], environment=flag["environment"], rule=rule)

    def leave_flag(self) -> None:
        flag = self._flag()
        with writing(actor=ACTOR, now=self.at) as log:
            remove_rule(log, key=flag["key"], environment=flag["environment"], experiment=self.chance.choice("xy"))

    def create_segment(self) -> None:
        create_segment(**self._segment(), **self._members())

    def update_segment(self) -> None:
        update_segment(**self._segment(), changes=self._members())

    def change_members(self) -> None:
        users = self.chance.sample([f"u{at}" for at in range(10)], k=self.chance.randrange(1, 6))
        cut = self.chance.randrange(len(users) + 1)
        segment_changes.change_members(**self._segment(), add=users[:cut], remove=users[cut:])

    def revert_segment(self) -> None:
        segment = self._segment()
        revisions = list(Change.objects.of_key("segment", segment["key"]).values_list("revision", flat=True))
        revert_segment(**segment, revision=self.chance.choice(revisions or [0]))

    def delete_segment(self) -> None:
        delete_segment(**self._segment())

    def create_environment(self) -> None:
        create_environment(key=f"environment-{self.chance.randrange(6)}", name="E", actor=ACTOR, now=self.at)

    def _flag(self) -> dict[str, Any]:
        environments = list(Environment.objects.all())  # the default one first
        [environment] = self.chance.choices(environments, [len(environments)] + [1] * (len(environments) - 1))
        return {"key": self.chance.choice(FLAGS), "environment": environment, "actor": ACTOR, "now": self.at}

    def _segment(self) -> dict[str, Any]:
        return {"key": self.chance.choice(SEGMENTS), "actor": ACTOR, "now": self.at}

    def _values(self) -> dict[str, Any]:
        chance = self.chance
        has_variants = chance.random() < 0.5
        needed = chance.sample(FLAGS, k=chance.choice([0, 0, 0, 0, 0, 1, 1, 2]))
        wanted = {"variants": [chance.choice(VARIANTS)["key"]]} if chance.random() < 0.3 else {}
        return {
            "description": chance.choice(["", "A", "B"]),
            "enabled": chance.random() < 0.75,
            "rules": [self._rule() for _ in range(chance.randrange(3))],
            "type": "string" if has_variants else None,
            "variants": chance.sample(VARIANTS, k=chance.randrange(1, 4)) if has_variants else None,
            "prerequisites": [{"flag": key, **wanted} for key in needed],
            "tags": chance.sample(["a", "b", "c"], k=chance.randrange(3)),
        }

    def _rule(self) -> dict[str, Any]:
        chance = self.chance
        rule: dict[str, Any] = chance.choice(
            [
                {"type": "percentage", "percentage": chance.randrange(101)},
                {"type": "segment", "segment": chance.choice(SEGMENTS)},
                {"type": "attribute", "conditions": [self._condition()]},
            ]
        )
        return {**rule, "variant": chance.choice(VARIANTS)["key"]} if chance.random() < 0.1 else rule

    def _condition(self) -> dict[str, Any]:
        if self.chance.random() < 0.4:
            return {"operator": "inSegment", "value": self.chance.choice(SEGMENTS)}
        return {"attribute": "n", "operator": "greaterThan", "value": self.chance.randrange(5)}

    def _members(self) -> dict[str, Any]:
        users = [f"u{at}" for at in range(10)]
        return {
            "conditions": [self._condition() for _ in range(self.chance.randrange(2))],
            "user_ids": self.chance.sample(users, k=self.chance.randrange(6)),
        }
