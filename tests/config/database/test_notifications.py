"""Announcements to other hosts: each commit is announced at once, and nothing else is."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import Error, connection, transaction

from config.access.environments import create_environment
from config.database import notifications
from config.database.notifications import CHANNEL, LISTENER_NAME, Alarm, Listener
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 600.0
"""Seconds. After this wait, no announcement came."""


@pytest.fixture
def postgresql() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite announces nothing")


@pytest.fixture
def heard_elsewhere(postgresql: None) -> Iterator[Callable[[], list[str]]]:
    """The announcements that another connection got so far, on the channel of the change log and on
    a test channel.
    """
    parameters = connection.get_connection_params()
    with psycopg.connect(**{**parameters, "cursor_factory": psycopg.Cursor}, autocommit=True) as other:
        other.execute(f"LISTEN {CHANNEL}")
        other.execute("LISTEN so_far")

        def heard() -> list[str]:
            other.execute("NOTIFY so_far")
            names = [notice.channel for notice in other.notifies(timeout=0)]
            assert names.pop() == "so_far"
            return names

        yield heard


def in_a_thread(act: Callable[[], Any]) -> None:
    """Do it on a connection of its own, and fail where it takes half a minute."""

    def run() -> None:
        try:
            act()
        finally:
            connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


def commit(key: str = "commit") -> None:
    create_environment(key=key, name="Elsewhere", actor=ACTOR, now=NOON)


def test_announce__committed_change__is_heard_once(heard_elsewhere: Callable[[], list[str]]) -> None:
    commit()
    assert heard_elsewhere() == [CHANNEL]


def test_announce__transaction_still_open__is_not_heard_before_its_end(
    heard_elsewhere: Callable[[], list[str]],
) -> None:
    with transaction.atomic():
        commit("a")
        commit("b")
        assert heard_elsewhere() == []
    assert heard_elsewhere() == [CHANNEL]


def test_announce__rolled_back_change__is_never_heard(heard_elsewhere: Callable[[], list[str]]) -> None:
    with transaction.atomic():
        commit()
        transaction.set_rollback(True)
    assert heard_elsewhere() == []


def test_wait__announced_since_it_listens__ends_at_once(postgresql: None) -> None:
    def listen_and_wait() -> None:
        listener = Listener()
        listener.listen()
        in_a_thread(commit)
        listener.wait(LONG, Alarm())

    in_a_thread(listen_and_wait)


def test_wait__announced_while_the_connection_is_busy__ends_at_once(postgresql: None) -> None:
    """The notice arrives with the result of a query, before the wait."""

    def listen_and_wait() -> None:
        listener = Listener()
        listener.listen()
        in_a_thread(commit)
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        listener.wait(LONG, Alarm())

    in_a_thread(listen_and_wait)


def test_listen__connection_replaced__hears_on_the_new_one(postgresql: None) -> None:
    def listen_and_wait() -> None:
        listener = Listener()
        listener.listen()
        connection.close()
        listener.listen()
        in_a_thread(commit)
        listener.wait(LONG, Alarm())

    in_a_thread(listen_and_wait)


def test_listen__connection__is_recognised_by_its_name(postgresql: None) -> None:
    def listen() -> None:
        Listener().listen()
        with connection.cursor() as cursor:
            cursor.execute("SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()")
            assert cursor.fetchone() == (LISTENER_NAME,)

    in_a_thread(listen)


def test_wait__connection_killed__raises_what_django_calls_an_error(postgresql: None) -> None:
    def wait_twice(listener: Listener) -> None:
        """The server says that it ends the connection, and then ends it."""
        listener.wait(LONG, Alarm())
        listener.wait(LONG, Alarm())

    def kill_and_wait() -> None:
        listener = Listener()
        listener.listen()
        pid = connection.connection.info.backend_pid
        in_a_thread(lambda: connection.cursor().execute("SELECT pg_terminate_backend(%s)", [pid]))
        with pytest.raises(Error, match="connection"):
            wait_twice(listener)

    in_a_thread(kill_and_wait)


def test_listen__refused__says_so_once_and_waits_for_the_alarm_alone(
    postgresql: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notifications, "CHANNEL", "7")  # which is no name

    def listen_and_wait() -> None:
        listener, alarm = Listener(), Alarm()
        for _ in range(3):
            listener.listen()
            alarm.ring()
            listener.wait(LONG, alarm)

    in_a_thread(listen_and_wait)
    assert caplog.text.count("Cannot listen for announcements of other hosts") == 1


def test_wait__alarm_rung_in_another_thread__ends_at_once() -> None:
    alarm = Alarm()

    def listen_and_wait() -> None:
        listener = Listener()
        listener.listen()
        threading.Timer(0.01, alarm.ring).start()
        listener.wait(LONG, alarm)

    in_a_thread(listen_and_wait)


def test_wait__alarm_that_rang_very_often__ends_and_is_silent_afterwards() -> None:
    alarm = Alarm()
    for _ in range(100_000):
        alarm.ring()

    def listen_and_wait() -> None:
        listener = Listener()
        listener.listen()
        for _ in range(100):
            listener.wait(0, alarm)

    in_a_thread(listen_and_wait)
    assert not select.select([alarm], [], [], 0)[0]
