"""The snapshot follows commits, never shows rolled back ones, and stays as it is while the database is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from config import snapshot
from config.access.api_keys import create_key, digest, live_keys, revoke_key
from config.access.environments import create_environment, known_environments
from config.errors import DomainError, ErrorCode
from config.models import Change, Environment, Scope
from config.snapshot import freshness, signal_file, tables
from config.snapshot.tables import Lateness
from flags.changes.flag_changes import create_flag
from flags.models import Flag
from flags.snapshot import configuration
from tests.conftest import ACTOR, NOON

HALF = [{"type": "percentage", "percentage": 50}]

pytestmark = pytest.mark.django_db(transaction=True)


def make_flag(key: str, **values: Any) -> Flag:
    return create_flag(key=key, environment=Environment.objects.default(), actor=ACTOR, now=NOON, **values)


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
    monkeypatch.setattr(signal_file, "signal_change", lambda: None)  # as if another host had made it just now
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
    now += freshness.SECONDS_BETWEEN_TRIES
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


def break_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(Change.objects, "since", fail)


def test_refresh__database_away_after_a_change__goes_on_with_the_last_known_state(monkeypatch, caplog) -> None:
    make_flag("a", enabled=True)
    snapshot.refresh()
    make_flag("b", enabled=True)
    break_log(monkeypatch)
    for _ in range(3):
        snapshot.refresh()
    assert set(configuration("production").flags) == {"a"}
    assert snapshot.staleness() == 0
    assert caplog.text.count("go on with the last known one: away") == 1


def test_refresh__database_back_after_a_change__applies_it_and_is_no_longer_stale(monkeypatch) -> None:
    snapshot.refresh()
    make_flag("a", enabled=True)
    now = time.monotonic()
    with monkeypatch.context() as patch:
        break_log(patch)
        snapshot.refresh()
    snapshot.refresh()
    assert "a" not in configuration("production").flags  # it was tried less than a second ago
    monkeypatch.setattr(time, "monotonic", lambda: now + freshness.SECONDS_BETWEEN_TRIES + 1)
    snapshot.refresh()
    assert "a" in configuration("production").flags
    assert snapshot.staleness() is None


def test_refresh__nothing_loaded_and_the_database_away__raises(monkeypatch) -> None:
    def fail() -> None:
        raise OperationalError("away")

    monkeypatch.setattr(tables, "_newest_change", fail)
    with pytest.raises(OperationalError, match="away"):
        snapshot.refresh()


def test_staleness__database_away_for_long__counts_the_seconds(monkeypatch) -> None:
    snapshot.refresh()
    make_flag("a", enabled=True)
    break_log(monkeypatch)
    snapshot.refresh()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 90)
    assert snapshot.staleness() == 90


def test_require_current_keys__change_that_is_not_known__is_refused_until_it_is(monkeypatch) -> None:
    snapshot.refresh()
    snapshot.require_current_keys()
    make_flag("a", enabled=True)
    with monkeypatch.context() as patch:
        break_log(patch)
        snapshot.refresh()
        with pytest.raises(DomainError, match="newest configuration") as refused:
            snapshot.require_current_keys()
    assert refused.value.code is ErrorCode.UNAVAILABLE
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + freshness.SECONDS_BETWEEN_TRIES)
    snapshot.refresh()
    snapshot.require_current_keys()


def test_require_current_keys__database_away_without_a_change__leaves_it_to_the_database() -> None:
    snapshot.refresh()
    tables.current.lateness = Lateness.CUT_OFF
    snapshot.require_current_keys()


@pytest.fixture
def news() -> Iterator[tuple[freshness.News, list[int]]]:
    """What a follower tells, and a list that grows when it is woken. The follower is the test itself."""
    snapshot.refresh()
    woken: list[int] = []
    made = freshness.News(lambda: woken.append(1))
    freshness.wait_for(made)
    return made, woken


def test_refresh__followed__wakes_the_follower_and_waits_for_it(news) -> None:
    told, woken = news
    make_flag("a", enabled=True)

    def follow() -> None:
        while not woken:
            time.sleep(0.001)
        number = told.begin()
        tables.current.catch_up()
        told.succeed(number)
        connection.close()

    thread = threading.Thread(target=follow)
    thread.start()
    snapshot.refresh()
    thread.join()
    assert "a" in configuration("production").flags
    assert snapshot.staleness() is None


def test_refresh__follower_does_not_come_back__waits_once_and_then_no_more(news, monkeypatch) -> None:
    _, woken = news
    monkeypatch.setattr(freshness, "MAX_WAIT", 0.01)
    make_flag("a", enabled=True)
    snapshot.refresh()
    monkeypatch.setattr(freshness, "MAX_WAIT", 600)
    for _ in range(3):
        snapshot.refresh()
    assert len(woken) == 4  # the follower must know in any case
    assert "a" not in configuration("production").flags
    assert snapshot.staleness() is not None


def test_refresh__follower_answers_an_earlier_question__waits_for_its_own(news, monkeypatch) -> None:
    told, _ = news
    monkeypatch.setattr(freshness, "MAX_WAIT", 0.01)
    earlier = told.begin()
    make_flag("a", enabled=True)
    # The answer comes as soon as this request has asked, however busy the machine is.
    monkeypatch.setattr(told, "_wake_follower", lambda: told.succeed(earlier))
    snapshot.refresh()
    assert tables.current.lateness is Lateness.CUT_OFF


def test_refresh__large_change_announced__waits_no_longer(news, monkeypatch) -> None:
    told, _ = news
    monkeypatch.setattr(freshness, "MAX_WAIT", 600)
    make_flag("a", enabled=True)
    thread = threading.Timer(0.01, told.announce_large_change)
    thread.start()
    snapshot.refresh()
    thread.join()
    assert "a" not in configuration("production").flags
    assert snapshot.staleness() == 0


def test_require_current_keys__large_change_with_keys_applied__does_not_wait(news) -> None:
    told, _ = news
    make_flag("a", enabled=True)
    tables.current.seen_first = signal_file.read()
    told.announce_large_change()
    snapshot.require_current_keys()


def test_require_current_keys__change_during_a_large_one__waits_for_it(news) -> None:
    told, _ = news
    told.announce_large_change()
    signal_file.signal_change()

    def apply() -> None:
        tables.current.seen_first = signal_file.read()

    thread = threading.Timer(0.05, apply)
    thread.start()
    snapshot.require_current_keys()
    assert tables.current.seen_first == signal_file.read()
    thread.join()


def test_staleness__follower_has_not_looked_for_long__counts_the_seconds(news, monkeypatch) -> None:
    assert snapshot.staleness() is None
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 30)
    assert snapshot.staleness() == 30


def test_state__followed_but_never_loaded__is_unavailable() -> None:
    told = freshness.News(lambda: None)
    freshness.wait_for(told)
    told.fail(Lateness.CUT_OFF)
    assert snapshot.staleness() is None
    with pytest.raises(DomainError, match="has not read its configuration") as refused:
        configuration("production")
    assert refused.value.code is ErrorCode.UNAVAILABLE


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
    key, secret = create_key(name="app", environment=production, scope=Scope.CLIENT, actor=ACTOR, now=NOON)
    snapshot.refresh()
    assert live_keys.state[digest(secret)].id == str(key.pk)

    revoke_key(key, actor=ACTOR, now=NOON)
    snapshot.refresh()
    assert digest(secret) not in live_keys.state


def test_refresh__environment_created__has_every_flag_switched_off() -> None:
    make_flag("a", enabled=True, rules=HALF)
    snapshot.refresh()
    create_environment(key="test", name="Test", actor=ACTOR, now=NOON)
    snapshot.refresh()

    flag = configuration("test").flags["a"]
    assert set(known_environments.state.by_key) == {"production", "staging", "test"}
    assert (flag.enabled, flag.rules) == (False, ())
