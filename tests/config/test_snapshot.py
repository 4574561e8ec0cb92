"""The snapshot: it follows what was committed, applies only what is new, and never shows what was rolled back."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db import transaction

from config import signal_file, snapshot
from config.api_keys import create_key, digest, live_keys, revoke_key
from config.environments import create_environment, known
from config.models import Environment, Scope
from flags import snapshot as flag_snapshot
from flags.changes import create_flag, delete_flag, update_flag
from flags.models import Flag
from tests.conftest import ACTOR, NOON

HALF = [{"type": "percentage", "percentage": 50}]

pytestmark = pytest.mark.django_db(transaction=True)


def make_flag(key: str, **values: Any) -> Flag:
    return create_flag(key=key, environment=Environment.objects.default(), actor=ACTOR, at=NOON, **values)


@transaction.atomic
def make_flag_and_roll_back(key: str) -> None:
    make_flag(key, enabled=True)
    raise RuntimeError("no")


def test_refresh__nothing_changed__asks_the_database_nothing(django_assert_num_queries) -> None:
    snapshot.refresh()

    with django_assert_num_queries(0):
        snapshot.refresh()


def test_refresh__one_flag_changed__reads_only_that_change(django_assert_num_queries) -> None:
    make_flag("a", enabled=True)
    snapshot.refresh()
    make_flag("b", enabled=True)

    with django_assert_num_queries(1):
        snapshot.refresh()
    assert flag_snapshot.find("production", "b") is not None


def test_refresh__rolled_back_change__is_never_seen() -> None:
    snapshot.refresh()
    signal = signal_file.read()
    with pytest.raises(RuntimeError, match="no"):
        make_flag_and_roll_back("ghost")
    snapshot.refresh()

    assert flag_snapshot.find("production", "ghost") is None
    assert signal_file.read() == signal


def test_refresh__key_created_and_revoked__is_followed() -> None:
    snapshot.refresh()
    production = Environment.objects.default()
    key, secret = create_key(name="app", environment=production, scope=Scope.CLIENT, actor=ACTOR, at=NOON)
    snapshot.refresh()
    assert live_keys.state[digest(secret)].pk == key.pk

    revoke_key(key, actor=ACTOR, at=NOON)
    snapshot.refresh()
    assert digest(secret) not in live_keys.state


def test_refresh__environment_created__has_every_flag_switched_off() -> None:
    make_flag("a", enabled=True, rules=HALF)
    snapshot.refresh()
    create_environment(key="test", name="Test", actor=ACTOR, at=NOON)
    snapshot.refresh()

    flag = flag_snapshot.find("test", "a")
    assert set(known.state.by_key) == {"production", "staging", "test"}
    assert flag is not None
    assert (flag.enabled, flag.rules) == (False, ())


def test_find__flag_that_does_not_exist__is_none_in_every_environment() -> None:
    assert flag_snapshot.find("production", "nothing") is None
    assert flag_snapshot.find("nowhere", "nothing") is None


def test_apply__many_random_changes__ends_where_a_fresh_start_does() -> None:
    chance = random.Random(11)
    environments = list(Environment.objects.all())
    keys = [f"flag-{at}" for at in range(12)]
    snapshot.refresh()
    for _ in range(150):
        key, environment = chance.choice(keys), chance.choice(environments)
        change_at_random(chance, key, environment)
        if chance.random() < 0.3:
            snapshot.refresh()
    snapshot.refresh()

    followed = summary()
    snapshot.forget()
    snapshot.refresh()
    assert followed == summary()
    assert len(followed) > len(environments)


def change_at_random(chance: random.Random, key: str, environment: Environment) -> None:
    who = {"key": key, "environment": environment, "actor": ACTOR, "at": NOON}
    rules = [{"type": "percentage", "percentage": chance.randrange(101)} for _ in range(chance.randrange(3))]
    if not Flag.objects.filter(key=key).exists():
        create_flag(**who, enabled=chance.random() < 0.5, rules=rules)
    elif chance.random() < 0.2:
        for each in Environment.objects.all():
            update_flag(**{**who, "environment": each}, changes={"enabled": False})
        delete_flag(**who)
    else:
        update_flag(**who, changes={"enabled": chance.random() < 0.5, "rules": rules})


def summary() -> dict[tuple[str, str], tuple[bool, list[int]]]:
    return {
        (environment, key): (flag.enabled, [rule.threshold for rule in flag.rules])
        for environment, flags in flag_snapshot.compiled.state.items()
        for key, flag in flags.items()
    }
