"""Previews of changes for recent users: how many see something else, which ones, and what is unknown."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from config import snapshot
from config.models import Environment
from experiments.exposures.recording import assign
from flags.engine.compiling import compile_flag, compile_segment
from flags.engine.evaluation import evaluate
from flags.engine.types import Configuration, Context
from flags.snapshot import configuration
from flags.usage.comparison import MAX_EXAMPLES, compare
from flags.usage.previews import NoSample, preview_changes
from flags.usage.sample import Sample, User, position
from tests.conftest import NOON
from tests.factories import ExperimentFactory, FlagFactory
from tests.flags.engine.experiments import experiment_rule
from tests.flags.usage.users import seen, store

PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
SWISS = {"attribute": "country", "operator": "in", "value": ["CH", "LI"]}
COLOURS = [{"key": "blue", "value": 1}, {"key": "red", "value": 2}]


def configured(*flags: Mapping[str, Any], segments: Any = ()) -> Configuration:
    return Configuration(
        {flag["key"]: compile_flag(flag) for flag in flags},
        {segment["key"]: compile_segment(segment) for segment in segments},
    )


def flag(*rules: Any, key: str = "f", enabled: bool = True, **more: Any) -> dict[str, Any]:
    return {"key": key, "enabled": enabled, "rules": list(rules), **more}


def percentage(share: float, **more: Any) -> dict[str, Any]:
    return {"type": "percentage", "percentage": share, **more}


def sample(number: int = 300, share: float = 0.5) -> Sample:
    chance = random.Random(3)
    ids = sorted((f"user-{at}" for at in range(number)), key=position)
    values = {"plan": ["pro", "free"], "country": ["CH", "DE", "LI"], "age": [17, 18, 40]}
    attributes = [{name: chance.choice(each) for name, each in values.items() if chance.random() < 0.7} for _ in ids]
    return Sample([User(*user) for user in zip(ids, attributes, strict=True)], NOON - timedelta(days=3), share)


CHANGES = {
    "more": (flag(percentage(10)), flag(percentage(60))),
    "on": (flag(percentage(10), enabled=False), flag(percentage(10))),
    "created": (None, flag()),
    "conditions": (flag(percentage(40, conditions=[PRO])), flag({"type": "attribute", "conditions": [SWISS]})),
    "order": (flag(percentage(50), percentage(90, conditions=[PRO])), flag(percentage(90, conditions=[PRO]))),
    "segment": (flag(), flag({"type": "segment", "segment": "adults"})),
    "variant": (
        flag(percentage(100, variant="red"), type="number", variants=COLOURS),
        flag(percentage(50, variant="blue"), percentage(100, variant="red"), type="number", variants=COLOURS),
    ),
    "value": (
        flag(percentage(50), type="number", variants=COLOURS, defaultVariant="red", offVariant="blue"),
        flag(percentage(50), type="number", variants=[COLOURS[0], {"key": "red", "value": 3}],
             defaultVariant="red", offVariant="blue"),
    ),
    "reason alone": (flag(), flag(percentage(100))),
    "nothing": (flag(percentage(30)), flag(percentage(30))),
    "prerequisite": (
        flag(percentage(50), prerequisites=[{"flag": "base"}]), flag(percentage(50)),
    ),
    "starts": (
        flag(percentage(100)), flag(experiment_rule()),
    ),
}  # fmt: skip
ADULTS = {"key": "adults", "conditions": [{"attribute": "age", "operator": "greaterThanOrEqual", "value": 18}]}
BASE = flag(percentage(30, conditions=[SWISS]), key="base")


def test_compare__any_change__counts_what_one_by_one_would() -> None:
    for name in CHANGES:
        before, after = (configured(*([made] if made else []), BASE, segments=[ADULTS]) for made in CHANGES[name])
        users = sample()
        expected = [user.user_id for user in users.users if _differs(user, before, after)]
        preview = compare(users, before=before, after=after, flags=["f"], now=NOON)
        assert (preview.users, preview.changed) == (300, len(expected)), name
        assert [example.user_id for example in preview.examples] == expected[:MAX_EXAMPLES], name
        assert (preview.all_users, preview.since) == (600, NOON - timedelta(days=3)), name
        assert preview.share == len(expected) / 300, name
        assert (name in ("reason alone", "nothing")) is not expected, name


def _differs(user: User, before: Configuration, after: Configuration) -> bool:
    seen = []
    for each in (before, after):
        made = each.flags.get("f")
        answer = dict(evaluate(made, Context(user.user_id, user.attributes, each, NOON)).answer) if made else {}
        seen.append({name: value for name, value in answer.items() if name != "reason"})
    return seen[0] != seen[1]


def test_compare__several_flags__counts_each_user_once() -> None:
    before = configured(flag(percentage(10)), flag(percentage(10), key="g"))
    after = configured(flag(percentage(50)), flag(percentage(50), key="g"))
    users = sample()
    alone = [compare(users, before=before, after=after, flags=[key], now=NOON).changed for key in ("f", "g")]
    both = compare(users, before=before, after=after, flags=["f", "g"], now=NOON)
    assert max(alone) < both.changed < sum(alone)
    assert {example.flag for example in both.examples} == {"f", "g"}


def test_compare__examples__say_what_users_see_before_and_after() -> None:
    preview = compare(sample(), before=configured(), after=configured(flag()), flags=["f"], now=NOON)
    assert {(example.before, example.after.enabled if example.after else None) for example in preview.examples} == {
        (None, True)
    }
    assert len(preview.examples) == MAX_EXAMPLES


def test_compare__attribute_that_no_user_has__is_named() -> None:
    conditions = [PRO, {**PRO, "attribute": "tier"}, {"operator": "inSegment", "value": "old"}]
    rule = percentage(50, conditions=conditions, bucketBy="company")
    old = {"key": "old", "conditions": [{**PRO, "attribute": "since"}, {"operator": "inSegment", "value": "old"}]}
    after = configured(flag(rule), segments=[old])
    preview = compare(sample(), before=configured(flag()), after=after, flags=["f"], now=NOON)
    assert preview.unknown_attributes == ["company", "since", "tier"]


def test_compare__stored_variants__are_kept() -> None:
    users = sample()
    before, after = configured(flag(percentage(0))), configured(flag(experiment_rule(percentage=0), percentage(0)))
    assigned = {user.user_id: {"checkout": "treatment"} for user in users.users[:20]}
    preview = compare(users, before=before, after=after, flags=["f"], now=NOON, assigned=assigned)
    assert preview.changed == 20


# --- with the database -----------------------------------------------------------------------------------------------


def changed(environment: Environment, key: str, **changes: Any) -> dict[str, Any]:
    """Return a flag as it would be after a change."""
    snapshot.refresh()
    return {**configuration(environment.key).flags[key].source, **changes}


def test_preview_changes__no_user_yet_or_switched_off__says_so(production: Environment, settings: Any) -> None:
    FlagFactory(key="f", on=True)
    off = [changed(production, "f", enabled=False)]
    assert preview_changes(production, changed=off, now=NOON) is NoSample.EMPTY
    store(production, seen("ada"))
    assert preview_changes(production, changed=off, now=NOON + timedelta(days=8)) is NoSample.EMPTY
    settings.RECENT_USERS = False
    assert preview_changes(production, changed=off, now=NOON) is NoSample.OFF


def test_preview_changes__users_of_an_experiment__keep_their_variants(
    production: Environment, django_assert_max_num_queries: Any
) -> None:
    FlagFactory(key="f", on=True)
    FlagFactory(key="g", on=True, prerequisites=[{"flag": "f"}])
    serves = {"control": False, "green": True}
    running = ExperimentFactory(key="e", flag={"key": "f", "serves": serves}, running=True)
    ids = [f"user-{number}" for number in range(100)]
    store(production, *map(seen, ids))
    for user_id in ids[:60]:
        assign(running.pk, user_id, "green", NOON)
    for_all = changed(production, "f", rules=[percentage(100)])
    before = configuration("production")
    off = changed(production, "g", enabled=False)
    with django_assert_max_num_queries(3):
        previews = preview_changes(production, changed=[for_all, off], now=NOON)
    assert not isinstance(previews, NoSample)
    control = [
        user_id for user_id in ids[60:] if not evaluate(before.flags["f"], Context(user_id, {}, before, NOON)).enabled
    ]
    assert 0 < len(control) < 40
    assert [preview.changed for preview in previews] == [len(control), 100 - len(control)]
    assert {example.user_id for example in previews[0].examples} <= set(control)
