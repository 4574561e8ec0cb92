"""Counting evaluations: what counts and when, and how counts reach the database."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any
from unittest import mock

import pytest
import time_machine
from django.db import OperationalError, connection

from config.models import Environment, Scope
from flags.engine.types import Configuration, Context, Evaluation, Reason, Variant
from flags.models import LastUse, Usage, hour_of
from flags.usage import counting
from flags.usage import storage as usage_storage
from flags.usage.counting import Tally
from flags.usage.recent_users import RecentUsers
from flags.usage.sample_storage import SampleStorage
from flags.usage.storage import CountStorage
from flags.validation.parsing import parse_flag
from tests.answers import data, error
from tests.conftest import NOON
from tests.factories import FlagFactory
from tests.outage import database_away

ON_POSTGRESQL = connection.vendor == "postgresql"
ON, OFF = Evaluation(True, Reason.DEFAULT), Evaluation(False, Reason.DISABLED)
HOUR = timedelta(hours=1)

Stored = dict[tuple[str, str, datetime], int]


@pytest.fixture
def tally(monkeypatch: pytest.MonkeyPatch) -> Tally:
    """Return the tally of requests, emptied."""
    made = Tally()
    monkeypatch.setattr(counting, "tally", made)
    return made


@pytest.fixture
def storage(tally: Tally, db: None) -> Iterator[CountStorage]:
    with time_machine.travel(NOON, tick=False):
        yield CountStorage(tally)


def stored() -> Stored:
    return {(row.flag_key, row.outcome, row.hour): row.count for row in Usage.objects.all()}


def counted(tally: Tally) -> dict[str, dict[str, int]]:
    """Return the counts by flag and outcome, over all hours and environments."""
    return {
        key: dict(by_outcome)
        for counts in tally.pop().values()
        for by_key in counts.values()
        for key, by_outcome in by_key.items()
    }


# --- in the process --------------------------------------------------------------------------------------------------


def test_tally__several_requests__adds_them_up_by_environment_flag_and_outcome() -> None:
    tally = Tally()
    tally.add(1, {"a": ON, "b": OFF}, NOON)
    tally.add(1, {"a": ON}, NOON)
    tally.add(2, {"a": OFF}, NOON)
    assert tally.pop() == {NOON: {1: {"a": {"on": 2}, "b": {"off": 1}}, 2: {"a": {"off": 1}}}}
    assert tally.pop() == {}


def test_tally__moment__counts_in_its_own_hour(subtests: pytest.Subtests) -> None:
    tally = Tally()
    tally.add(1, {"a": ON}, NOON)
    tally.pop()
    for after, hour in [
        (timedelta(0), NOON), (HOUR - timedelta.resolution, NOON), (HOUR, NOON + HOUR), (-HOUR, NOON - HOUR),
    ]:  # fmt: skip
        with subtests.test(after=after, hour=hour):
            tally.add(1, {"a": ON}, NOON + after)
            assert tally.pop() == {hour: {1: {"a": {"on": 1}}}}


def test_tally__clock_that_goes_back_and_forth__keeps_the_hours_apart() -> None:
    tally = Tally()
    for after in (timedelta(0), HOUR, timedelta(0), HOUR):
        tally.add(1, {"a": ON}, NOON + after)
    assert tally.pop() == {NOON: {1: {"a": {"on": 2}}}, NOON + HOUR: {1: {"a": {"on": 2}}}}


def test_tally__given_back__is_added_to_what_was_counted_meanwhile() -> None:
    tally = Tally()
    tally.add(1, {"a": ON, "b": ON}, NOON)
    taken = tally.pop()
    tally.add(1, {"a": ON}, NOON)
    tally.put_back(taken)
    tally.add(1, {"a": OFF}, NOON)
    assert tally.pop() == {NOON: {1: {"a": {"on": 2, "off": 1}, "b": {"on": 1}}}}


def test_tally__any_requests__adds_up_what_one_by_one_would() -> None:
    chance, tally, expected = Random(7), Tally(), Counter[tuple[datetime, int, str, str]]()
    shapes = [["a"], ["b"], ["a", "b", "c"], ["c", "a"], []]
    answers = [ON, OFF, Evaluation(True, Reason.RULE_MATCH, Variant("blue", 1))]
    for _ in range(1000):
        environment_id, at = chance.choice([1, 2]), NOON + chance.choice([0, 0, 0, 1]) * HOUR
        request = {key: chance.choice(answers) for key in chance.choice(shapes)}
        tally.add(environment_id, request, at)
        expected.update((at, environment_id, key, evaluation.outcome) for key, evaluation in request.items())
    assert (
        Counter(
            {
                (hour, environment_id, key, outcome): number
                for hour, counts in tally.pop().items()
                for environment_id, by_key in counts.items()
                for key, by_outcome in by_key.items()
                for outcome, number in by_outcome.items()
            }
        )
        == expected
    )


def test_tally__many_threads__loses_none() -> None:
    tally = Tally()
    threads = [threading.Thread(target=lambda: [tally.add(1, {"a": ON}, NOON) for _ in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    number = 0
    while any(thread.is_alive() for thread in threads):
        number += sum_of(tally)
    for thread in threads:
        thread.join()
    assert number + sum_of(tally) == 8000


def sum_of(tally: Tally) -> int:
    return sum(number for by_outcome in counted(tally).values() for number in by_outcome.values())


def test_count__context__counts_prerequisites_too(tally: Tally, production: Environment) -> None:
    context = Context("ada", {}, Configuration({}, {}), NOON, {"asked": ON, "needed": OFF})
    counting.count(production, context)
    assert counted(tally) == {"asked": {"on": 1}, "needed": {"off": 1}}


# --- in requests -----------------------------------------------------------------------------------------------------


@pytest.fixture
def flags(api: Any) -> None:
    """A flag of two colours that needs the flag `base`; and `old`, which is archived."""
    colours = [{"key": "blue", "value": 1}, {"key": "red", "value": 2}]
    FlagFactory(key="base", on=True)
    FlagFactory(key="colour", on=True, type="number", variants=colours, prerequisites=[{"flag": "base"}])
    FlagFactory(key="old")
    data(api.post("/v1/flags/old/archive"))


BASE, COLOUR = {"base": {"on": 1}}, {"colour": {"blue": 1}}


@pytest.mark.usefixtures("flags")
def test_request__each_flag_that_it_evaluates__counts_once(subtests: pytest.Subtests, api: Any, tally: Tally) -> None:
    for path, body, expected in [
        ("/v1/flags/base/evaluate", {"userId": "ada"}, BASE),
        ("/v1/flags/colour/evaluate", {"userId": "ada"}, BASE | COLOUR),
        ("/v1/flags/old/evaluate", {"userId": "ada"}, {"old": {"off": 1}}),
        ("/v1/evaluate", {"userId": "ada"}, BASE | COLOUR),
        ("/v1/evaluate", {"userId": "ada", "flags": ["colour", "nope"]}, BASE | COLOUR),
        ("/ofrep/v1/evaluate/flags/base", {"context": {"targetingKey": "ada"}}, BASE),
        ("/ofrep/v1/evaluate/flags/colour", {"context": {"targetingKey": "ada"}}, BASE | COLOUR),
        ("/ofrep/v1/evaluate/flags", {"context": {"targetingKey": "ada"}}, BASE | COLOUR),
        ("/v1/flags/colour/explain", {"userId": "ada"}, {}),
    ]:
        with subtests.test(path=path, body=body):
            assert api.post(path, body).status_code == 200
            assert counted(tally) == expected


@pytest.mark.usefixtures("flags")
def test_request__refused_or_not_modified__counts_nothing(api: Any, tally: Tally) -> None:
    error(api.post("/v1/flags/nope/evaluate", {"userId": "ada"}), 404, "flag_not_found")
    error(api.post("/v1/flags/base/evaluate", {"userId": 1}), 400, "validation_failed")
    path, body = "/ofrep/v1/evaluate/flags", {"context": {"targetingKey": "ada"}}
    etag = api.post(path, body)["ETag"]
    tally.pop()
    assert api.post(path, body, headers={"If-None-Match": etag}).status_code == 304
    assert counted(tally) == {}


def test_request__flag_that_needs_a_user_id__counts_the_others(api: Any, tally: Tally) -> None:
    FlagFactory(key="half", half=True)
    FlagFactory(key="plain", on=True)
    assert api.post("/ofrep/v1/evaluate/flags/half", {"context": {}}).status_code == 400
    assert api.post("/ofrep/v1/evaluate/flags", {"context": {}}).status_code == 200
    assert counted(tally) == {"plain": {"on": 1}}


def test_request__of_each_environment__counts_there(client_of: Any, tally: Tally, storage: CountStorage) -> None:
    FlagFactory(key="base", on=True)
    in_production, in_staging = (client_of(Scope.CLIENT, key) for key in ("production", "staging"))
    for client in (in_production, in_staging, in_production):
        data(client.post("/v1/flags/base/evaluate", {"userId": "ada"}))
    storage.store()
    rows = Usage.objects.values_list("environment__key", "outcome", "count")
    assert set(rows) == {("production", "on", 2), ("staging", "off", 1)}


# --- in the database -------------------------------------------------------------------------------------------------


def test_store__again_and_again__adds_to_what_is_there(
    tally: Tally, storage: CountStorage, production: Environment
) -> None:
    for number in (1, 2):
        for _ in range(number):
            tally.add(production.pk, {"a": ON, "b": OFF}, NOON)
        storage.store()
    CountStorage(tally).store()
    assert stored() == {("a", "on", NOON): 3, ("b", "off", NOON): 3}


def test_store__more_rows_than_fit_a_statement__stores_them_all(
    tally: Tally, storage: CountStorage, production: Environment
) -> None:
    for after in (timedelta(0), HOUR):
        tally.add(production.pk, {f"flag-{at}": ON for at in range(800)}, NOON + after)
    storage.store()
    assert Usage.objects.filter(count=1).count() == 1600
    assert LastUse.objects.filter(hour=NOON + HOUR).count() == 800


def test_store__nothing_counted__asks_the_database_nothing(
    storage: CountStorage, django_assert_max_num_queries: Any
) -> None:
    storage.store()
    with django_assert_max_num_queries(0):
        storage.store()


@pytest.mark.usefixtures("storage")
def test_store__last_use__is_the_newest_hour_whoever_stores_it_last(tally: Tally, production: Environment) -> None:
    for after in (HOUR, timedelta(0), 2 * HOUR, HOUR):
        tally.add(production.pk, {"a": ON}, NOON + after)
        CountStorage(tally).store()
    [last] = LastUse.objects.all()
    assert (last.flag_key, last.outcome, last.hour) == ("a", "on", NOON + 2 * HOUR)
    assert len(stored()) == 3


def test_store__same_hour__stores_the_last_use_once(
    tally: Tally, storage: CountStorage, production: Environment, django_assert_max_num_queries: Any
) -> None:
    tally.add(production.pk, {"a": ON}, NOON)
    storage.store()
    tally.add(production.pk, {"a": ON}, NOON)
    with django_assert_max_num_queries(3) as queries:  # the transaction around it begins and ends
        storage.store()
    assert sum("flags_usage" in query["sql"] for query in queries) == 1


def test_store__database_away__keeps_the_counts_and_logs_it_once(
    tally: Tally, storage: CountStorage, production: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with (
        mock.patch.object(usage_storage, "insert", side_effect=OperationalError("away")),
        mock.patch.object(connection, "close"),
    ):
        for _ in range(3):
            tally.add(production.pk, {"a": ON}, NOON)
            storage.store()
    assert stored() == {}
    storage.store()
    storage.store()
    assert stored() == {("a", "on", NOON): 3}
    assert [record.message for record in caplog.records] == [
        "Cannot store the usage of flags, and keep trying: away",
        "The usage of flags is stored again",
    ]


@contextmanager
def breaking_commit(*, is_committed: bool) -> Iterator[None]:
    """Break the connection during COMMIT, before or after the database has committed."""
    commit = connection._commit

    def fail() -> None:
        if is_committed:
            commit()
        if ON_POSTGRESQL:  # SQLite would lose the database in memory with it
            connection.connection.close()
        raise OperationalError("the connection is lost")

    with mock.patch.object(connection, "_commit", fail):
        yield


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "is_committed",
    [False, pytest.param(True, marks=pytest.mark.skipif(not ON_POSTGRESQL, reason="SQLite has no such connection"))],
)
def test_store__connection_breaks_during_commit__counts_nothing_twice(is_committed: bool) -> None:
    tally, environment = Tally(), Environment.objects.get(key="production")
    storage = CountStorage(tally)
    storage.store()  # which cleans, once a day
    tally.add(environment.pk, {"a": ON}, NOON)
    with breaking_commit(is_committed=is_committed):
        storage.store()
    tally.add(environment.pk, {"a": ON}, NOON)
    with database_away():
        storage.store()
    for _ in range(3):
        storage.store()
    # PostgreSQL may have committed, so nothing is sent again. SQLite says what happened.
    assert (stored(), tally.pop()) == ({("a", "on", NOON): 2 if is_committed or not ON_POSTGRESQL else 1}, {})


@pytest.mark.django_db(transaction=True)
def test_store__environment_that_is_gone__is_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    tally = Tally()
    tally.add(999_999, {"a": ON}, NOON)
    CountStorage(tally).store()
    assert (stored(), tally.pop()) == ({}, {})
    assert [record.message.partition(";")[0] for record in caplog.records] == [
        "The database refused the counts of the usage of flags"
    ]


def test_store__what_is_older_than_90_days__is_deleted_once_a_day(
    tally: Tally, storage: CountStorage, production: Environment
) -> None:
    with time_machine.travel(NOON, tick=False) as clock:
        tally.add(production.pk, {"old": ON}, NOON - timedelta(days=90, hours=1))
        tally.add(production.pk, {"kept": ON}, NOON - timedelta(days=90))
        storage.store()
        assert {key for key, *_ in stored()} == {"old", "kept"}
        clock.shift(timedelta(hours=23))
        storage.store()
        assert {key for key, *_ in stored()} == {"old", "kept"}
        clock.shift(timedelta(hours=1))
        storage.store()
    assert stored() == {}
    assert not LastUse.objects.exists()


def test_delete_old__rows_of_all_ages__deletes_what_is_older_than_90_days_and_says_so(
    tally: Tally, storage: CountStorage, production: Environment
) -> None:
    with time_machine.travel(NOON - timedelta(days=1), tick=False):
        tally.add(production.pk, {"old": ON}, NOON - timedelta(days=90, hours=1))
        tally.add(production.pk, {"kept": ON}, NOON - timedelta(days=90))
        storage.store()
    assert usage_storage.delete_old(NOON) == "deleted 2 older than 90 days"
    assert {key for key, *_ in stored()} == set(LastUse.objects.values_list("flag_key", flat=True)) == {"kept"}
    assert usage_storage.delete_old(NOON) == "deleted 0 older than 90 days"


def test_thread__ended__has_stored_all_that_was_counted(tally: Tally) -> None:
    thread = usage_storage.StoringThread(tally, RecentUsers())
    with (
        mock.patch.object(CountStorage, "store") as store,
        mock.patch.object(SampleStorage, "store") as store_recent_users,
        mock.patch.object(connection, "close"),
    ):
        thread.start()
        thread.end()
    assert not thread.is_alive()
    assert (store.call_count, store_recent_users.call_count) == (1, 1)


def test_hour__of_a_moment_in_another_time_zone__is_that_of_utc() -> None:
    assert hour_of(datetime.fromisoformat("2026-01-31T12:59:59.999999+05:30")) == NOON - 5 * HOUR


def test_outcome__of_a_compiled_flag__is_what_is_counted(tally: Tally, production: Environment) -> None:
    flag = parse_flag({"key": "a", "enabled": True, "rules": []})
    counting.count(production, Context("ada", {}, Configuration({"a": flag}, {}), NOON, {"a": flag.otherwise}))
    assert counted(tally) == {"a": {"on": 1}}
