"""Who is told what, and when: at once, then once a second at most, and the last state always."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from flags.ofrep.tokens import Ticket
from flags.streaming.follower import Outlook
from flags.streaming.hub import Hub, Listener
from flags.streaming.messages import HEARTBEAT, News
from tests.conftest import NOON

YESTERDAY = NOON - timedelta(days=1)
KEYS = {"key": "production", "other": "staging"}


def outlook(revision: int, *, staging: int = 1, keys: dict[str, str] = KEYS, minutes: int | None = None) -> Outlook:
    moment = None if minutes is None else NOON + timedelta(minutes=minutes)
    return Outlook({"production": News(revision, YESTERDAY, moment), "staging": News(staging, YESTERDAY)}, keys)


def ticket(environment: str = "production", key_id: str = "key") -> Ticket:
    return Ticket(environment, key_id, NOON)


class Clock:
    """The loop's clock, which stands still until it is told to go on."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._now = loop.time()
        loop.time = lambda: self._now  # type: ignore[method-assign]

    async def pass_by(self, seconds: float) -> None:
        await settle()
        self._now += seconds
        await settle()


async def settle() -> None:
    """Let every task do what it can without waiting."""
    for _ in range(5):
        await asyncio.sleep(0)


Scene = Callable[[Hub, Clock], Coroutine[Any, Any, None]]


def play(scene: Scene) -> None:
    async def run() -> None:
        hub = Hub()
        hub.tell(outlook(1))
        await scene(hub, Clock(asyncio.get_running_loop()))

    asyncio.run(run())


async def heard(listener: Listener) -> bytes | None:
    """What the listener has to say at this moment; b"" for nothing."""
    task = asyncio.ensure_future(listener.next())
    await settle()
    if not task.done():
        task.cancel()
        return b""
    return task.result()


def revision_of(message: bytes | None) -> int:
    assert message is not None
    return int(message.split(b"\n")[0].removeprefix(b"id: "))


def test_change__first_one__is_told_at_once_to_its_environment_only() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        here, there = hub.join(ticket()), hub.join(ticket("staging", "other"))
        assert await heard(here) == b""
        hub.tell(outlook(2))
        assert revision_of(await heard(here)) == 2
        assert await heard(there) == b""

    play(scene)


def test_changes__a_burst__are_told_of_at_its_beginning_and_a_second_later() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        listener = hub.join(ticket())
        await clock.pass_by(10)
        hub.tell(outlook(2))
        assert revision_of(await heard(listener)) == 2
        for revision in range(3, 50):
            hub.tell(outlook(revision))
            assert await heard(listener) == b""
        await clock.pass_by(0.9)
        assert await heard(listener) == b""
        await clock.pass_by(0.2)
        assert revision_of(await heard(listener)) == 49
        await clock.pass_by(5)
        assert await heard(listener) == b""
        hub.tell(outlook(50))
        assert revision_of(await heard(listener)) == 50

    play(scene)


def test_changes__going_on_and_on__are_told_of_once_a_second() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        listener, messages = hub.join(ticket()), 0
        for revision in range(2, 102):
            hub.tell(outlook(revision))
            messages += await heard(listener) != b""
            await clock.pass_by(0.1)
        assert 10 <= messages <= 11

    play(scene)


def test_listener__who_does_not_take_its_messages__gets_only_the_newest() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        listener = hub.join(ticket())
        for revision in range(2, 6):
            hub.tell(outlook(revision))
            await clock.pass_by(2)
        assert revision_of(await heard(listener)) == 5
        assert await heard(listener) == b""

    play(scene)


def test_listener__with_nothing_to_hear__gets_a_heartbeat_every_fifteen_seconds() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        listener = hub.join(ticket())
        for _ in range(3):
            task = asyncio.ensure_future(listener.next())
            await clock.pass_by(14)
            assert not task.done()
            await clock.pass_by(2)
            assert await task == HEARTBEAT

    play(scene)


