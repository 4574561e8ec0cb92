"""The stored sample: who is in it, its bounds, and who leaves it."""

from __future__ import annotations

import logging
import random
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
import time_machine
from django.db import OperationalError, connection

from config.management import maintenance
from config.models import Environment
from events.removal import erase_user
from flags.models import RecentUser, RecentUserSampling
from flags.usage import sample_storage as recent_users
from flags.usage.previews import NoSample, read_sample
from flags.usage.recent_users import RENEWED_AFTER, RecentUsers
from flags.usage.sample import PERIOD, POSITIONS, Sample, position
from flags.usage.sample_storage import SampleStorage
from tests.conftest import NOON
from tests.flags.usage.users import lowest, prepared, seen, store, store_all, stored, waiting
from tests.threads import Threads

DAY = timedelta(days=1)
IDS = [f"user-{number}" for number in range(6_000)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit samples to 500 users."""
    monkeypatch.setattr(recent_users, "MAX_USERS", 500)
    monkeypatch.setattr(recent_users, "FEW", 250)
    monkeypatch.setattr(recent_users, "_WANTED", 400)
    monkeypatch.setattr("flags.usage.recent_users.MAX_USERS", 500)


def sample_of(environment: Environment, now: Any = NOON) -> Sample:
    sample = read_sample(environment, now)
    assert isinstance(sample, Sample)
    return sample


# --- who is in -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_store__users_of_very_different_frequency__are_sampled_alike(production: Environment) -> None:
    """One user in ten comes a hundred times as often, and is sampled as often as the others."""
    chance = random.Random(11)
    frequent = set(IDS[::10])
    seen = chance.choices(IDS, weights=[100 if user_id in frequent else 1 for user_id in IDS], k=60_000)
    collected = prepared()
    storage = SampleStorage(collected)
    with time_machine.travel(NOON, tick=False):
        for number, user_id in enumerate(seen):
            collected.record(production, user_id, {}, NOON)
            if number % 1000 == 0:
                storage.store()
        store_all(storage, collected)
    assert set(stored()) == lowest(seen, 500)
    share = len(frequent & set(stored())) / 500
    assert abs(share - len(frequent) / len(set(seen))) < 5 * (0.15 * 0.85 / 500) ** 0.5
    users = len(set(seen))
    assert users > 3000
    assert abs(sample_of(production).all_users / users - 1) < 5 / 500**0.5


def test_store__few_users__has_all_of_them(production: Environment) -> None:
    store(production, *map(seen, IDS[:700]))
    assert set(stored()) == set(IDS[:700])
    assert (sample_of(production).all_users, sample_of(production).share) == (700, 1)


@pytest.mark.usefixtures("small")
def test_store__by_many_workers_at_once__never_exceeds_the_bound(threads: Threads) -> None:
    production = Environment.objects.get(key="production")

    def work(seed: int) -> None:
        collected = prepared()
        storage = SampleStorage(collected)
        for user_id in random.Random(seed).sample(IDS, 3000):
            collected.record(production, user_id, {}, NOON)
        while any(users.waiting for users in collected._by_environment.values()):
            storage.store()
            assert RecentUser.objects.count() <= 500

    with time_machine.travel(NOON, tick=True), mock.patch.object(recent_users, "MAX_AT_ONCE", 100):
        for call in [threads.start(work, seed) for seed in range(4)]:
            call.result()
    seen = {user_id for seed in range(4) for user_id in random.Random(seed).sample(IDS, 3000)}
    assert set(stored()) == lowest(seen, 500)


@pytest.mark.usefixtures("small")
def test_store__more_than_fit_into_a_sample__lowers_the_limit(production: Environment) -> None:
    store(production, *map(seen, IDS))
    limit = RecentUserSampling.objects.get().limit
    assert limit == position(next(iter(lowest(IDS, 501) - lowest(IDS, 500))))
    store(production, *(seen(f"other-{number}") for number in range(2000)))
    assert len(stored()) == 500
    assert all(position(user_id) < RecentUserSampling.objects.get().limit < limit for user_id in stored())


def test_store__each_environment__has_its_own_sample(production: Environment, staging: Environment) -> None:
    collected = prepared()
    collected.record(production, "ada", {}, NOON)
    collected.record(staging, "bob", {}, NOON)
    with time_machine.travel(NOON, tick=False):
        SampleStorage(collected).store()
    samples = {key: [user.user_id for user in sample_of(row).users] for key, row in by_key(production, staging)}
    assert samples == {"production": ["ada"], "staging": ["bob"]}


def by_key(*environments: Environment) -> list[tuple[str, Environment]]:
    return [(environment.key, environment) for environment in environments]


# --- what is stored of users -----------------------------------------------------------------------------------------


def test_store__user_seen_again__adds_attributes_and_drops_those_no_longer_in_use(production: Environment) -> None:
    store(production, seen("ada", plan="free", country="CH", age=7), names=["plan", "country", "age"])
    store(production, seen("ada", plan="pro", langs=["de", 1]), names=["country"])
    assert stored() == {"ada": {"plan": "pro", "country": "CH", "langs": ["de", 1]}}


def test_store__user_seen_again_within_the_hour__writes_nothing(
    production: Environment, django_assert_max_num_queries: Any
) -> None:
    later = NOON + RENEWED_AFTER - timedelta.resolution
    store(production, seen("ada", plan="pro"))
    with django_assert_max_num_queries(5) as queries:
        store(production, seen("ada", later, plan="pro"))
    assert not any("INSERT" in query["sql"] for query in queries)
    assert RecentUser.objects.get().seen_at == NOON
    store(production, seen("ada", NOON + RENEWED_AFTER, plan="pro"))
    assert RecentUser.objects.get().seen_at == NOON + RENEWED_AFTER


def test_store__note_from_before_what_is_stored__leaves_the_newer_time(production: Environment) -> None:
    store(production, seen("ada", NOON, plan="pro"))
    store(production, seen("ada", NOON - DAY, plan="free"))
    assert RecentUser.objects.get().seen_at == NOON


def test_store__worker_that_stores_later_what_it_saw_earlier__adds_to_the_sample(production: Environment) -> None:
    store(production, seen("ada", NOON))
    store(production, seen("bob", NOON - timedelta(seconds=4)))
    sample = sample_of(production)
    assert ({user.user_id for user in sample.users}, sample.since) == ({"ada", "bob"}, NOON)


def test_store__many_users__takes_one_statement_to_read_and_one_to_write(
    production: Environment, django_assert_max_num_queries: Any
) -> None:
    notes = [seen(user_id, plan="pro") for user_id in IDS[: recent_users.MAX_AT_ONCE]]
    with django_assert_max_num_queries(10) as queries:  # of which six find or make the row of the environment
        store(production, *notes)
    assert sum('INTO "flags_recentuser"' in sql or "INTO flags_recentuser" in sql for sql in sqls(queries)) == 1


def sqls(queries: Any) -> list[str]:
    return [query["sql"] for query in queries]


# --- who leaves ------------------------------------------------------------------------------------------------------


def test_maintain__user_not_seen_for_seven_days__leaves(production: Environment) -> None:
    store(production, seen("ada", NOON), seen("bob", NOON + DAY))
    now = NOON + PERIOD + timedelta(hours=1)
    assert [user.user_id for user in sample_of(production, now).users] == ["bob"]
    assert recent_users.clean(now) == "deleted 1 not seen for 7 days"
    assert set(stored()) == {"bob"}
    assert maintenance.tasks["recent users"] is recent_users.clean


@pytest.mark.usefixtures("small")
def test_store__users_who_left_long_ago__make_room_first(production: Environment) -> None:
    store(production, *map(seen, IDS[:500]))
    later = NOON + PERIOD + DAY
    store(production, *(seen(user_id, later) for user_id in IDS[500:800]), now=later)
    assert set(stored()) == set(IDS[500:800])
    assert RecentUserSampling.objects.get().limit == POSITIONS


@pytest.mark.usefixtures("small")
def test_clean__few_users_below_the_limit__counts_further_ones_once_all_of_them_are_collected(
    production: Environment,
) -> None:
    store(production, *map(seen, IDS))
    low = RecentUserSampling.objects.get().limit
    now = NOON + PERIOD + DAY
    fewer = IDS[:1500]
    notes = [seen(user_id, now) for user_id in fewer]
    store(production, *notes, now=now)
    below = lowest(fewer, len([user_id for user_id in fewer if position(user_id) < low]))
    recent_users.clean(now)
    sampling = RecentUserSampling.objects.get()
    assert low < sampling.limit < POSITIONS
    store(production, *notes, now=now)
    assert len(stored()) > len(below)
    assert {user.user_id for user in sample_of(production, now).users} == below
    assert abs(sample_of(production, now).all_users / 1500 - 1) < 5 / len(below) ** 0.5

    recent_users.clean(now + DAY)  # not raised again before the week is over
    assert RecentUserSampling.objects.get().limit == sampling.limit
    later = now + PERIOD
    assert {user.user_id for user in sample_of(production, later).users} == set(stored())
    assert abs(sample_of(production, later).all_users / 1500 - 1) < 5 / 400**0.5


# --- erasure ---------------------------------------------------------------------------------------------------------


def test_erase_user__user_of_the_sample__leaves_it_in_this_environment(
    production: Environment, staging: Environment
) -> None:
    for environment in (production, staging):
        store(environment, seen("ada", plan="pro"), seen("bob"))
    erase_user("ada", production)
    assert set(RecentUser.objects.values_list("environment__key", "user_id")) == {
        ("production", "bob"), ("staging", "ada"), ("staging", "bob"),
    }  # fmt: skip


@pytest.mark.parametrize("is_stored_before", [True, False])
def test_erase_user__recorded_by_a_worker_before__does_not_come_back(
    production: Environment, is_stored_before: bool
) -> None:
    collected = prepared()
    storage = SampleStorage(collected)
    if is_stored_before:
        store(production, seen("ada"))
    with time_machine.travel(NOON, tick=False) as clock:
        collected.record(production, "ada", {}, NOON)
        clock.shift(1)
        erase_user("ada", production)
        storage.store()
        assert stored() == {}
        clock.shift(1)
        collected.record(production, "ada", {}, NOON + timedelta(seconds=2))
        storage.store()
    assert stored() == {"ada": {}}  # because the user came back


# --- outages ---------------------------------------------------------------------------------------------------------


def test_store__database_away__keeps_the_users_and_logs_it_once(
    production: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    collected = prepared()
    storage = SampleStorage(collected)
    with time_machine.travel(NOON, tick=False):
        with (
            mock.patch.object(recent_users, "insert", side_effect=OperationalError("away")),
            mock.patch.object(connection, "close"),
        ):
            for user_id in ("ada", "bob", "eve"):
                collected.record(production, user_id, {}, NOON)
                storage.store()
        assert (stored(), set(waiting(collected))) == ({}, {"ada", "bob", "eve"})
        storage.store()
    assert (set(stored()), waiting(collected)) == ({"ada", "bob", "eve"}, {})
    assert [record.message for record in caplog.records] == [
        "Cannot store the sample of recent users, and keep trying: away",
        "The sample of recent users is stored again",
    ]


def test_store__database_away_for_long__remembers_a_bounded_number_of_users(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flags.usage.recent_users.MAX_USERS", 500)
    collected = prepared()
    storage = SampleStorage(collected)
    with (
        time_machine.travel(NOON, tick=False),
        mock.patch.object(recent_users, "insert", side_effect=OperationalError("away")),
        mock.patch.object(connection, "close"),
    ):
        for number, user_id in enumerate(IDS):
            collected.record(production, user_id, {}, NOON)
            if number % 300 == 0:
                storage.store()
                assert len(waiting(collected)) < 1000
    with time_machine.travel(NOON, tick=False):
        store_all(storage, collected)
    assert lowest(IDS, 500) <= set(stored())


@pytest.mark.django_db(transaction=True)
def test_store__environment_that_is_gone__is_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    collected = prepared()
    collected._by_environment["production"].environment = Environment(pk=999_999, key="production")
    collected.record(Environment(key="production"), "ada", {}, NOON)
    SampleStorage(collected).store()
    assert (stored(), waiting(collected)) == ({}, {})
    assert [record.message for record in caplog.records] == ["The database refused recent users; they are dropped"]


# --- the setting -----------------------------------------------------------------------------------------------------


def test_store__switched_off__stores_nothing_and_deletes_the_sample(production: Environment, settings: Any) -> None:
    store(production, seen("ada"))
    settings.RECENT_USERS = False
    assert read_sample(production, NOON) is NoSample.OFF
    collected = prepared()
    collected.record(production, "bob", {}, NOON)
    SampleStorage(collected).store()
    assert (stored(), RecentUserSampling.objects.count()) == ({}, 0)
    settings.RECENT_USERS = True
    assert read_sample(production, NOON) is NoSample.EMPTY


def test_clean__switched_off__deletes_the_sample_and_says_so(production: Environment, settings: Any) -> None:
    store(production, seen("ada"))
    settings.RECENT_USERS = False
    assert recent_users.clean(NOON) == "deleted 1, because RECENT_USERS is off"
    assert stored() == {}


def test_erase_user__switched_off__deletes_the_user_all_the_same(production: Environment, settings: Any) -> None:
    store(production, seen("ada"), seen("bob"))
    settings.RECENT_USERS = False
    erase_user("ada", production)
    assert set(stored()) == {"bob"}


def test_store__nobody_recorded__asks_the_database_nothing(
    production: Environment, django_assert_max_num_queries: Any
) -> None:
    storage = SampleStorage(RecentUsers())
    storage.store()
    with django_assert_max_num_queries(0):
        storage.store()
