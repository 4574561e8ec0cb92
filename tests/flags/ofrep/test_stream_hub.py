"""When each listener gets a message: at once, then at most once a second, and always the last status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from flags.ofrep.stream_follower import Status
from flags.ofrep.stream_hub import Hub, Listener
from flags.ofrep.stream_messages import HEARTBEAT, EnvironmentStatus
from flags.ofrep.tokens import Ticket
from tests.conftest import NOON

YESTERDAY = NOON - timedelta(days=1)
KEYS = {"key": "production", "other": "staging"}


def status(revision: int, *, staging: int = 1, keys: dict[str, str] = KEYS, minutes: int | None = None) -> Status:
    moment = None if minutes is None else NOON + timedelta(minutes=minutes)
    return Status(
        {
            "production": EnvironmentStatus(revision, YESTERDAY, moment),
            "staging": EnvironmentStatus(staging, YESTERDAY),
        },
        keys,
    )


def ticket(environment: str = "production", key_id: str = "key") -> Ticket:
    return Ticket(environment, key_id, NOON)


class Clock:
    """The loop's clock, which moves only when a test moves it."""

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
        hub.publish(status(1))
        await scene(hub, Clock(asyncio.get_running_loop()))

    asyncio.run(run())


async def received(listener: Listener) -> bytes | None:
    """Return the next message of a listener, or b"" if there is none yet."""
    task = asyncio.ensure_future(listener.next())
    await settle()
    if not task.done():
        task.cancel()
        return b""
    return task.result()


def revision_of(message: bytes | None) -> int:
    assert message is not None
    return int(message.split(b"\n")[0].removeprefix(b"id: "))


def test_change__first_one__is_sent_at_once_to_its_environment_only() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        production, staging = hub.join(ticket()), hub.join(ticket("staging", "other"))
        assert await received(production) == b""
        hub.publish(status(2))
        assert revision_of(await received(production)) == 2
        assert await received(staging) == b""

    play(scene)


def test_changes__a_burst__are_sent_at_its_beginning_and_a_second_later() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        listener = hub.join(ticket())
        await clock.pass_by(10)
        hub.publish(status(2))
        assert revision_of(await received(listener)) == 2
        for revision in range(3, 50):
            hub.publish(status(revision))
            assert await received(listener) == b""
        await clock.pass_by(0.9)
        assert await received(listener) == b""
        await clock.pass_by(0.2)
        assert revision_of(await received(listener)) == 49
        await clock.pass_by(5)
        assert await received(listener) == b""
        hub.publish(status(50))
        assert revision_of(await received(listener)) == 50

    play(scene)


def test_changes__continuing__are_sent_once_a_second() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        listener, messages = hub.join(ticket()), 0
        for revision in range(2, 102):
            hub.publish(status(revision))
            messages += await received(listener) != b""
            await clock.pass_by(0.1)
        assert 10 <= messages <= 11

    play(scene)


def test_listener__that_does_not_take_its_messages__gets_only_the_newest() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        listener = hub.join(ticket())
        for revision in range(2, 6):
            hub.publish(status(revision))
            await clock.pass_by(2)
        assert revision_of(await received(listener)) == 5
        assert await received(listener) == b""

    play(scene)


def test_listener__without_a_message__gets_a_heartbeat_every_fifteen_seconds() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        listener = hub.join(ticket())
        for _ in range(3):
            task = asyncio.ensure_future(listener.next())
            await clock.pass_by(14)
            assert not task.done()
            await clock.pass_by(2)
            assert await task == HEARTBEAT

    play(scene)


def test_join__knowing_a_revision__gets_later_changes_at_once(subtests: pytest.Subtests) -> None:
    async def scene(last_revision: int | None, minutes: int | None, is_sent: bool, hub: Hub, clock: Clock) -> None:
        hub.publish(status(1, minutes=minutes))
        message = await received(hub.join(ticket(), last_revision=last_revision))
        assert (message != b"") is is_sent

    for last_revision, minutes, is_sent in [
        (1, None, False), (7, None, False), (0, None, True), (1, -5, False), (1, 5, True), (None, None, False),
    ]:  # fmt: skip
        with subtests.test(last_revision=last_revision, minutes=minutes):
            play(partial(scene, last_revision, minutes, is_sent))


def test_change__that_was_delayed__is_not_sent_to_listeners_that_joined_after_it() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        hub.publish(status(2))
        hub.publish(status(3))
        answered_after_it, answered_long_ago = hub.join(ticket(), last_revision=3), hub.join(ticket(), last_revision=1)
        assert revision_of(await received(answered_long_ago)) == 3
        await clock.pass_by(2)
        assert await received(answered_after_it) == await received(answered_long_ago) == b""

    play(scene)


def test_change__that_the_answer_already_contained__is_not_sent() -> None:
    """A worker may learn of a change before the process of the streams."""

    async def scene(hub: Hub, clock: Clock) -> None:
        ahead = hub.join(ticket(), last_revision=2)
        hub.publish(status(2))
        assert await received(ahead) == b""
        await clock.pass_by(2)
        hub.publish(status(3))
        assert revision_of(await received(ahead)) == 3

    play(scene)


def test_change__by_a_client_that_knows_a_revision_of_another_database__is_sent() -> None:
    """After a backup is restored, revisions are lower than before."""

    async def scene(hub: Hub, clock: Clock) -> None:
        listener = hub.join(ticket(), last_revision=999)
        assert await received(listener) == b""
        hub.publish(status(2))
        assert revision_of(await received(listener)) == 2

    play(scene)


def test_scheduled_moment__passes__is_sent_with_the_same_revision() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        listener = hub.join(ticket())
        hub.publish(status(1, minutes=5))
        message = await received(listener)
        assert revision_of(message) == 1
        assert message == EnvironmentStatus(1, YESTERDAY, NOON + timedelta(minutes=5)).message

    play(scene)


def test_key__revoked__ends_its_streams_and_no_others() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        revoked, other = hub.join(ticket()), hub.join(ticket("staging", "other"))
        nobody = hub.join(ticket(key_id=""))
        hub.publish(status(1, keys={"other": "staging"}))
        assert await received(revoked) is None
        assert await received(other) == await received(nobody) == b""

    play(scene)


def test_admission__asks_for_a_live_key_of_a_known_environment() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        assert await hub.admits(ticket())
        assert await hub.admits(ticket(key_id=""))
        assert not await hub.admits(ticket("staging"))
        assert not await hub.admits(ticket(key_id="revoked"))
        assert not await hub.admits(ticket("unknown", ""))

    play(scene)


def test_admission__before_the_first_status__waits() -> None:
    async def scene() -> None:
        hub = Hub()
        task = asyncio.ensure_future(hub.admits(ticket()))
        await asyncio.sleep(0)
        assert not task.done()
        hub.publish(status(1))
        assert await task

    asyncio.run(scene())


def test_closing__ends_every_stream_and_each_new_one() -> None:
    async def scene(hub: Hub, clock: Clock) -> None:
        before = hub.join(ticket())
        hub.close()
        assert await received(before) is None
        assert await received(hub.join(ticket())) is None

    play(scene)


def test_closing__before_the_first_status__admits_and_ends_those_that_wait() -> None:
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
