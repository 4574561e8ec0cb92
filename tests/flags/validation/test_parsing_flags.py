"""Parsing flags and segments, except their rules."""

from __future__ import annotations

import gc
from typing import Any

from hypothesis import given

from flags.engine import conditions
from flags.engine.evaluation import evaluate
from flags.engine.types import Configuration, Context, Reason
from flags.validation.parsing import Reference, parse_flag, parse_segment, references
from tests.flags.engine.strategies import ATTRIBUTES, NOW, RIGHT_RULES, TEXT
from tests.flags.validation.refusals import blamed_in, refused
from tests.flags.validation.rules import FIXED, PRO, attribute_rule, blamed, parse_rules


@FIXED
@given(RIGHT_RULES, TEXT.filter(bool), ATTRIBUTES)
def test_parse_flag__what_parses__evaluates_whatever_the_attributes(
    value: list[Any], user_id: str, attributes: dict[str, object]
) -> None:
    flag = parse_flag({"key": "new-checkout", "enabled": True, "rules": value})
    answer = evaluate(flag, Context(user_id, attributes, Configuration({}, {}), NOW))
    assert answer.reason in ({Reason.RULE_MATCH, Reason.NO_RULE_MATCH} if value else {Reason.DEFAULT})
    assert answer.enabled is (answer.reason is not Reason.NO_RULE_MATCH)


# --- further fields of a rule ----------------------------------------------------------------------------------------

ALL = {"type": "percentage", "percentage": 100}
AT = "2026-03-15T12:00:00Z"
LATER = "2026-03-16T12:00:00Z"


def test_parse_flag__wrong_field_of_a_rule__is_blamed() -> None:
    for more, expected in [
        *[
            ({name: value}, [(name, "invalid_type")])
            for name in ("name", "comment", "salt", "bucketBy")
            for value in (None, 1, [])
        ],
        *[({name: ""}, [(name, "invalid_value")]) for name in ("name", "comment", "salt", "bucketBy")],
        *[({name: "x" * 201}, [(name, "too_long")]) for name in ("name", "salt", "bucketBy")],
        ({"comment": "x" * 1_001}, [("comment", "too_long")]),
        *[({"enabled": value}, [("enabled", "invalid_type")]) for value in (None, 0, "true")],
        *[({name: value}, [(name, "invalid_type")]) for name in ("startAt", "endAt") for value in (None, 1, True)],
        *[({name: value}, [(name, "invalid_value")]) for name in ("startAt", "endAt") for value in ("", "-7d", "soon")],
        ({"startAt": AT, "endAt": AT}, [("endAt", "invalid_value")]),
        ({"startAt": LATER, "endAt": AT}, [("endAt", "invalid_value")]),
        ({"ramp": {}}, [("ramp", "invalid_type")]),
        ({"ramp": []}, [("ramp", "out_of_range")]),
        ({"ramp": [{"at": AT, "percentage": 1}] * 101}, [("ramp", "out_of_range")]),
        ({"ramp": [7]}, [("ramp[0]", "invalid_type")]),
        ({"ramp": [{}]}, [("ramp[0].at", "required"), ("ramp[0].percentage", "required")]),
        (
            {"ramp": [{"at": "-7d", "percentage": 101}]},
            [("ramp[0].at", "invalid_value"), ("ramp[0].percentage", "out_of_range")],
        ),
        ({"ramp": [{"at": AT, "percentage": 1}, {"at": AT, "percentage": 2}]}, [("ramp[1].at", "invalid_value")]),
        ({"ramp": [{"at": LATER, "percentage": 1}, {"at": AT, "percentage": 2}]}, [("ramp[1].at", "invalid_value")]),
        ({"variant": 7}, [("variant", "invalid_type")]),
        ({"variant": "red"}, [("variant", "unknown_reference")]),
        ({"split": []}, [("split", "out_of_range")]),
        ({"split": [{"variant": "red", "weight": 1}]}, [("split[0].variant", "unknown_reference")]),
        ({"segment": "beta"}, [("segment", "unknown_field")]),
    ]:
        assert blamed([ALL | more]) == [(f"rules[0].{field}", code) for field, code in expected], more


def test_parse_flag__right_rule__is_taken_and_remembers_what_was_sent() -> None:
    for rule in [
        {"type": "percentage", "ramp": [{"at": AT, "percentage": 1}, {"at": LATER, "percentage": 0}]},
        {"type": "segment", "segment": "beta", "percentage": 12.345, "conditions": [PRO]},
        {"type": "attribute", "conditions": [{"operator": "inSegment", "value": "beta", "negate": True}]},
        ALL | {"name": "x" * 200, "salt": "x" * 200, "bucketBy": "x" * 200, "enabled": False},
        ALL | {"startAt": "2026-03-15", "endAt": "2026-03-15T00:00:00.000001Z"},
    ]:
        (parsed,) = parse_rules([rule])
        assert parsed.source == rule, rule


