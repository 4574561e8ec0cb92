"""The snapshot: it follows commits, applies only new changes, and never shows rolled back ones."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.db import OperationalError, transaction

from config import signal_file, snapshot
from config.keys.api_keys import create_key, digest, live_keys, revoke_key
from config.keys.environments import create_environment, known
from config.models import Change, Environment, Scope
from flags.changes.flag_changes import create_flag
from flags.models import Flag
from flags.snapshot import configuration
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
    assert "b" in configuration("production").flags


def test_follow__change_that_only_the_caller_has_heard_of__is_looked_for(
    monkeypatch, django_assert_num_queries
) -> None:
    snapshot.refresh()
    monkeypatch.setattr(signal_file, "poke", lambda: None)  # as if another host had made it just now
    make_flag("a", enabled=True)
    revision = Change.objects.latest_revision()

    with django_assert_num_queries(0):
        snapshot.catch_up_to(revision - 1)
    assert "a" not in configuration("production").flags
    with django_assert_num_queries(1):
        snapshot.catch_up_to(revision)
    assert configuration("production").flags["a"].enabled
    with django_assert_num_queries(0):
        snapshot.catch_up_to(revision)


def test_follow__revision_that_there_is_not__is_looked_for_once_a_second_and_leaves_all_as_it_was(
    monkeypatch, django_assert_num_queries
) -> None:
    make_flag("a", enabled=True)
    snapshot.refresh()
    before, now = configuration("production"), 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    with django_assert_num_queries(1):
        for heard in (10**9, 10**9, 10**18 - 1):
            snapshot.catch_up_to(heard)
    now += snapshot.SECONDS_BETWEEN_VAIN_READS
    with django_assert_num_queries(1):
        snapshot.catch_up_to(10**9)
    assert configuration("production") is before


def test_follow__while_the_database_is_away__goes_on_with_what_is_known(monkeypatch, caplog) -> None:
    make_flag("a", enabled=True)
    snapshot.refresh()
    before = configuration("production")

    def fail(*_: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(Change.objects, "since", fail)
    for _ in range(3):
        snapshot.catch_up_to(10**9)
    assert configuration("production") is before
    assert caplog.text.count("Cannot look") == 1


def test_refresh__rolled_back_change__is_never_seen() -> None:
    snapshot.refresh()
    signal = signal_file.read()
    with pytest.raises(RuntimeError, match="no"):
        make_flag_and_roll_back("ghost")
    snapshot.refresh()

    assert "ghost" not in configuration("production").flags
    assert signal_file.read() == signal


def test_refresh__key_created_and_revoked__is_followed() -> None:
    snapshot.refresh()
    production = Environment.objects.default()
    key, secret = create_key(name="app", environment=production, scope=Scope.CLIENT, actor=ACTOR, at=NOON)
    snapshot.refresh()
    assert live_keys.state[digest(secret)].id == str(key.pk)

    revoke_key(key, actor=ACTOR, at=NOON)
    snapshot.refresh()
    assert digest(secret) not in live_keys.state


def test_refresh__environment_created__has_every_flag_switched_off() -> None:
    make_flag("a", enabled=True, rules=HALF)
    snapshot.refresh()
    create_environment(key="test", name="Test", actor=ACTOR, at=NOON)
    snapshot.refresh()

    flag = configuration("test").flags["a"]
    assert set(known.state.by_key) == {"production", "staging", "test"}
    assert (flag.enabled, flag.rules) == (False, ())
