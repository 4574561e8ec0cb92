"""Evaluation: reasons, the order of rules, audiences and shares, and the values served."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import pytest

from flags.engine import evaluation
from flags.engine.types import Attributes, Configuration, Context, Evaluation, Flag, Reason
from flags.validation.parsing import parse_flag, parse_segment
from tests.flags.engine.reference import load_vectors, reference_bucket, reference_variant

KEY = "new-checkout"
USER = "user-1"
ALL = {"type": "percentage", "percentage": 100}
NOBODY = {"type": "percentage", "percentage": 0}
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
ADULT = {"attribute": "age", "operator": "greaterThanOrEqual", "value": 18}

MATCH = Evaluation(True, Reason.RULE_MATCH)
NO_MATCH = Evaluation(False, Reason.NO_RULE_MATCH)


NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)
COLOURS = {
    "type": "string",
    "variants": [{"key": "red", "value": "#f00"}, {"key": "green", "value": "#0f0"}, {"key": "blue", "value": "#00f"}],
}


def flag(*rules: dict[str, Any], enabled: bool = True, key: str = KEY, **more: Any) -> Flag:
    return parse_flag({"key": key, "enabled": enabled, "rules": list(rules), **more})


def configuration(*flags: Flag, segments: tuple[dict[str, Any], ...] = ()) -> Configuration:
    return Configuration(
        {flag.key: flag for flag in flags}, {segment["key"]: parse_segment(segment) for segment in segments}
    )


def evaluate(
    flag: Flag,
    user_id: str,
    attributes: Attributes,
    among: Configuration | None = None,
    now: datetime = NOW,
) -> Evaluation:
    return evaluation.evaluate(flag, Context(user_id, attributes, among or configuration(flag), now))


def test_evaluate__disabled_flag__is_off_whatever_its_rules() -> None:
    for rules in [[], [ALL], [NOBODY], [{"type": "users", "userIds": [USER]}]]:
        assert evaluate(flag(*rules, enabled=False), USER, {}) == Evaluation(False, Reason.DISABLED), rules


def test_evaluate__no_rules__is_on_by_default() -> None:
    assert evaluate(flag(), USER, {}) == Evaluation(True, Reason.DEFAULT)


def test_evaluate__rules__are_tried_in_order() -> None:
    for rules, attributes, expected in [
        ([ALL], {}, MATCH),
        ([NOBODY], {}, NO_MATCH),
        ([NOBODY, ALL], {}, MATCH),
        ([NOBODY, NOBODY], {}, NO_MATCH),
        ([{"type": "attribute", "conditions": [PRO]}], {"plan": "pro"}, MATCH),
        ([{"type": "attribute", "conditions": [PRO]}], {"plan": "free"}, NO_MATCH),
        ([{"type": "attribute", "conditions": [PRO]}], {"plan": None}, NO_MATCH),
        ([{"type": "attribute", "conditions": [PRO]}], {}, NO_MATCH),
        ([{"type": "attribute", "conditions": [PRO, ADULT]}], {"plan": "pro", "age": 18}, MATCH),
        ([{"type": "attribute", "conditions": [PRO, ADULT]}], {"plan": "pro", "age": 17}, NO_MATCH),
        ([{"type": "attribute", "conditions": [PRO, ADULT]}], {"age": 18}, NO_MATCH),
        (
            [{"type": "attribute", "conditions": [PRO]}, {"type": "attribute", "conditions": [ADULT]}],
            {"age": 40},
            MATCH,
        ),
        ([{"type": "attribute", "conditions": [PRO], "percentage": 0}], {"plan": "pro"}, NO_MATCH),
        ([{"type": "attribute", "conditions": [PRO], "percentage": 0}, ALL], {"plan": "pro"}, MATCH),
        ([ALL | {"conditions": [PRO]}], {"plan": "pro"}, MATCH),
        ([ALL | {"conditions": [PRO]}], {"plan": "free"}, NO_MATCH),
        ([ALL | {"conditions": []}], {}, MATCH),
        ([{"type": "users", "userIds": ["user-0", USER]}], {}, MATCH),
        ([{"type": "users", "userIds": ["user-0", "user-10", "USER-1"]}], {}, NO_MATCH),
        ([{"type": "users", "userIds": [USER], "conditions": [PRO]}], {"plan": "pro"}, MATCH),
        ([{"type": "users", "userIds": [USER], "conditions": [PRO]}], {}, NO_MATCH),
        ([{"type": "users", "userIds": [USER], "percentage": 0}], {}, NO_MATCH),
        ([{"type": "attribute", "conditions": [{"attribute": "plan", "operator": "notExists"}]}], {}, MATCH),
        (
            [{"type": "attribute", "conditions": [{"attribute": "plan", "operator": "notExists"}]}],
            {"plan": None},
            MATCH,
        ),
        (
            [{"type": "attribute", "conditions": [{"attribute": "plan", "operator": "exists"}]}],
            {"plan": None},
            NO_MATCH,
        ),
    ]:
        assert evaluate(flag(*rules), USER, attributes) == expected, (rules, attributes)


def test_evaluate__attribute_user_id__is_the_user_whatever_the_caller_says() -> None:
    starts = {"attribute": "userId", "operator": "startsWith", "value": "user-"}
    other = {"attribute": "userId", "operator": "equals", "value": "somebody-else"}
    for attributes in [{}, {"userId": "somebody-else"}, {"userId": None}, {"userId": 7}]:
        assert evaluate(flag({"type": "attribute", "conditions": [starts]}), USER, attributes) == MATCH, attributes
        assert evaluate(flag({"type": "attribute", "conditions": [other]}), USER, attributes) == NO_MATCH, attributes


def test_evaluate__share__ends_exactly_above_the_users_bucket() -> None:
    vectors = [vector for vector in load_vectors("buckets") if vector["userId"]]
    assert len(vectors) > 190
    for vector in vectors:
        below, above = vector["bucket"] / 1_000, (vector["bucket"] + 1) / 1_000
        out = flag({"type": "percentage", "percentage": below}, key=vector["salt"])
        within = flag({"type": "percentage", "percentage": above}, key=vector["salt"])
        assert evaluate(out, vector["userId"], {}) == NO_MATCH, vector
        assert evaluate(within, vector["userId"], {}) == MATCH, vector


def test_evaluate__user_outside_the_share__falls_through_to_the_next_rule() -> None:
    at = reference_bucket(KEY, USER)
    narrow = {"type": "attribute", "conditions": [PRO], "percentage": at / 1_000}
    wide = {"type": "percentage", "percentage": (at + 1) / 1_000}
    assert evaluate(flag(narrow, wide), USER, {"plan": "pro"}) == MATCH
    assert evaluate(flag(narrow, narrow), USER, {"plan": "pro"}) == NO_MATCH


def test_evaluate__raised_percentage__keeps_everyone_who_was_in() -> None:
    users = [f"user-{number}" for number in range(5_000)]
    flags = [flag({"type": "percentage", "percentage": share}) for share in (0, 1, 10, 50, 99, 100)]
    enabled = [{user for user in users if evaluate(asked, user, {}).enabled} for asked in flags]
    assert all(smaller < larger for smaller, larger in pairwise(enabled))
    assert (len(enabled[0]), len(enabled[-1])) == (0, 5_000)


def test_evaluate__same_flag_and_user__is_always_the_same_shared_answer() -> None:
    for percentage in [0, 50, 100]:
        first, again = (
            evaluate(flag({"type": "percentage", "percentage": percentage}), USER, MappingProxyType({}))
            for _ in range(2)
        )
        assert first is again, percentage


def test_reason__published_names__are_spelled_as_promised() -> None:
    published = ["disabled", "prerequisite_failed", "rule_match", "no_rule_match", "default"]
    assert [str(reason) for reason in Reason] == published


# --- when a rule matches, and which users ----------------------------------------------------------------------------


def test_evaluate__schedule__holds_from_its_start_to_before_its_end() -> None:
    for bounds, before, within, after in [
        ({"startAt": "2026-03-15T12:00:00Z"}, False, True, True),
        ({"endAt": "2026-03-15T14:00:00Z"}, True, True, False),
        ({"startAt": "2026-03-15T13:00:00+01:00", "endAt": "2026-03-15T14:00:00Z"}, False, True, False),
        ({"enabled": False}, False, False, False),
        ({"enabled": True}, True, True, True),
    ]:
        scheduled = flag(ALL | bounds)
        moments = [NOW - timedelta(microseconds=1), NOW, NOW + timedelta(hours=2)]
        assert [evaluate(scheduled, USER, {}, now=now).enabled for now in moments] == [before, within, after], (
            bounds,
            before,
        )


@pytest.mark.parametrize(("own", "first"), [({}, 0), ({"percentage": 5}, 5)])
def test_evaluate__ramp__takes_the_share_of_its_last_step(own: dict[str, Any], first: int) -> None:
    steps = [{"at": "2026-03-15T12:00:00Z", "percentage": 25}, {"at": "2026-03-16T12:00:00Z", "percentage": 75}]
    ramped = flag({"type": "percentage", "ramp": steps, **own})
    users = [f"user-{number}" for number in range(2_000)]
    for hours, percentage in ((-1, first), (0, 25), (23, 25), (24, 75), (1_000, 75)):
        at = NOW + timedelta(hours=hours)
        fixed = flag({"type": "percentage", "percentage": percentage})
        assert [evaluate(ramped, user, {}, now=at) for user in users] == [evaluate(fixed, user, {}) for user in users]


def test_evaluate__salt_of_its_own__draws_other_users() -> None:
    half = {"type": "percentage", "percentage": 50}
    for user in (f"user-{number}" for number in range(200)):
        drawn = evaluate(flag(half | {"salt": "second wave"}), user, {}).enabled
        assert drawn is (reference_bucket("second wave", user) < 50_000)


def test_evaluate__bucket_by_attribute__draws_all_who_share_it_together() -> None:
    for company in ["acme", 17, -3]:
        for percentage in (1, 50, 99):
            rule = {"type": "percentage", "percentage": percentage, "bucketBy": "company"}
            drawn = {evaluate(flag(rule), f"user-{n}", {"company": company}).enabled for n in range(50)}
            assert drawn == {reference_bucket(KEY, str(company)) < percentage * 1_000}, company


def test_evaluate__bucket_by_attribute_that_is_missing__does_not_match() -> None:
    for attributes in [{}, *({"company": value} for value in (None, "", True, 1.5, [], {}, "\ud800"))]:
        for serving in [{}, {"split": [{"variant": "red", "weight": 1}]}]:
            bucketed = flag(ALL | {"bucketBy": "company"} | serving, **COLOURS)
            assert evaluate(bucketed, USER, attributes).reason is Reason.NO_RULE_MATCH, (attributes, serving)


def test_evaluate__segment__takes_in_who_is_listed_or_meets_its_conditions() -> None:
    beta = {"key": "beta", "userIds": ["user-1"], "conditions": [PRO, ADULT]}
    nested = {"key": "nested", "conditions": [{"operator": "inSegment", "value": "beta"}]}
    among = configuration(segments=(beta, nested, {"key": "empty"}, {"key": "listed", "userIds": ["user-2"]}))
    for rule in (
        {"type": "segment", "segment": "beta"},
        {"type": "segment", "segment": "nested"},
        {"type": "attribute", "conditions": [{"attribute": "userId", "operator": "inSegment", "value": "beta"}]},
    ):
        assert evaluate(flag(rule), "user-1", {}, among) == MATCH
        assert evaluate(flag(rule), "user-2", {"plan": "pro", "age": 20}, among) == MATCH
        assert evaluate(flag(rule), "user-2", {"plan": "pro"}, among) == NO_MATCH
    for key in ("empty", "no-such-segment"):
        assert evaluate(flag({"type": "segment", "segment": key}), "user-1", {}, among) == NO_MATCH
    assert evaluate(flag({"type": "segment", "segment": "listed", "percentage": 0}), "user-2", {}, among) == NO_MATCH


# --- values ----------------------------------------------------------------------------------------------------------


def test_evaluate__flag_with_variants__serves_one_whatever_the_reason() -> None:
    needs = {"prerequisites": [{"flag": "missing"}]}
    served = {
        Reason.DISABLED: evaluate(flag(enabled=False, **COLOURS), USER, {}),
        Reason.PREREQUISITE_FAILED: evaluate(flag(**COLOURS, **needs), USER, {}),
        Reason.NO_RULE_MATCH: evaluate(flag(NOBODY, **COLOURS), USER, {}),
        Reason.DEFAULT: evaluate(flag(**COLOURS), USER, {}),
        Reason.RULE_MATCH: evaluate(flag(ALL | {"variant": "green"}, **COLOURS), USER, {}),
    }
    assert {reason: dict(answer.answer) for reason, answer in served.items()} == {
        Reason.DISABLED: {"enabled": False, "reason": "disabled", "variant": "blue", "value": "#00f"},
        Reason.PREREQUISITE_FAILED: {
            "enabled": False,
            "reason": "prerequisite_failed",
            "variant": "blue",
            "value": "#00f",
        },
        Reason.NO_RULE_MATCH: {"enabled": False, "reason": "no_rule_match", "variant": "blue", "value": "#00f"},
        Reason.DEFAULT: {"enabled": True, "reason": "default", "variant": "red", "value": "#f00"},
        Reason.RULE_MATCH: {"enabled": True, "reason": "rule_match", "variant": "green", "value": "#0f0"},
    }


def test_evaluate__served_variants_named__are_served() -> None:
    named = {**COLOURS, "offVariant": "green", "defaultVariant": "blue"}
    assert evaluate(flag(enabled=False, **named), USER, {}).variant == "green"
    assert evaluate(flag(**named), USER, {}).variant == "blue"
    assert evaluate(flag(ALL, **named), USER, {}).variant == "blue"


def test_evaluate__boolean_variants__are_on_as_their_value_says() -> None:
    boolean = {"type": "boolean", "variants": [{"key": "no", "value": False}, {"key": "yes", "value": True}]}
    assert dict(evaluate(flag(**boolean), USER, {}).answer) == {
        "enabled": True,
        "reason": "default",
        "variant": "yes",
        "value": True,
    }
    denied = evaluate(flag(ALL | {"variant": "no"}, **boolean), USER, {})
    assert (denied.enabled, denied.reason, denied.value) == (False, Reason.RULE_MATCH, False)
    assert evaluate(flag(enabled=False, **boolean), USER, {}).variant == "no"


def test_evaluate__flag_without_variants__answers_nothing_of_them() -> None:
    assert dict(evaluate(flag(type="boolean"), USER, {}).answer) == {"enabled": True, "reason": "default"}


def test_evaluate__outcome__is_the_variant_served_or_whether_it_is_on() -> None:
    assert evaluate(flag(**COLOURS), USER, {}).outcome == "red"
    assert (evaluate(flag(), USER, {}).outcome, evaluate(flag(enabled=False), USER, {}).outcome) == ("on", "off")


def test_evaluate__split__is_the_published_one() -> None:
    for weights in [(1, 1, 1), (50, 0, 50), (0.1, 0.2, 0.7), (0, 0, 1)]:
        parts = [
            {"variant": key, "weight": weight} for key, weight in zip(("blue", "red", "green"), weights, strict=True)
        ]
        for salt in ({}, {"salt": "other"}):
            split = flag(ALL | {"split": parts} | salt, **COLOURS)
            reference = [(part["variant"], part["weight"]) for part in parts]
            for user in (f"user-{number}" for number in range(500)):
                at = reference_bucket(f"{salt.get('salt', KEY)}:variant", user)
                expected = reference_variant(reference, at)
                assert evaluate(split, user, {}).variant == expected, weights


def test_evaluate__split_by_attribute__serves_all_who_share_it_the_same() -> None:
    parts = [{"variant": "red", "weight": 1}, {"variant": "blue", "weight": 1}]
    split = flag(ALL | {"split": parts, "bucketBy": "company"}, **COLOURS)
    by_company = {
        company: {evaluate(split, f"user-{n}", {"company": company}).variant for n in range(20)}
        for company in (f"company-{n}" for n in range(40))
    }
    assert all(len(variants) == 1 for variants in by_company.values())
    assert set(Counter(variant for variants in by_company.values() for variant in variants)) == {"red", "blue"}


# --- prerequisites ---------------------------------------------------------------------------------------------------


def test_evaluate__prerequisite__must_be_on_and_serve_what_is_wanted() -> None:
    for parent, wanted, expected in [
        (flag(key="parent"), {}, Reason.DEFAULT),
        (flag(key="parent", enabled=False), {}, Reason.PREREQUISITE_FAILED),
        (flag(NOBODY, key="parent"), {}, Reason.PREREQUISITE_FAILED),
        (flag(ALL, key="parent"), {}, Reason.DEFAULT),
        (flag(key="parent", **COLOURS), {"variants": ["blue", "red"]}, Reason.DEFAULT),
        (flag(key="parent", **COLOURS), {"variants": ["blue"]}, Reason.PREREQUISITE_FAILED),
        (flag(key="parent", enabled=False, **COLOURS), {"variants": ["blue"]}, Reason.PREREQUISITE_FAILED),
        (flag(key="parent", archivedAt="2026-01-01T00:00:00Z"), {}, Reason.PREREQUISITE_FAILED),
        (flag(key="other"), {}, Reason.PREREQUISITE_FAILED),
    ]:
        child = flag(prerequisites=[{"flag": "parent", **wanted}])
        assert evaluate(child, USER, {}, configuration(parent, child)).reason is expected, (parent, wanted)


def test_evaluate__prerequisites__are_asked_for_the_same_user() -> None:
    parent = flag({"type": "attribute", "conditions": [PRO]}, key="parent")
    middle = flag(key="middle", prerequisites=[{"flag": "parent"}])
    child = flag(prerequisites=[{"flag": "middle"}])
    among = configuration(parent, middle, child)
    assert evaluate(child, USER, {"plan": "pro"}, among).reason is Reason.DEFAULT
    assert evaluate(child, USER, {"plan": "free"}, among).reason is Reason.PREREQUISITE_FAILED


def test_evaluate__flag_that_many_depend_on__is_worked_out_once() -> None:
    """Each level needs both flags of the level below, so without a cache the work would double with each level."""
    asked = Counter[str]()

    class Counting(dict[str, Flag]):
        def get(self, key: str, default: Any = None) -> Any:
            asked[key] += 1
            return super().get(key, default)

    flags = Counting()
    for level in range(40):
        needs = [{"flag": f"{side}{level - 1}"} for side in "ab"] if level else []
        flags |= {f"{side}{level}": flag(key=f"{side}{level}", prerequisites=needs) for side in "ab"}
    assert evaluate(flags["a39"], USER, {}, Configuration(flags, {})).reason is Reason.DEFAULT
    assert set(asked.values()) == {1}


def test_evaluate__archived_flag__is_off() -> None:
    archived = flag(ALL, archivedAt="2026-01-01T00:00:00.000000Z")
    assert evaluate(archived, USER, {}) == Evaluation(False, Reason.DISABLED)
