"""Outages: which errors are one, and calls that fail at once while there is one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DataError, IntegrityError, InterfaceError, InternalError, OperationalError, ProgrammingError

from config.database import outages
from config.database.outages import Circuit, is_outage


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(outages, "time", made)
    return made


@pytest.fixture
def circuit(clock: Clock) -> Circuit:
    return Circuit("testing", patience=0.5)


def call(circuit: Circuit, error: Exception | None = None) -> str:
    def act() -> str:
        if error is not None:
            raise error
        return "done"

    return circuit.call(act)


def fail(circuit: Circuit) -> None:
    with pytest.raises(OperationalError, match="gone"):
        call(circuit, OperationalError("gone"))


def is_closed_to_calls(circuit: Circuit) -> bool:
    try:
        call(circuit)
    except OperationalError as error:
        return str(error) == "The database does not answer (testing)."
    return False


def with_code(error: Exception, code: str) -> Exception:
    cause: Any = Exception()
    cause.sqlstate = code
    error.__cause__ = cause
    return error


def test_is_outage__error__is_one_if_the_state_of_the_database_is_the_cause(subtests: pytest.Subtests) -> None:
    for error, expected in [
        (OperationalError("gone"), True),
        (InterfaceError("closed"), True),
        (with_code(InternalError("read only"), "25006"), True),
        (with_code(InternalError("connection to the remote node failed"), "XX000"), True),
        (with_code(InternalError("could not commit transaction for shard 1 on at least one node"), "XX000"), True),
        (with_code(InternalError("could not connect to any active placements"), "XX000"), True),
        (with_code(InternalError("failed to prepare transaction 'citus_0_1_2_0' on host h:5432"), "XX000"), True),
        (with_code(InternalError("invalid memory alloc request size"), "XX000"), False),
        (with_code(OperationalError("statement too complex"), "54001"), False),
        (OperationalError("parser stack overflow"), False),
        (IntegrityError("duplicate"), False),
        (DataError("out of range"), False),
        (ProgrammingError("no such column"), False),
        (ValueError("not of the database"), False),
    ]:
        with subtests.test(error=error):
            assert is_outage(error) is expected


def test_call__last_call_failed__fails_at_once_for_a_second(circuit: Circuit, clock: Clock) -> None:
    fail(circuit)
    assert is_closed_to_calls(circuit)
    clock.now += 0.9
    assert is_closed_to_calls(circuit)
    clock.now += 0.2
    assert not is_closed_to_calls(circuit)


def test_call__one_call_a_second_fails_again__others_still_fail_at_once(circuit: Circuit, clock: Clock) -> None:
    fail(circuit)
    clock.now += 1.1
    fail(circuit)
    assert is_closed_to_calls(circuit)


def test_call__database_back__serves_every_call_again(
    circuit: Circuit, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    fail(circuit)
    clock.now += 1.1
    assert [is_closed_to_calls(circuit) for _ in range(5)] == [False] * 5
    # Where other tests said the same before, the log says how many such lines it left out.
    assert [record.getMessage().partition(" [")[0] for record in caplog.records] == [
        "The database does not answer, and is tried once a second (testing)",
        "The database answers again (testing)",
    ]


def test_call__error_of_the_statement__closes_nothing(circuit: Circuit) -> None:
    with pytest.raises(IntegrityError):
        call(circuit, IntegrityError("duplicate"))
    assert not is_closed_to_calls(circuit)


def test_call__call_ends_before_it_reaches_the_database__leaves_the_try_to_the_next(
    circuit: Circuit, clock: Clock
) -> None:
    fail(circuit)
    clock.now += 1.1
    for _ in range(2):
        with pytest.raises(ValueError, match="before"):
            call(circuit, ValueError("before"))
    fail(circuit)
    assert is_closed_to_calls(circuit)


def test_call__another_call_hangs__fails_at_once_until_that_ends(circuit: Circuit, clock: Clock) -> None:
    def hang() -> None:
        clock.now += 0.4
        assert not is_closed_to_calls(circuit)
        clock.now += 0.2
        assert is_closed_to_calls(circuit)
        clock.now += 600
        assert is_closed_to_calls(circuit)

    circuit.call(hang)
    assert not is_closed_to_calls(circuit)


def test_call__hanging_call_fails_in_the_end__the_next_try_is_a_second_later(circuit: Circuit, clock: Clock) -> None:
    def hang() -> None:
        clock.now += 30
        assert is_closed_to_calls(circuit)
        raise OperationalError("gone")

    with pytest.raises(OperationalError, match="gone"):
        circuit.call(hang)
    assert is_closed_to_calls(circuit)
    clock.now += 1.1
    assert not is_closed_to_calls(circuit)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    own = outages._Threads()
    own.start(1)
    monkeypatch.setattr(outages, "_threads", own)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What hanging calls wait for."""
    event = threading.Event()
    yield event
    event.set()


def test_call__in_a_worker__is_made_by_another_thread(threads: None) -> None:
    circuit = Circuit("testing", patience=600)
    names = {circuit.call(lambda: threading.current_thread().name) for _ in range(3)}
    assert names == {"database-0"}
    with pytest.raises(IntegrityError, match="duplicate"):
        call(circuit, IntegrityError("duplicate"))
    with pytest.raises(TimeoutError, match="of its own"):
        call(circuit, TimeoutError("of its own"))


def test_call__that_hangs_in_a_worker__holds_no_caller(threads: None, release: threading.Event) -> None:
    circuit = Circuit("testing", patience=0.01)
    hang_in(circuit, release)
    assert is_closed_to_calls(circuit)
    release.set()
    wait_until(lambda: not circuit._running)
    assert call(circuit) == "done"


def test_call__no_thread_is_free__is_given_up_and_not_made_later(threads: None, release: threading.Event) -> None:
    made: list[str] = []
    hanging = Circuit("hanging", patience=0.01)
    hang_in(hanging, release)
    with pytest.raises(OperationalError):
        Circuit("testing", patience=0.01).call(made.append, "too late")
    release.set()
    wait_until(lambda: not hanging._running)
    patient = Circuit("patient", patience=600)
    patient.call(made.append, "in time")
    assert made == ["in time"]


def hang_in(circuit: Circuit, release: threading.Event) -> None:
    """Have the only thread make a call that hangs. One that it has not begun in time is given up, and made again."""
    has_begun = threading.Event()

    def hang() -> None:
        has_begun.set()
        release.wait()

    while not has_begun.is_set():
        with pytest.raises(OperationalError, match="does not answer"):
            circuit.call(hang)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)
