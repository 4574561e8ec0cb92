"""Applying many changes: small tables first, all else with one announcement, or everything loaded again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from config import snapshot
from config.access.api_keys import create_key, live_keys
from config.models import Change, Environment, Scope
from config.snapshot import signal_file, tables
from config.snapshot.tables import current, one_process_at_a_time
from flags.changes.flag_changes import create_flag, update_flag
from flags.snapshot import compiled, configuration
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MANY", 3)


@pytest.fixture
def flags(production: Environment) -> list[str]:
    """The keys of flags that the snapshot has."""
    keys = [f"f{number}" for number in range(10)]
    for key in keys:
        create_flag(key=key, environment=production, actor=ACTOR, now=NOON)
    snapshot.refresh()
    return keys


def switch_on(keys: list[str]) -> None:
    for key in keys:
        create_or_update = {"key": key, "environment": Environment.objects.default(), "actor": ACTOR, "now": NOON}
        update_flag(changes={"enabled": True}, **create_or_update)


def switched_on() -> set[str]:
    return {flag.key for flag in configuration("production").flags.values() if flag.enabled}


def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that are loaded from now on."""
    loaded: list[str] = []

    def noting(table: Any, read: Any) -> Any:
        def note() -> Any:
            loaded.append(table.name)
            return read()

        return note

    for table in current.tables:
        monkeypatch.setattr(table, "read", noting(table, table.read))
    return loaded


