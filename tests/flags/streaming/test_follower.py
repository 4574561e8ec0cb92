"""Following the configuration: each change and each scheduled moment is told, of the environments that it bears on."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.db import connection as database

from config import signal_file, snapshot
from config.keys.api_keys import create_key, revoke_key
from config.keys.environments import create_environment
from config.models import Change, Environment, Scope
from flags.changes.flag_changes import create_flag, update_flag
from flags.changes.segment_changes import create_segment
from flags.streaming import follower as module
from flags.streaming.follower import Follower, Outlook
from flags.streaming.messages import News
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
WRITE = {"actor": ACTOR, "at": NOON}


class Told:
    """A follower, and what it told."""

    def __init__(self) -> None:
        self.outlooks: list[Outlook] = []
        self.follower = Follower(self.outlooks.append)

    def look(self, at: datetime = NOON) -> Outlook | None:
        """What is told of what was committed since."""
        signal_file.poke()
        return self.look_without_a_signal(at)

    def look_without_a_signal(self, at: datetime) -> Outlook | None:
        before = len(self.outlooks)
        self.follower.look(at)
        assert len(self.outlooks) <= before + 1
        return self.outlooks[-1] if len(self.outlooks) > before else None


@pytest.fixture
def told(db: None) -> Told:
    made = Told()
    assert made.look() is not None
    return made


def make_flag(environment: Environment, **values: Any) -> None:
    create_flag(key="flag", environment=environment, **{"enabled": True, **values}, **WRITE)


def revision() -> int:
    return Change.objects.latest_revision()


def newest(moment: datetime | None = None) -> News:
    """What there is to tell where the newest change bears. Its time is that of the log, which never goes back."""
    return News(revision(), Change.objects.get(revision=revision()).at, moment)


def test_look__nothing_has_changed__tells_nothing(told: Told) -> None:
    assert told.look() is None
    assert told.look(NOON + timedelta(days=400)) is None


def test_look__new_database__tells_of_every_environment() -> None:
    outlook = Told().look()
    assert outlook is not None
    assert set(outlook.news) == {"production", "staging"}


def test_look__flag_created__tells_every_environment_with_revision_and_moment(
    told: Told, production: Environment
) -> None:
    make_flag(production)
    outlook = told.look()
    assert outlook is not None
    assert outlook.news["production"] == outlook.news["staging"] == newest()


def test_look__flag_switched__tells_only_its_environment(
    told: Told, production: Environment, staging: Environment
) -> None:
    make_flag(production)
    before = told.look()
    update_flag(key="flag", environment=staging, changes={"enabled": True}, **WRITE)
    outlook = told.look()
    assert before is not None
    assert outlook is not None
    assert outlook.news["staging"] == newest()
    assert outlook.news["production"] == before.news["production"]


def test_look__segment_created__tells_every_environment(told: Told) -> None:
    create_segment(key="bakers", user_ids=["ada"], **WRITE)
    outlook = told.look()
    assert outlook is not None
    assert {news.revision for news in outlook.news.values()} == {revision()}


def test_look__change_of_something_else__tells_no_news(told: Told, production: Environment) -> None:
    create_key(name="shop", environment=production, scope=Scope.CLIENT, **WRITE)
    before, after = told.outlooks[-1], told.look()
    assert after is not None
    assert after.news == before.news


def test_look__new_environment__is_told_of(told: Told) -> None:
    create_environment(key="qa", name="QA", **WRITE)
    outlook = told.look()
    assert outlook is not None
    assert outlook.admits("", "qa")
    assert not outlook.admits("", "unknown")


def test_look__clock_passes_scheduled_moments__tells_of_each_once_without_a_signal(
    told: Told, production: Environment
) -> None:
    rule = {"type": "percentage", "percentage": 50, "startAt": "2026-01-31T12:00:10Z", "endAt": "2026-01-31T12:00:20Z"}
    make_flag(production, rules=[rule])
    outlook = told.look()
    assert outlook is not None
    assert outlook.news["production"].moment is None
    heard = []
    for seconds in range(30):
        if outlook := told.look_without_a_signal(NOON + seconds * SECOND):
            heard.append((seconds, outlook.news["production"]))
    assert heard == [(seconds, newest(NOON + seconds * SECOND)) for seconds in (10, 20)]


def test_look__key_made_and_revoked__admits_it_meanwhile(told: Told, production: Environment) -> None:
    key, _ = create_key(name="shop", environment=production, scope=Scope.CLIENT, **WRITE)
    outlook = told.look()
    assert outlook is not None
    assert outlook.admits(str(key.pk), "production")
    assert not outlook.admits(str(key.pk), "staging")
    revoke_key(key, **WRITE)
    outlook = told.look()
    assert outlook is not None
    assert not outlook.admits(str(key.pk), "production")


def test_look__key_expires__is_told_by_the_clock_alone(told: Told, production: Environment) -> None:
    expiry = NOON + 10 * SECOND
    key, _ = create_key(name="shop", environment=production, scope=Scope.CLIENT, expires_at=expiry, **WRITE)
    told.look()
    assert told.look_without_a_signal(expiry - SECOND) is None
    outlook = told.look_without_a_signal(expiry)
    assert outlook is not None
    assert not outlook.admits(str(key.pk), "production")


def test_look__nothing_due__asks_the_database_for_nothing(told: Told, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        for seconds in range(100):
            told.look_without_a_signal(NOON + seconds * SECOND)


def test_look__flag_switched__asks_for_the_changes_and_the_moment_of_the_newest(
    told: Told, production: Environment, django_assert_num_queries: Any
) -> None:
    make_flag(production)
    told.look()
    update_flag(key="flag", environment=production, changes={"enabled": False}, **WRITE)
    with django_assert_num_queries(2):
        told.look()


class Enough(BaseException):
    """Ends the endless look-out, which no failure does."""


def test_follower__database_away_for_a_while__says_so_once_and_goes_on(
    told: Told, production: Environment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
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
            signal_file.poke()
            monkeypatch.setattr(snapshot, "refresh", refresh)
        elif len(slept) == 6:
            raise Enough

    monkeypatch.setattr(module.time, "sleep", sleep)
    monkeypatch.setattr(database, "close", lambda: None)  # the test's own transaction is on it
    with caplog.at_level(logging.WARNING), pytest.raises(Enough):
        told.follower._follow()
    assert [record.getMessage() for record in caplog.records] == [
        "Event streams cannot follow changes, and will go on trying: OperationalError('gone')",
        "Event streams follow changes again",
    ]
    assert told.outlooks[-1].news["production"].revision == revision()


def test_follower__connection_lost_but_database_there__says_nothing(
    told: Told, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
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
        told.follower._follow()
    assert caplog.records == []