@pytest.mark.parametrize(
    ("known", "minutes", "is_told"),
    [(1, None, False), (7, None, False), (0, None, True), (1, -5, False), (1, 5, True), (None, None, False)],
    ids=["as new", "newer", "older", "moment before the ticket", "moment after it", "none, and nothing is young"],
)
def test_join__knowing_a_revision__is_told_at_once_of_what_came_later(
    known: int | None, minutes: int | None, is_told: bool
) -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        hub.tell(outlook(1, minutes=minutes))
        message = await heard(hub.join(ticket(), known=known))
        assert (message != b"") is is_told

    play(scene)


def test_change__that_was_held_back__is_not_told_to_who_came_after_it() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        hub.tell(outlook(2))
        hub.tell(outlook(3))
        answered_after_it, answered_long_ago = hub.join(ticket(), known=3), hub.join(ticket(), known=1)
        assert revision_of(await heard(answered_long_ago)) == 3
        await clock.pass_by(2)
        assert await heard(answered_after_it) == await heard(answered_long_ago) == b""

    play(scene)


def test_change__that_the_answer_already_had_in_it__is_not_told() -> None:
    """A worker may hear of a change before the process of the streams does."""

    async def scene(hub: Hub, clock: Clock) -> None:
        ahead = hub.join(ticket(), known=2)
        hub.tell(outlook(2))
        assert await heard(ahead) == b""
        await clock.pass_by(2)
        hub.tell(outlook(3))
        assert revision_of(await heard(ahead)) == 3

    play(scene)


def test_change__by_a_client_that_knows_a_revision_of_another_database__is_told() -> None:
    """A backup that was restored takes revisions back."""

    async def scene(hub: Hub, clock: Clock) -> None:
        listener = hub.join(ticket(), known=999)
        assert await heard(listener) == b""
        hub.tell(outlook(2))
        assert revision_of(await heard(listener)) == 2

    play(scene)


def test_scheduled_moment__comes__is_told_with_the_same_revision() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        listener = hub.join(ticket())
        hub.tell(outlook(1, minutes=5))
        message = await heard(listener)
        assert revision_of(message) == 1
        assert message == News(1, YESTERDAY, NOON + timedelta(minutes=5)).message

    play(scene)


def test_key__revoked__ends_its_streams_and_no_others() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        revoked, other = hub.join(ticket()), hub.join(ticket("staging", "other"))
        nobody = hub.join(ticket(key_id=""))
        hub.tell(outlook(1, keys={"other": "staging"}))
        assert await heard(revoked) is None
        assert await heard(other) == await heard(nobody) == b""

    play(scene)


def test_admission__asks_for_a_live_key_of_a_known_environment() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        assert await hub.admits(ticket())
        assert await hub.admits(ticket(key_id=""))
        assert not await hub.admits(ticket("staging"))
        assert not await hub.admits(ticket(key_id="revoked"))
        assert not await hub.admits(ticket("unknown", ""))

    play(scene)


def test_admission__before_anything_is_known__waits() -> None:
    async def scene() -> None:
        hub = Hub()
        task = asyncio.ensure_future(hub.admits(ticket()))
        await asyncio.sleep(0)
        assert not task.done()
        hub.tell(outlook(1))
        assert await task

    asyncio.run(scene())


def test_closing__ends_every_stream_and_each_that_comes() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        before = hub.join(ticket())
        hub.close()
        assert await heard(before) is None
        assert await heard(hub.join(ticket())) is None

    play(scene)


def test_closing__before_anything_is_known__lets_who_waits_in_and_out() -> None:
    async def scene() -> None:
        hub = Hub()
        task = asyncio.ensure_future(hub.admits(ticket()))
        await asyncio.sleep(0)
        hub.close()
        assert await task
        assert await hub.join(ticket()).next() is None

    asyncio.run(scene())


def test_leaving__is_forgotten() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        listener = hub.join(ticket())
        hub.leave(listener)
        assert hub._listeners() == []

    play(scene)
