"""Erasing a user deletes all events of the user and no others, with their counts, in one
transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError
from django.dispatch import Signal

from config.errors import DetailCode, ErrorCode, ValidationFailed
from config.models import Environment
from events import removal
from events.models import Event
from events.recording import NewEvent, Outcome, record
from events.removal import ChangedExperiment, Erased, erase_user, erasing_user
from tests.conftest import NOON
from tests.events.counts.counting import real_counts, stored_counts
from tests.factories import EventFactory
from tests.threads import SECONDS, Threads, database_for_threads

pytestmark = pytest.mark.django_db


@pytest.fixture
def listen() -> Iterator[Callable[[Callable[..., Any]], None]]:
    """Have a function hear of erasures, as an app would."""
    heard: list[Callable[..., Any]] = []

    def connect(listener: Callable[..., Any]) -> None:
        erasing_user.connect(listener)
        heard.append(listener)

    yield connect
    for listener in heard:
        erasing_user.disconnect(listener)


def test_erase_user__events_of_all_times_and_names__are_gone_from_table_and_counts(production: Environment) -> None:
    for at in range(30):
        EventFactory(user_id="u", name=f"name-{at % 3}", timestamp=NOON - timedelta(minutes=7 * at))
        EventFactory(user_id="v", name=f"name-{at % 3}", timestamp=NOON - timedelta(minutes=7 * at))

    assert erase_user("u", production) == Erased(events=30)
    assert set(Event.objects.values_list("user_id", flat=True)) == {"v"}
    assert stored_counts() == real_counts()
    assert stored_counts().total() == 30


def test_erase_user__events_in_another_environment__stay(production: Environment, staging: Environment) -> None:
    EventFactory(user_id="u")
    EventFactory(user_id="u", environment=staging)

    assert erase_user("u", production).events == 1
    assert Event.objects.get().environment == staging
    assert stored_counts() == real_counts()


def test_erase_user__nothing_is_stored_of__leaves_similar_ones_alone(
    subtests: pytest.Subtests, production: Environment
) -> None:
    EventFactory(user_id="u")
    for user in ["U", "u ", "%", "_", "*", "v"]:
        with subtests.test(user=user):
            assert erase_user(user, production) == Erased()
            assert Event.objects.count() == 1


def test_erase_user__strange_id__is_erased(subtests: pytest.Subtests, production: Environment) -> None:
    for user in ["a/b", "\n", "é 😀", "'; DELETE", "u" * 200, "%s"]:
        with subtests.test(user=user):
            EventFactory(user_id=user)

            assert erase_user(user, production).events == 1
            assert not Event.objects.exists()


def test_erase_user__more_events_than_one_statement_removes__loses_all(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "BATCH_SIZE", 4)
    for at in range(10):
        EventFactory(user_id="u", timestamp=NOON + timedelta(seconds=at // 6))  # some at the same instant

    assert erase_user("u", production).events == 10
    assert stored_counts() == Counter()


def test_erase_user__event_sent_again_afterwards__is_new(production: Environment) -> None:
    event = NewEvent(UUID(int=1), "u", "purchase", NOON, NOON, {})
    record([event], production)
    erase_user("u", production)

    assert record([event], production) == [Outcome.ACCEPTED]
    assert stored_counts() == real_counts()


def test_erase_user__id_that_nobody_can_have__is_refused(subtests: pytest.Subtests, production: Environment) -> None:
    for user, code in [
        ("", DetailCode.OUT_OF_RANGE), ("u" * 201, DetailCode.TOO_LONG), ("a\0b", DetailCode.INVALID_VALUE),
        ("\ud800", DetailCode.INVALID_VALUE),
    ]:  # fmt: skip
        with subtests.test(user=user):
            with pytest.raises(ValidationFailed) as refusal:
                erase_user(user, production)
            assert refusal.value.code is ErrorCode.INVALID_PARAMETER
            assert [(detail.field, detail.code) for detail in refusal.value.details] == [("userId", code)]


def test_erase_user__listeners__are_asked_while_the_events_are_there_and_add_to_the_answer(
    production: Environment, listen: Callable[..., None]
) -> None:
    EventFactory(user_id="u")
    counts: list[int] = []
    experiments = [ChangedExperiment(UUID(int=at), key, "running") for at, key in enumerate("ba")]

    def answer(*, environment: Environment, user_id: str, **_: Any) -> Erased:
        counts.append(Event.objects.filter(environment=environment, user_id=user_id).count())
        return Erased(exposures=2, experiments=experiments) if len(counts) == 1 else Erased(experiments=experiments[:1])

    listen(answer)
    assert erase_user("u", production) == Erased(events=1, exposures=2, experiments=tuple(reversed(experiments)))
    assert counts == [1, 0]


def test_erase_user__listener_fails__nothing_is_erased(production: Environment, listen: Callable[..., None]) -> None:
    EventFactory(user_id="u")

    def fail(**_: Any) -> Erased:
        if not Event.objects.exists():
            raise RuntimeError("no")
        return Erased()

    listen(fail)
    with pytest.raises(RuntimeError, match="no"):
        erase_user("u", production)
    assert Event.objects.count() == 1
    assert stored_counts() == real_counts()


def test_erase_user__event_committed_meanwhile__is_erased_with_what_listeners_made_of_it(
    production: Environment, listen: Callable[..., None]
) -> None:
    EventFactory(user_id="u")
    rounds: list[int] = []

    def answer(**_: Any) -> Erased:
        rounds.append(Event.objects.count())
        if len(rounds) == 2:  # as if another transaction ended just now
            EventFactory(user_id="u")
        return Erased(exposures=1 if len(rounds) == 3 else 0)

    listen(answer)
    assert erase_user("u", production) == Erased(events=2, exposures=1)
    assert rounds == [1, 0, 0]
    assert stored_counts() == real_counts() == Counter()


def test_erase_user__who_never_pauses__is_erased_all_the_same(
    production: Environment, listen: Callable[..., None]
) -> None:
    def answer(**_: Any) -> Erased:
        EventFactory(user_id="u")
        return Erased()

    listen(answer)
    assert erase_user("u", production).events == removal._MAX_ROUNDS
    assert stored_counts() == real_counts()


def test_erase_user__apps__listen() -> None:
    assert isinstance(erasing_user, Signal)
    assert erasing_user.has_listeners(Event)


@pytest.mark.django_db(transaction=True)
def test_erase_user__several_at_once_beside_recording__counts_every_event_once(
    production: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "BATCH_SIZE", 7)
    events = [
        NewEvent(UUID(int=at), f"user-{at % 4}", f"name-{at % 3}", NOON + timedelta(minutes=at), NOON, {})
        for at in range(200)
    ]
    record(events, production)

    def record_again(part: int) -> None:
        for at in range(part, 200, 10):
            record(events[at : at + 20], production)

    threads = Threads()
    with database_for_threads(tmp_path):
        erasing = [threads.start(erase_user, user, production) for user in ("user-1", "user-1", "user-2")]
        recording = [threads.start(record_again, part) for part in (1, 5)]
        for future in [*erasing, *recording]:
            future.result(SECONDS)
        threads.join()
        assert stored_counts() == real_counts()
        assert {user: Event.objects.filter(user_id=user).count() for user in ("user-0", "user-3")} == {
            "user-0": 50,
            "user-3": 50,
        }


@pytest.mark.django_db(transaction=True)
def test_erase_user__given_up_in_favour_of_another__is_begun_once_more(
    production: Environment, listen: Callable[[Callable[..., Any]], None]
) -> None:
    EventFactory(user_id="u")
    causes = [ConflictCause()]

    def give_up_once(**_: Any) -> Erased:
        if causes:
            raise OperationalError("deadlock detected") from causes.pop()
        return Erased()

    listen(give_up_once)
    assert erase_user("u", production).events == 1
    assert not causes
    assert not Event.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_erase_user__given_up_again_and_again__fails(
    production: Environment, listen: Callable[[Callable[..., Any]], None]
) -> None:
    EventFactory(user_id="u")

    def give_up(**_: Any) -> Erased:
        raise OperationalError("deadlock detected") from ConflictCause()

    listen(give_up)
    with pytest.raises(OperationalError):
        erase_user("u", production)
    assert Event.objects.exists()


class ConflictCause(Exception):
    """An error as the driver raises it."""

    sqlstate = "40P01"