def test_parse_flag__wrong_segment_rule__is_blamed() -> None:
    for rule, expected in [
        ({"type": "segment"}, [("segment", "required")]),
        ({"type": "segment", "segment": 7}, [("segment", "invalid_type")]),
        ({"type": "segment", "segment": "no key"}, [("segment", "invalid_value")]),
        ({"type": "users", "userIds": ["u"], "segment": "beta"}, [("segment", "unknown_field")]),
    ]:
        assert blamed([rule]) == [(f"rules[0].{field}", code) for field, code in expected], rule


# --- prerequisites, segments, references -----------------------------------------------------------------------------


def test_parse_flag__wrong_prerequisites__are_blamed() -> None:
    for prerequisites, expected in [
        ({}, [("prerequisites", "invalid_type")]),
        ([{"flag": f"f{n}"} for n in range(21)], [("prerequisites", "out_of_range")]),
        (["other"], [("prerequisites[0]", "invalid_type")]),
        ([{}], [("prerequisites[0].flag", "required")]),
        ([{"flag": 7}], [("prerequisites[0].flag", "invalid_type")]),
        ([{"flag": "other"}, {"flag": "other"}], [("prerequisites[1].flag", "duplicate")]),
        ([{"flag": "other", "variants": []}], [("prerequisites[0].variants", "out_of_range")]),
        ([{"flag": "other", "variants": [7]}], [("prerequisites[0].variants[0]", "invalid_type")]),
        ([{"flag": "other", "variant": "on"}], [("prerequisites[0].variant", "unknown_field")]),
        ([{"flag": "other", "variants": ["on", "on"]}], [("prerequisites[0].variants[1]", "duplicate")]),
    ]:
        assert blamed_in({"prerequisites": prerequisites}) == expected, prerequisites


def test_parse_segment__wrong_document__is_blamed() -> None:
    for document, expected in [
        ({"conditions": {}}, [("conditions", "invalid_type")]),
        ({"conditions": [PRO] * 101}, [("conditions", "out_of_range")]),
        ({"conditions": [PRO | {"operator": "is"}]}, [("conditions[0].operator", "invalid_value")]),
        ({"userIds": "u"}, [("userIds", "invalid_type")]),
        ({"userIds": ["u", "u"]}, [("userIds[1]", "duplicate")]),
        ({"userIds": ["u"] * 100_001}, [("userIds", "out_of_range")]),
    ]:
        assert blamed_in(document, parse_segment) == expected, document


def test_parse_segment__of_100_000_users__is_taken() -> None:
    assert len(parse_segment({"key": "s", "userIds": [f"user-{n}" for n in range(100_000)]}).user_ids) == 100_000


def test_references__of_a_flag__are_all_that_it_names() -> None:
    in_beta = {"operator": "inSegment", "value": "beta"}
    document = {
        "prerequisites": [{"flag": "a"}, {"flag": "b", "variants": ["on", "off"]}],
        "rules": [
            ALL,
            {"type": "segment", "segment": "gamma", "conditions": [PRO, in_beta]},
        ],
    }
    assert list(references(document)) == [
        Reference("flag", "a", "prerequisites[0].flag"),
        Reference(
            "flag",
            "b",
            "prerequisites[1].flag",
            (("on", "prerequisites[1].variants[0]"), ("off", "prerequisites[1].variants[1]")),
        ),
        Reference("segment", "gamma", "rules[1].segment"),
        Reference("segment", "beta", "rules[1].conditions[1].value"),
    ]
    assert list(references({"conditions": [PRO, in_beta]})) == [Reference("segment", "beta", "conditions[1].value")]


def test_parse_flag__conditions_that_are_written_alike__are_one_object() -> None:
    """Python considers 1, 1.0 and true equal, but conditions on them must not share an object."""
    values: list[Any] = [1, 1.0, True, "1", 1]
    flag = parse_flag({"key": "f", "enabled": True, "rules": [*attribute_rule(*(PRO | {"value": v} for v in values))]})
    (rule,) = flag.rules
    assert [step is rule.steps[0] for step in rule.steps] == [True, False, False, False, True]
    assert [type(step.source["value"]) for step in rule.steps] == [int, float, bool, str, int]
    assert (
        parse_flag({"key": "g", "enabled": True, "rules": attribute_rule(PRO | {"value": 1})}).rules[0].steps[0]
        is (rule.steps[0])
    )


def test_parse_flag__thousands_of_variants_and_parts__are_refused_in_few_words() -> None:
    variants = [{"key": f"{n:0100}", "value": ""} for n in range(3_000)]
    split = [{"variant": "zz", "weight": 1}] * 4_000
    details = refused({"type": "string", "variants": variants, "rules": [ALL | {"split": split}]})
    assert [detail.field for detail in details] == ["variants", "rules[0].split"]
    few = refused({"type": "string", "variants": variants[:50], "rules": [ALL | {"split": split[:50]}]})
    assert max(len(detail.message) for detail in few) < 1_000


def test_conditions__of_flags_that_are_no_more__are_forgotten() -> None:
    parse_rules(attribute_rule(PRO | {"value": "only here"}))
    gc.collect()
    assert not [text for text in conditions._in_use if "only here" in text]
