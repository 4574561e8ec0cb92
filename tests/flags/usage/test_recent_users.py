"""Recording users in the memory of a worker: which users and attributes, how often, and how many."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.test import TestCase

from config import snapshot
from config.access.environments import create_environment
from config.models import Environment, Scope
from flags.engine.bucketing import BUCKETS, bucket
from flags.usage import recent_users
from flags.usage.attributes import MAX_BYTES, MAX_VALUE_BYTES
from flags.usage.recent_users import RENEWED_AFTER
from flags.usage.sample import POSITIONS, position
from tests.answers import data
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory
from tests.flags.usage.users import lowest, prepared, waiting

IDS = [f"user-{number}" for number in range(40_000)]
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}


# --- positions -------------------------------------------------------------------------------------------------------


def test_position__user__never_changes() -> None:
    assert [position(user_id) for user_id in ("ada", "größe", "🙂")] == [3940032760, 1740148166, 2583294741]


def test_position__low__says_nothing_about_buckets() -> None:
    """The standard deviation of the share is 0.5 %, so five of them are never reached by chance."""
    sample = lowest(IDS, 10_000)
    for salt in ("new-checkout", "a", "a:variant"):
        share = sum(bucket(salt, user_id) < BUCKETS / 2 for user_id in sample) / len(sample)
        assert abs(share - 0.5) < 0.025, salt


# --- users -----------------------------------------------------------------------------------------------------------


def test_record__further_environment__records_its_users_once_prepared(production: Environment) -> None:
    collected = prepared()
    with TestCase.captureOnCommitCallbacks(execute=True):
        further = create_environment(key="qa", name="QA", actor=ACTOR, now=NOON)
    collected.record(further, "early", {}, NOON)
    snapshot.refresh()
    collected.prepare(NOON)
    collected.record(further, "ada", {}, NOON)
    collected.record(production, "bob", {}, NOON)
    assert waiting(collected) == {"ada": {}, "bob": {}}


def test_record__same_user__is_recorded_once_an_hour(production: Environment) -> None:
    collected = prepared()
    for at in (NOON, NOON + RENEWED_AFTER - timedelta.resolution):
        collected.prepare(at)
        collected.record(production, "ada", {}, at)
    assert [user for _, users in collected.pop_lowest(9) for user in users] == [(position("ada"), "ada", NOON, {})]
    collected.record(production, "ada", {}, NOON)
    assert waiting(collected) == {}
    collected.prepare(NOON + RENEWED_AFTER)
    collected.record(production, "ada", {}, NOON + RENEWED_AFTER)
    assert waiting(collected) == {"ada": {}}


def test_record__anonymous_user__is_not_recorded(production: Environment) -> None:
    collected = prepared()
    collected.record(production, "", {"plan": "pro"}, NOON)
    collected.prepare(NOON + RENEWED_AFTER)
    collected.record(production, "", {"plan": "pro"}, NOON)
    assert waiting(collected) == {}


def test_record__user_at_the_limit_or_above__is_not_recorded(production: Environment) -> None:
    collected = prepared()
    users = collected._by_environment["production"]
    collected.follow_sampling(users, limit=position("ada"), erased_at=None)
    for user_id in IDS[:1000]:
        collected.record(production, user_id, {}, NOON)
    collected.record(production, "ada", {}, NOON)
    assert set(waiting(collected)) == {user_id for user_id in IDS[:1000] if position(user_id) < position("ada")}
    assert 0 < len(waiting(collected)) < 1000


def test_record__more_users_than_a_sample_has__keeps_the_lowest(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_users, "MAX_USERS", 500)
    collected = prepared()
    for number, user_id in enumerate(IDS):
        collected.record(production, user_id, {}, NOON)
        assert number % 100 or len(waiting(collected)) < 1000
    users = collected._by_environment["production"]
    assert len(users.recorded) <= 1001
    assert lowest(IDS, 500) <= set(waiting(collected))


def test_record__many_threads__loses_no_user(production: Environment) -> None:
    collected = prepared()
    users = IDS[:4000]
    taken: list[str] = []

    def see() -> None:
        for user_id in users:
            collected.record(production, user_id, {}, NOON)

    threads = [threading.Thread(target=see) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        taken += [user.user_id for _, users in collected.pop_lowest(100) for user in users]
    taken += waiting(collected)
    assert set(taken) == set(users)


def test_put_back__user_recorded_since__keeps_the_newer(production: Environment) -> None:
    collected = prepared()
    for user_id in ("ada", "bob"):
        collected.record(production, user_id, {}, NOON)
    [(users, taken)] = collected.pop_lowest(9)
    collected.follow_sampling(users, POSITIONS, erased_at=NOON)
    collected.record(production, "ada", {}, NOON + RENEWED_AFTER)
    collected.put_back(users, taken)
    [(_, popped)] = collected.pop_lowest(9)
    assert {user.user_id: user.seen_at for user in popped} == {"ada": NOON + RENEWED_AFTER, "bob": NOON}


# --- attributes ------------------------------------------------------------------------------------------------------


@pytest.fixture
def conditions(api: Any, production: Environment) -> None:
    """Conditions that read six attributes."""
    data(api.post("/v1/segments", {"key": "beta", "conditions": [{**PRO, "attribute": "of-segment"}]}), status=201)
    FlagFactory(key="f", on=True, rules=[
        {"type": "attribute", "conditions": [PRO, {**PRO, "attribute": "userId"}]},
        {"type": "percentage", "percentage": 50, "bucketBy": "company"},
        {"type": "segment", "segment": "beta"},
    ])  # fmt: skip
    ExperimentFactory(key="draft", conditions=[{**PRO, "attribute": "of-draft"}])
    ExperimentFactory(key="running", running=True, conditions=[{**PRO, "attribute": "of-running"}])
    ExperimentFactory(key="stopped", stopped=True, conditions=[{**PRO, "attribute": "of-stopped"}])


@pytest.mark.usefixtures("conditions")
def test_record__attributes__keeps_those_that_something_reads(production: Environment, staging: Environment) -> None:
    used = {"plan": "pro", "company": 7, "of-segment": [1, "a"], "of-draft": False, "of-running": 1.5}
    attributes = {**used, "email": "ada@example.com", "of-stopped": 1, "userId": "eve"}
    collected = prepared()
    collected.record(production, "ada", attributes, NOON)
    assert waiting(collected) == {"ada": used}
    collected = prepared()
    collected.record(staging, "ada", attributes, NOON)
    assert waiting(collected) == {"ada": {name: used[name] for name in ("plan", "company", "of-segment")}}


def test_record__attributes_within_objects__keeps_what_conditions_read(production: Environment) -> None:
    conditions = [{**PRO, "attribute": name} for name in ("company.plan", "company.size", "plan")]
    FlagFactory(on=True, rules=[{"type": "attribute", "conditions": conditions}])
    collected = prepared()
    company = {"plan": "pro", "name": "Ada & Co", "size": {"from": 1}}
    collected.record(production, "ada", {"company": company, "company.size": 7}, NOON)
    assert waiting(collected) == {"ada": {"company.plan": "pro", "company.size": 7}}


@pytest.mark.usefixtures("conditions")
def test_record__missing_or_null_or_long_attributes__leaves_them_out(production: Environment) -> None:
    collected = prepared()
    attributes = {"plan": "x" * (MAX_VALUE_BYTES - 1), "company": "x" * (MAX_VALUE_BYTES - 2), "of-draft": None}
    collected.record(production, "ada", attributes, NOON)
    assert waiting(collected) == {"ada": {"company": attributes["company"]}}


def test_record__many_long_attributes__keeps_what_fits(production: Environment) -> None:
    names = [f"name-{number}" for number in range(50)]
    FlagFactory(on=True, rules=[{"type": "attribute", "conditions": [{**PRO, "attribute": name} for name in names]}])
    collected = prepared()
    collected.record(production, "ada", dict.fromkeys(names, "x" * 900), NOON)
    assert sum(map(len, waiting(collected)["ada"].values())) in range(MAX_BYTES - 1000, MAX_BYTES)


def test_prepare__rule_reads_a_further_attribute__records_users_once_more(production: Environment) -> None:
    collected = prepared()
    collected.record(production, "ada", {"plan": "pro"}, NOON)
    assert [[user.attributes for user in users] for _, users in collected.pop_lowest(9)] == [[{}]]
    FlagFactory(on=True, rules=[{"type": "attribute", "conditions": [PRO]}])
    snapshot.refresh()
    collected.prepare(NOON)
    collected.record(production, "ada", {"plan": "pro"}, NOON)
    assert waiting(collected) == {"ada": {"plan": "pro"}}


# --- requests --------------------------------------------------------------------------------------------------------


@pytest.mark.both_lanes
def test_request__evaluates_or_gets_variants__records_the_user(
    subtests: pytest.Subtests, client_of: Any, production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    FlagFactory(key="f", on=True, rules=[{"type": "attribute", "conditions": [PRO]}])
    ExperimentFactory(key="e", running=True)
    client, collected = client_of(Scope.CLIENT), prepared()
    monkeypatch.setattr(recent_users, "of_process", collected)
    for path, body in [
        ("/v1/flags/f/evaluate", {"userId": "ada", "attributes": {"plan": "pro"}}),
        ("/v1/evaluate", {"userId": "ada", "attributes": {"plan": "pro"}}),
        ("/ofrep/v1/evaluate/flags/f", {"context": {"targetingKey": "ada", "plan": "pro"}}),
        ("/ofrep/v1/evaluate/flags", {"context": {"targetingKey": "ada", "plan": "pro"}}),
        ("/v1/experiments/e/variant", {"userId": "ada", "attributes": {"plan": "pro"}}),
        ("/v1/variants", {"userId": "ada", "attributes": {"plan": "pro"}}),
    ]:
        with subtests.test(path=path, body=body):
            assert client.post(path, body).status_code == 200
            assert waiting(collected) == {"ada": {"plan": "pro"}}


@pytest.mark.both_lanes
def test_request__repeated_variant_or_anonymous_user__records_only_users(
    client_of: Any, production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    FlagFactory(key="f", on=True)
    ExperimentFactory(key="e", running=True)
    client = client_of(Scope.CLIENT)
    client.post("/v1/experiments/e/variant", {"userId": "ada"})
    collected = prepared()
    monkeypatch.setattr(recent_users, "of_process", collected)
    client.post("/v1/experiments/e/variant", {"userId": "ada"})
    client.post("/ofrep/v1/evaluate/flags/f", {"context": {}})
    client.post("/v1/events", {"userId": "bob", "event": "page_viewed"})
    assert waiting(collected) == {"ada": {}}
