"""Messages of an event stream: their format, and when a client may have missed one."""

from __future__ import annotations

from datetime import timedelta

from flags.ofrep.stream_messages import HEARTBEAT, OPENING, EnvironmentStatus
from tests.conftest import NOON

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
AT_NOON = int(NOON.timestamp())


def test_message__after_a_change__names_the_revision_and_its_moment() -> None:
    assert EnvironmentStatus(51, NOON).message == (
        b'id: 51\nevent: message\ndata: {"type":"refetchEvaluation","etag":"51","lastModified":%d}\n\n' % AT_NOON
    )


def test_message__scheduled_moment_before_the_change__is_that_of_the_change() -> None:
    assert EnvironmentStatus(51, NOON, NOON - SECOND).message == EnvironmentStatus(51, NOON).message


def test_message__scheduled_moment_after_the_change__names_both() -> None:
    assert EnvironmentStatus(51, NOON, NOON + 1.5 * SECOND).message == (
        b"id: 51\n"
        b"event: message\n"
        b'data: {"type":"refetchEvaluation","etag":"51.%d","lastModified":%d}\n'
        b"\n" % (AT_NOON + 1, AT_NOON + 1)
    )


def test_status__client_received_revision_51_after_noon__is_new_if_it_came_later() -> None:
    for status, expected in [
        (EnvironmentStatus(50, NOON), False),
        (EnvironmentStatus(51, NOON), False),
        (EnvironmentStatus(52, NOON), True),
        (EnvironmentStatus(51, NOON, NOON), False),
        (EnvironmentStatus(51, NOON, NOON + SECOND), True),
        (EnvironmentStatus(50, NOON, NOON - SECOND), False),
    ]:
        assert status.is_newer_than(NOON, 51) is expected, status


def test_status__client_answered_after_noon_received_nothing__is_new_if_it_may_have_come_later() -> None:
    """The clock of another host may differ."""
    for status, expected in [
        (EnvironmentStatus(52, NOON - HOUR), False),
        (EnvironmentStatus(52, NOON - SECOND), True),
        (EnvironmentStatus(52, NOON + SECOND), True),
        (EnvironmentStatus(52, NOON - HOUR, NOON - HOUR / 2), False),
        (EnvironmentStatus(52, NOON - HOUR, NOON + SECOND), True),
    ]:
        assert status.is_newer_than(NOON, None) is expected, status


def test_other_text__is_comments_and_a_waiting_time__and_no_event() -> None:
    assert OPENING.startswith(b"retry: 2000\n:")
    assert HEARTBEAT.startswith(b":")
    assert OPENING.endswith(b"\n\n")
    assert HEARTBEAT.endswith(b"\n\n")
