"""Past configurations from the change log, and the evaluations that they give."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from config.access.environments import create_environment
from config.errors import DomainError
from config.models import Change, Environment
from flags.changes.flag_changes import create_flag, delete_flag, update_flag
from flags.changes.past import configuration_at
from flags.changes.segment_changes import create_segment, update_segment
from flags.engine.evaluation import evaluate
from flags.engine.types import Configuration, Context, Evaluation
from flags.snapshot import compiled, configuration
from tests.conftest import ACTOR, NOON
from tests.flags.changes.random_changes import RandomChanges

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
START = NOON + 1000 * DAY  # after the environments of the database were made
USERS = [f"u{at}" for at in range(5)]


def write(day: int) -> dict[str, Any]:
    return {"actor": ACTOR, "now": START + day * DAY}


def answers(flag_key: str, now: Configuration) -> list[Evaluation]:
    contexts = [Context(user, {"n": at}, now, NOON) for at, user in enumerate(USERS)]
    return [evaluate(now.flags[flag_key], context) for context in contexts]


def test_past__random_changes__answers_as_it_did_then(db: None) -> None:
    changes, chance = RandomChanges(seed=5), Random(5)
    seen: list[tuple[str, str, datetime, int, Configuration]] = []
    for _ in range(400):
        changes.make()
        compiled.load()
        environment = chance.choice(["production", "production", "staging"])
        now = configuration(environment)
        if now.flags:
            key = chance.choice(sorted(now.flags))
            seen.append((key, environment, changes.at, Change.objects.latest_revision(), now))

    assert len({str(answers(key, now)) for key, *_, now in seen}) > 10
    for key, environment, moment, revision, now in seen:
        then, of = configuration_at(key, environment, moment)
        assert (answers(key, then), of) == (answers(key, now), revision)
        assert then.flags == {key: now.flags[key] for key in then.flags}
        assert then.segments == {key: now.segments[key] for key in then.segments}


def test_past__prerequisites_and_segments_changed_since__are_those_of_then(production: Environment) -> None:
    create_segment(key="inner", user_ids=["u1"], **write(0))
    create_segment(key="beta", conditions=[{"operator": "inSegment", "value": "inner"}], **write(0))
    create_segment(key="other", **write(0))
    beta = [{"type": "segment", "segment": "beta"}]
    create_flag(key="base", environment=production, enabled=True, rules=beta, **write(0))
    create_flag(key="a", environment=production, enabled=True, prerequisites=[{"flag": "base"}], **write(0))
    create_flag(key="unrelated", environment=production, **write(0))
    update_segment(key="inner", changes={"user_ids": []}, **write(1))
    update_flag(key="a", environment=production, changes={"prerequisites": []}, **write(2))

    then, _ = configuration_at("a", "production", START)
    assert set(then.flags) == {"a", "base"}
    assert set(then.segments) == {"beta", "inner"}
    assert [answer.enabled for answer in answers("a", then)] == [False, True, False, False, False]
    assert not any(answer.enabled for answer in answers("a", configuration_at("a", "production", START + DAY)[0]))
    assert all(answer.enabled for answer in answers("a", configuration_at("a", "production", START + 2 * DAY)[0]))


def test_past__moment_of_a_change__counts_as_after_it(production: Environment) -> None:
    create_flag(key="a", environment=production, **write(0))
    update_flag(key="a", environment=production, changes={"enabled": True}, **write(1))
    just_before = START + DAY - timedelta(microseconds=1)

    assert configuration_at("a", "production", START + DAY)[0].flags["a"].enabled
    assert not configuration_at("a", "production", just_before)[0].flags["a"].enabled


def test_past__key_given_to_another_flag__is_the_flag_of_then(production: Environment) -> None:
    create_flag(key="a", environment=production, enabled=True, **write(0))
    delete_flag(key="a", environment=production, **write(1))
    create_flag(key="a", environment=production, **write(2))

    assert configuration_at("a", "production", START)[0].flags["a"].enabled
    assert not configuration_at("a", "production", START + 2 * DAY)[0].flags["a"].enabled


@pytest.mark.parametrize("days", [-1, 1])
def test_past__flag_not_there_then__is_not_found_and_the_moment_is_to_blame(production: Environment, days: int) -> None:
    create_flag(key="a", environment=production, **write(0))
    delete_flag(key="a", environment=production, **write(1))
    with pytest.raises(DomainError) as refused:
        configuration_at("a", "production", START + days * DAY)

    assert refused.value.code == "flag_not_found"
    assert [detail.field for detail in refused.value.details] == ["at"]


def test_past__unknown_or_impossible_key__is_not_found(db: None) -> None:
    for key in ["nothing", "", "\0", "a/b"]:
        with pytest.raises(DomainError) as refused:
            configuration_at(key, "production", START)

        assert refused.value.code == "flag_not_found"


def test_past__environment_younger_than_the_moment__had_the_flag_off(production: Environment) -> None:
    create_flag(key="a", environment=production, enabled=True, **write(0))
    create_environment(key="qa", name="QA", **write(1))

    assert not configuration_at("a", "qa", START)[0].flags["a"].enabled


def test_past__chains_of_flags_and_segments__take_one_query_a_step(
    production: Environment, django_assert_num_queries: Any
) -> None:
    create_segment(key="inner", **write(0))
    for at in range(5):
        asks = [{"operator": "inSegment", "value": "inner"}]
        create_segment(key=f"s{at}", conditions=asks, **write(0))
        rules = [{"type": "segment", "segment": f"s{at}"}]
        create_flag(key=f"f{at}", environment=production, rules=rules, **write(0))
    needed = [{"flag": f"f{at}"} for at in range(5)]
    create_flag(key="a", environment=production, prerequisites=needed, **write(0))

    with django_assert_num_queries(7):
        configuration_at("a", "production", START)