@pytest.mark.parametrize("count", [1, 3, 4, 10])
def test_catch_up__any_number_of_changes__ends_with_the_newest(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    loaded = loads(monkeypatch)
    switch_on(flags[:count])
    current.catch_up()
    assert switched_on() == set(flags[:count])
    assert snapshot.revision() == Change.objects.latest_revision()
    assert compiled.name not in loaded
    applied = compiled.state
    compiled.load()
    assert applied == compiled.state


def test_catch_up__more_changes_than_there_are_flags__loads_everything_again(
    flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = loads(monkeypatch)
    for _ in range(2):
        switch_on(flags[:1])
        switch_on(flags[1:])
        for key in flags:
            update_flag(
                key=key, environment=Environment.objects.default(), changes={"enabled": False}, actor=ACTOR, now=NOON
            )
    current.catch_up()
    assert sorted(loaded) == sorted(table.name for table in current.tables)
    assert switched_on() == set()
    assert snapshot.revision() == Change.objects.latest_revision()


def test_catch_up__few_changes__announces_nothing(flags: list[str]) -> None:
    announced: list[int] = []
    switch_on(flags[:3])
    current.catch_up(lambda: announced.append(1))
    assert not announced


@pytest.fixture
def yields_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this thread pause as often as it can."""
    monkeypatch.setattr(tables._pace, "pauses_at", 0.0)
    monkeypatch.setattr(tables, "_MAX_SECONDS_BUSY", -1.0)


def make_key(name: str) -> None:
    create_key(name=name, environment=Environment.objects.default(), scope=Scope.CLIENT, actor=ACTOR, now=NOON)
    signal_file.signal_change()


@pytest.mark.parametrize("count", [5, 30])
def test_catch_up__many_changes__knows_keys_before_flags(
    flags: list[str], yields_cpu: None, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    announced: list[Any] = []
    seen: list[Any] = []
    make_key("first")
    for at in range(count):
        switch = {"key": flags[at % 10], "environment": Environment.objects.default(), "actor": ACTOR, "now": NOON}
        update_flag(changes={"enabled": at < 5}, **switch)

    def pause(_: float) -> None:
        seen.append((len(live_keys.state), len(switched_on()), current.seen_first == signal_file.read()))

    monkeypatch.setattr(tables.time, "sleep", pause)
    current.catch_up(lambda: announced.append((len(live_keys.state), current.seen_first)))
    assert announced == [(0, announced[0][1])]
    assert set(seen) == {(1, 0, True)}
    assert len(switched_on()) == (5 if count == 5 else 0)
    assert current.seen == signal_file.read()


def test_catch_up__key_made_during_a_large_change__is_known_before_that_is_applied(
    flags: list[str], yields_cpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    switch_on(flags[:5])

    def pause(_: float) -> None:
        if not seen:
            make_key("meanwhile")
        seen.append((len(live_keys.state), len(switched_on())))

    monkeypatch.setattr(tables.time, "sleep", pause)
    current.catch_up()
    assert seen[:3] == [(0, 0), (1, 0), (1, 0)]
    assert current.seen != signal_file.read()
    assert current.seen_first != signal_file.read()  # known for certain only by the next look
    current.catch_up()
    assert len(live_keys.state) == 1


def test_catch_up__large_change_while_another_process_has_its_turn__waits_with_new_keys(
    flags: list[str], yields_cpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    switch_on(flags[:5])
    others = one_process_at_a_time(while_waiting=lambda: None)
    others.__enter__()

    def pause(_: float) -> None:
        seen.append((len(live_keys.state), len(switched_on())))
        if len(seen) == 1:
            make_key("meanwhile")
        if len(seen) == 3:
            others.__exit__(None, None, None)

    monkeypatch.setattr(tables.time, "sleep", pause)
    current.catch_up()
    assert seen[:3] == [(0, 0), (1, 0), (1, 0)]
    assert len(switched_on()) == 5


def test_catch_up__large_change_in_a_thread_that_keeps_the_cpu__waits_for_nobody(
    flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_pace", tables._Pace())
    monkeypatch.setattr(tables.time, "sleep", lambda _: pytest.fail("It waits."))
    switch_on(flags[:5])
    with one_process_at_a_time(while_waiting=lambda: None):
        current.catch_up()
    assert len(switched_on()) == 5


def test_catch_up__fails_halfway__is_done_again(flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    switch_on(flags[:5])
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "_apply", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            current.catch_up()
    current.catch_up()
    assert switched_on() == set(flags[:5])


def test_yield_cpu__thread_that_need_not__never_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(tables.time, "sleep", pauses.append)
    monkeypatch.setattr(tables, "_pace", tables._Pace())  # another test may have made this thread give way
    for _ in range(1000):
        tables.yield_cpu()
    assert tables._PAUSE not in pauses


def test_yield_cpu__thread_that_must__pauses_when_it_has_computed_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    clock = [0.0]
    monkeypatch.setattr(tables.time, "sleep", pauses.append)
    monkeypatch.setattr(tables.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(tables._pace, "pauses_at", 0.0)
    for _ in range(100):
        tables.yield_cpu()
        clock[0] += 0.001
    assert pauses.count(tables._PAUSE) == 50


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of this test, in which a clock goes on instead of time."""
    pauses: list[float] = []
    monkeypatch.setattr(tables.time, "sleep", pauses.append)
    monkeypatch.setattr(tables.time, "monotonic", lambda: sum(pauses))
    return pauses


def test_one_process_at_a_time__nobody_has_it__does_not_wait(waits: list[float]) -> None:
    for _ in range(2):
        with one_process_at_a_time(while_waiting=lambda: pytest.fail("It waits.")):
            pass
    assert not waits


def test_one_process_at_a_time__another_has_it_for_a_while__is_given_when_that_ends(waits: list[float]) -> None:
    others = one_process_at_a_time(while_waiting=lambda: None)
    others.__enter__()
    met: list[int] = []

    def meanwhile() -> None:
        met.append(len(waits))
        if len(met) == 3:
            others.__exit__(None, None, None)

    with one_process_at_a_time(while_waiting=meanwhile):
        assert met == [0, 1, 2]


def test_one_process_at_a_time__another_never_ends_it__goes_on_after_the_longest_wait(waits: list[float]) -> None:
    with one_process_at_a_time(while_waiting=lambda: None), one_process_at_a_time(while_waiting=lambda: None):
        assert tables.MAX_SECONDS_FOR_OTHERS <= sum(waits) < tables.MAX_SECONDS_FOR_OTHERS + 1


def test_one_process_at_a_time__file_cannot_be_opened__goes_on(
    waits: list[float], settings: Any, tmp_path: Path
) -> None:
    settings.RUNTIME_DIR = tmp_path / "missing"
    entered = []
    with one_process_at_a_time(while_waiting=lambda: None):
        entered.append(True)
    assert entered
    assert not waits


def test_one_process_at_a_time__block_fails__is_given_to_the_next(waits: list[float]) -> None:
    with pytest.raises(ZeroDivisionError), one_process_at_a_time(while_waiting=lambda: None):
        raise ZeroDivisionError
    with one_process_at_a_time(while_waiting=lambda: pytest.fail("It waits.")):
        pass
