"""The follower publishes each change and each scheduled change of the environments that it concerns."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.db import connection as database

from config import snapshot
from config.access.api_keys import create_key, revoke_key
from config.access.environments import create_environment
from config.models import Change, Environment, Scope
from config.snapshot import signal_file
from flags.changes.flag_changes import create_flag, update_flag
from flags.changes.segment_changes import create_segment
from flags.ofrep import stream_follower as module
from flags.ofrep.stream_follower import Follower, Status
from flags.ofrep.stream_messages import EnvironmentStatus
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
WRITE = {"actor": ACTOR, "now": NOON}


class Published:
    """A follower, and the statuses that it published."""

    def __init__(self) -> None:
        self.statuses: list[Status] = []
        self.follower = Follower(self.statuses.append)

    def poll(self, at: datetime = NOON) -> Status | None:
        """Return the status that a poll publishes, if any."""
        signal_file.signal_change()
        return self.look_without_a_signal(at)

    def look_without_a_signal(self, at: datetime) -> Status | None:
        before = len(self.statuses)
        self.follower.poll(at)
        assert len(self.statuses) <= before + 1
        return self.statuses[-1] if len(self.statuses) > before else None


@pytest.fixture
def published(db: None) -> Published:
    made = Published()
    assert made.poll() is not None
    return made


def make_flag(environment: Environment, **values: Any) -> None:
    create_flag(key="flag", environment=environment, **{"enabled": True, **values}, **WRITE)


def revision() -> int:
    return Change.objects.latest_revision()


def newest(moment: datetime | None = None) -> EnvironmentStatus:
    """Return the status after the newest change, with the time of the change log, which never goes back."""
    return EnvironmentStatus(revision(), Change.objects.get(revision=revision()).at, moment)


def test_poll__nothing_has_changed__publishes_nothing(published: Published) -> None:
    assert published.poll() is None
    assert published.poll(NOON + timedelta(days=400)) is None


def test_poll__new_database__publishes_every_environment() -> None:
    status = Published().poll()
    assert status is not None
    assert set(status.environments) == {"production", "staging"}


def test_poll__flag_created__publishes_every_environment_with_revision_and_moment(
    published: Published, production: Environment
) -> None:
    make_flag(production)
    status = published.poll()
    assert status is not None
    assert status.environments["production"] == status.environments["staging"] == newest()


def test_poll__flag_switched__publishes_only_its_environment(
    published: Published, production: Environment, staging: Environment
) -> None:
    make_flag(production)
    before = published.poll()
    update_flag(key="flag", environment=staging, changes={"enabled": True}, **WRITE)
    status = published.poll()
    assert before is not None
    assert status is not None
    assert status.environments["staging"] == newest()
    assert status.environments["production"] == before.environments["production"]


def test_poll__segment_created__publishes_every_environment(published: Published) -> None:
    create_segment(key="bakers", user_ids=["ada"], **WRITE)
    status = published.poll()
    assert status is not None
    assert {environment.revision for environment in status.environments.values()} == {revision()}


def test_poll__change_of_something_else__keeps_the_statuses(published: Published, production: Environment) -> None:
    create_key(name="shop", environment=production, scope=Scope.CLIENT, **WRITE)
    before, after = published.statuses[-1], published.poll()
    assert after is not None
    assert after.environments == before.environments


def test_poll__new_environment__is_published(published: Published) -> None:
    create_environment(key="qa", name="QA", **WRITE)
    status = published.poll()
    assert status is not None
    assert status.admits("", "qa")
    assert not status.admits("", "unknown")


def test_poll__clock_passes_scheduled_moments__publishes_each_once_without_a_signal(
    published: Published, production: Environment
) -> None:
    rule = {"type": "percentage", "percentage": 50, "startAt": "2026-01-31T12:00:10Z", "endAt": "2026-01-31T12:00:20Z"}
    make_flag(production, rules=[rule])
    status = published.poll()
    assert status is not None
    assert status.environments["production"].scheduled_at is None
    seen = []
    for seconds in range(30):
        if status := published.look_without_a_signal(NOON + seconds * SECOND):
            seen.append((seconds, status.environments["production"]))
    assert seen == [(seconds, newest(NOON + seconds * SECOND)) for seconds in (10, 20)]


def test_poll__key_made_and_revoked__admits_it_meanwhile(published: Published, production: Environment) -> None:
    key, _ = create_key(name="shop", environment=production, scope=Scope.CLIENT, **WRITE)
    status = published.poll()
    assert status is not None
    assert status.admits(str(key.pk), "production")
    assert not status.admits(str(key.pk), "staging")
    revoke_key(key, **WRITE)
    status = published.poll()
    assert status is not None
    assert not status.admits(str(key.pk), "production")


def test_poll__key_expires__is_published_by_the_clock_alone(published: Published, production: Environment) -> None:
    expiry = NOON + 10 * SECOND
    key, _ = create_key(name="shop", environment=production, scope=Scope.CLIENT, expires_at=expiry, **WRITE)
    published.poll()
    assert published.look_without_a_signal(expiry - SECOND) is None
    status = published.look_without_a_signal(expiry)
    assert status is not None
    assert not status.admits(str(key.pk), "production")


def test_poll__nothing_due__asks_the_database_for_nothing(
    published: Published, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(0):
        for seconds in range(100):
            published.look_without_a_signal(NOON + seconds * SECOND)


def test_poll__flag_switched__asks_for_the_changes_and_the_moment_of_the_newest(
    published: Published, production: Environment, django_assert_max_num_queries: Any
) -> None:
    make_flag(production)
    published.poll()
    update_flag(key="flag", environment=production, changes={"enabled": False}, **WRITE)
    with django_assert_max_num_queries(2):
        published.poll()


class Enough(BaseException):
    """Ends the endless loop."""


def test_follower__database_away_for_a_while__says_so_once_and_goes_on(
    published: Published, production: Environment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refresh, slept = snapshot.refresh, []

    def fail() -> None:
        raise OperationalError("gone")

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:
            monkeypatch.setattr(snapshot, "refresh", fail)
        elif len(slept) == 4:
            make_flag(production)
            signal_file.signal_change()
            monkeypatch.setattr(snapshot, "refresh", refresh)
        elif len(slept) == 6:
            raise Enough

    monkeypatch.setattr(module.time, "sleep", sleep)
    monkeypatch.setattr(database, "close", lambda: None)  # the test's own transaction is on it
    with caplog.at_level(logging.WARNING), pytest.raises(Enough):
        published.follower._follow()
    assert [record.getMessage() for record in caplog.records] == [
        "Event streams cannot follow changes, and keep trying: OperationalError('gone')",
        "Event streams follow changes again",
    ]
    assert published.statuses[-1].environments["production"].revision == revision()


def test_follower__connection_lost_but_database_there__says_nothing(
    published: Published, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[None] = []

    def fail_once() -> None:
        calls.append(None)
        if len(calls) == 1:
            raise OperationalError("terminating connection")
        if len(calls) == 3:
            raise Enough

    monkeypatch.setattr(snapshot, "refresh", fail_once)
    monkeypatch.setattr(database, "close", lambda: None)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    with pytest.raises(Enough):
        published.follower._follow()
    assert caplog.records == []
