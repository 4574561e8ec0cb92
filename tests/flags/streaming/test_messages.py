"""What an event stream says: events as the specification of OFREP has them, and when there is something to say."""

from __future__ import annotations

from datetime import timedelta

import pytest

from flags.streaming.messages import HEARTBEAT, OPENING, News
from tests.conftest import NOON

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
AT_NOON = int(NOON.timestamp())


def test_message__after_a_change__names_the_revision_and_its_moment() -> None:
    assert News(51, NOON).message == (
        b'id: 51\nevent: message\ndata: {"type":"refetchEvaluation","etag":"51","lastModified":%d}\n\n' % AT_NOON
    )


def test_message__scheduled_moment_before_the_change__is_that_of_the_change() -> None:
    assert News(51, NOON, NOON - SECOND).message == News(51, NOON).message


def test_message__scheduled_moment_after_the_change__names_both() -> None:
    assert News(51, NOON, NOON + 1.5 * SECOND).message == (
        b"id: 51\n"
        b"event: message\n"
        b'data: {"type":"refetchEvaluation","etag":"51.%d","lastModified":%d}\n'
        b"\n" % (AT_NOON + 1, AT_NOON + 1)
    )


@pytest.mark.parametrize(
    ("news", "expected"),
    [
        (News(50, NOON), False),
        (News(51, NOON), False),
        (News(52, NOON), True),
        (News(51, NOON, NOON), False),
        (News(51, NOON, NOON + SECOND), True),
        (News(50, NOON, NOON - SECOND), False),
    ],
)
def test_news__for_who_heard_of_revision_51_after_noon__are_new_if_they_came_later(news: News, expected: bool) -> None:
    assert news.is_newer_than(NOON, 51) is expected


@pytest.mark.parametrize(
    ("news", "expected"),
    [
        (News(52, NOON - HOUR), False),
        (News(52, NOON - SECOND), True),
        (News(52, NOON + SECOND), True),
        (News(52, NOON - HOUR, NOON - HOUR / 2), False),
        (News(52, NOON - HOUR, NOON + SECOND), True),
    ],
)
def test_news__for_who_was_answered_after_noon_and_heard_nothing__are_new_if_they_may_have_come_later(
    news: News, expected: bool
) -> None:
    """By the clock of another host, which may go otherwise."""
    assert news.is_newer_than(NOON, None) is expected


def test_other_text__is_comments_and_a_time_to_wait__which_are_no_events() -> None:
    assert OPENING.startswith(b"retry: 2000\n:")
    assert HEARTBEAT.startswith(b":")
    assert OPENING.endswith(b"\n\n")
    assert HEARTBEAT.endswith(b"\n\n")
