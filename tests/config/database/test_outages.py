"""Outages: which errors are one, and calls that fail at once while there is one."""

from __future__ import annotations

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


def call(circuit: Circuit, error: Exception | None = None) -> None:
    with circuit.attempt():
        if error is not None:
            raise error


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


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OperationalError("gone"), True),
        (InterfaceError("closed"), True),
        (with_code(InternalError("read only"), "25006"), True),
        (with_code(OperationalError("statement too complex"), "54001"), False),
        (IntegrityError("duplicate"), False),
        (DataError("out of range"), False),
        (ProgrammingError("no such column"), False),
        (ValueError("not of the database"), False),
    ],
    ids=repr,
)
def test_is_outage__error__is_one_if_the_state_of_the_database_is_the_cause(error: Exception, expected: bool) -> None:
    assert is_outage(error) is expected


def test_attempt__last_call_failed__fails_at_once_for_a_second(circuit: Circuit, clock: Clock) -> None:
    fail(circuit)
    assert is_closed_to_calls(circuit)
    clock.now += 0.9
    assert is_closed_to_calls(circuit)
    clock.now += 0.2
    assert not is_closed_to_calls(circuit)


def test_attempt__one_call_a_second_fails_again__others_still_fail_at_once(circuit: Circuit, clock: Clock) -> None:
    fail(circuit)
    clock.now += 1.1
    fail(circuit)
    assert is_closed_to_calls(circuit)


def test_attempt__database_back__serves_every_call_again(
    circuit: Circuit, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    fail(circuit)
    clock.now += 1.1
    assert [is_closed_to_calls(circuit) for _ in range(5)] == [False] * 5
    assert [record.getMessage() for record in caplog.records] == [
        "The database does not answer, and is tried once a second (testing)",
        "The database answers again (testing)",
    ]


def test_attempt__error_of_the_statement__closes_nothing(circuit: Circuit) -> None:
    with pytest.raises(IntegrityError):
        call(circuit, IntegrityError("duplicate"))
    assert not is_closed_to_calls(circuit)


def test_attempt__another_call_hangs__fails_at_once_until_that_ends(circuit: Circuit, clock: Clock) -> None:
    with circuit.attempt():
        clock.now += 0.4
        assert not is_closed_to_calls(circuit)
        clock.now += 0.2
        assert is_closed_to_calls(circuit)
        clock.now += 600
        assert is_closed_to_calls(circuit)
    assert not is_closed_to_calls(circuit)


def test_attempt__hanging_call_fails_in_the_end__the_next_try_is_a_second_later(circuit: Circuit, clock: Clock) -> None:
    hanging = circuit.attempt()
    hanging.__enter__()
    clock.now += 30
    assert is_closed_to_calls(circuit)
    hanging.__exit__(OperationalError, OperationalError("gone"), None)
    assert is_closed_to_calls(circuit)
    clock.now += 1.1
    assert not is_closed_to_calls(circuit)
