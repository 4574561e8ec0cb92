"""A world to attack: flags, segments, a draft and a running experiment in production, and a key that may do everything.

`child` needs the flag `base`, whose variant `b` it asks for, and the segment `used`; `archived` had no description in
revision 3, and `base` no variant in revision 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from config.access.api_keys import create_key
from config.models import ApiKey, Change, Environment, Scope
from events.models import Event
from experiments.lifecycle.changes import create_experiment, start_experiment
from experiments.metrics.changes import create_metric
from experiments.models import Exposure
from flags.changes.flag_changes import archive_flag, create_flag, update_flag
from flags.changes.segment_changes import create_segment
from tests.conftest import ACTOR, NOON
from tests.transactions import rolled_back

VALUES = [{"key": "a", "value": "A"}, {"key": "b", "value": "B"}]


_CHANGES, _KEYS, _EVENTS, _EXPOSED = (model._meta.db_table for model in (Change, ApiKey, Event, Exposure))
_COUNTS = (
    f"SELECT (SELECT MAX(revision) FROM {_CHANGES}), (SELECT COUNT(*) FROM {_KEYS}), (SELECT COUNT(*) FROM {_EVENTS})"
)
_EXPOSURE = f"SELECT experiment_id, user_id, variant FROM {_EXPOSED} ORDER BY experiment_id, user_id"


class World(NamedTuple):
    """The secret of the key, and a look at all that a request could have left behind."""

    key: str

    def stored(self) -> tuple[Any, ...]:
        with connection.cursor() as cursor:  # as thousands of requests are followed by a look
            cursor.execute(_COUNTS)
            counts = cursor.fetchone()
            cursor.execute(_EXPOSURE)
            return (counts, cursor.fetchall())


@pytest.fixture(scope="module")
def world_of_the_module(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[World]:
    with rolled_back(django_db_blocker):
        yield _build()


@pytest.fixture
def world(world_of_the_module: World, db: None) -> World:
    return world_of_the_module


def _build() -> World:
    common = {"environment": Environment.objects.get(key="production"), "actor": ACTOR, "now": NOON}
    create_flag(key="archived", **common)
    update_flag(key="archived", changes={"description": "Old"}, **common)
    archive_flag(key="archived", **common)
    create_flag(key="base", **common)
    update_flag(key="base", changes={"type": "string", "variants": VALUES}, **common)
    create_segment(key="used", user_ids=["v"], actor=ACTOR, now=NOON)
    create_segment(key="listed", user_ids=["v"], actor=ACTOR, now=NOON)
    create_metric(key="defined", type="revenue", event="buy", currency="EUR", actor=ACTOR, now=NOON)
    needs = {"prerequisites": [{"flag": "base", "variants": ["b"]}], "rules": [{"type": "segment", "segment": "used"}]}
    create_flag(key="child", **needs, **common)
    _, secret = create_key(name="attacker", scope=Scope.MANAGE, common=True, **common)
    create_flag(key="known", enabled=False, **common)
    variants = [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]
    for key in ("draft", "running"):
        create_experiment(key=key, variants=variants, metrics=["buy"], **common)
    start_experiment(key="running", **common)
    return World(secret)
