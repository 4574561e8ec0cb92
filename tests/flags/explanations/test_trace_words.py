"""Explanations in words: each reason, each verdict and each kind of test."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from flags.engine.types import Configuration, Context
from flags.explanations.trace_words import DescribedStep, DescribedTrace, describe_trace
from flags.explanations.tracing import explain
from flags.validation.parsing import parse_flag, parse_segment
from tests.flags.engine.experiments import COLOURS, experiment_rule

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)
ALL = {"type": "percentage", "percentage": 100}
NOBODY = {"type": "users", "userIds": ["somebody-else"]}
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}


def describe(rules: list[dict[str, Any]], attributes: dict[str, Any] | None = None, **more: Any) -> DescribedTrace:
    flag = parse_flag({"key": "asked", "enabled": True, "rules": rules, **more})
    parent = parse_flag({"key": "parent", "enabled": False, "rules": []})
    testers = parse_segment({"key": "testers", "conditions": [PRO], "userIds": ["ada"]})
    among = Configuration({"asked": flag, "parent": parent}, {"testers": testers})
    return describe_trace(explain(flag, Context("lin", attributes or {}, among, NOW)).as_json(), "Production")


def steps(rule: dict[str, Any], attributes: dict[str, Any] | None = None) -> list[DescribedStep]:
    return list(describe([rule], attributes).rules[0].steps)


def test_trace__every_reason__is_a_sentence() -> None:
    for rules, more, decision, why in [
        ([ALL], {"enabled": False}, "Off", "The flag is off in Production, so its rules are ignored."),
        (
            [ALL],
            {"prerequisites": [{"flag": "parent"}]},
            "Off",
            "This user does not meet the prerequisite parent.",
        ),
        ([NOBODY, ALL], {}, "On", "Rule 2 is the first that matches this user."),
        ([NOBODY], {}, "Off", "The rule does not match this user."),
        ([{**ALL, "enabled": False}], {}, "Off", "The rule is off."),
        ([{**ALL, "startAt": "2099-01-31T00:00:00Z"}], {}, "Off", "The rule applies from 31 Jan 2099."),
        ([{**ALL, "endAt": "2025-03-02T09:00:00Z"}], {}, "Off", "The rule ended 2 Mar 2025."),
        ([NOBODY, NOBODY], {}, "Off", "None of the 2 rules matches this user."),
        ([], {}, "On", "The flag is on and has no rules, so it is on for everyone."),
    ]:
        trace = describe(rules, **more)
        assert (trace.decision, trace.why, trace.value) == (decision, why, None), (rules, more)


def test_trace__of_values__shows_the_one_that_is_served() -> None:
    trace = describe([], type="object", variants=[{"key": "a", "value": {"size": "ä"}}])
    assert (trace.decision, trace.value) == ("On, serving a", '{"size": "ä"}')


def test_rule__its_part_in_the_decision__is_described() -> None:
    for rules, more, verdicts in [
        (
            [NOBODY, ALL, ALL],
            {},
            ["does not match this user", "decides", f"{'would match the user, but'} rule 2 comes first"],
        ),
        ([ALL], {"enabled": False}, ["would match the user, but the flag is off"]),
        ([{**ALL, "startAt": "2099-01-31T09:30:00Z"}, ALL], {}, ["applies from 31 Jan 2099, 09:30 UTC", "decides"]),
        (
            [ALL],
            {"prerequisites": [{"flag": "parent"}]},
            ["would match the user, but a prerequisite is not met"],
        ),
    ]:
        assert [rule.verdict for rule in describe(rules, **more).rules] == verdicts, (rules, more)


def test_rule__that_splits__describes_the_weights_and_the_bucket() -> None:
    split = [{"variant": "a", "weight": 1}, {"variant": "b", "weight": 2.5}]
    variants = [{"key": "a", "value": 1}, {"key": "b", "value": 2}]
    [rule] = describe([{**ALL, "split": split}], type="number", variants=variants).rules
    assert rule.verdict.startswith("decides, serves ")
    assert rule.verdict.endswith(" of the split a 1 / b 2.5)")


def test_rule__with_a_name__goes_by_it() -> None:
    rules = describe([{**ALL, "name": "Launch"}, ALL]).rules
    assert [rule.title for rule in rules] == [
        "Launch",
        "A share of everyone",
    ]


def test_rule__of_an_experiment__describes_why_it_is_this_variant() -> None:
    for more, note in [
        ({}, "The user takes part with control: bucket 10,050 of the split control 50 / treatment 50."),
        (
            {"forced": {"lin": "treatment"}},
            "The variant is forced for this user, so they see treatment and do not count in the results.",
        ),
        (
            {"percentage": 0},
            "The user is not in the percentage, so they are not in the experiment.",
        ),
        (
            {"conditions": [PRO]},
            "The user does not meet the conditions, so they are not in the experiment.",
        ),
        (
            {"group": {"key": "g", "from": 0, "to": 0.001}},
            "The user is in another part of the group, so they are not in the experiment.",
        ),
    ]:
        [rule] = describe([experiment_rule(**more)]).rules
        is_out = note.endswith("not in the experiment.")
        assert (rule.title, rule.tone, rule.note) == ("Experiment checkout", "passed" if is_out else "served", note), (
            more,
            note,
        )
        [valued] = describe([experiment_rule(is_plain=False, **more)], **COLOURS).rules
        if is_out:
            assert rule.verdict == valued.verdict == "does not match this user", (more, note)
        else:
            is_treatment = "treatment" in note.partition(":")[0]
            assert rule.verdict == f"decides, serves {'on' if is_treatment else 'off'}", (more, note)
            assert valued.verdict == f"decides, serves {'new' if is_treatment else 'old'}", (more, note)


def test_rule__of_an_experiment_after_another__describes_why_it_is_not_reached() -> None:
    [_, rule] = describe([ALL, experiment_rule()]).rules
    assert rule.note == "An earlier rule matches the user, so they are not in the experiment."
    assert rule.verdict.startswith("would match the user, but rule 1 comes first")


def test_rule__of_an_experiment__describes_its_audience_as_steps() -> None:
    group = {"key": "checkouts", "from": 0, "to": 12.5}
    [rule] = describe([experiment_rule(group=group, conditions=[PRO], percentage=50)], {"plan": "pro"}).rules
    assert [step.text for step in rule.steps] == [
        "The user is in 0 to 12.5 % of checkouts",
        "plan equals pro",
        "The user is in the 50 %",
    ]
    assert rule.steps[0].finding.endswith(" of 100,000")


def test_rule__of_an_experiment__describes_that_the_user_was_in_it_before() -> None:
    flag = parse_flag({"key": "asked", "enabled": True, "rules": [experiment_rule(percentage=0)]})
    context = Context("lin", {}, Configuration({"asked": flag}, {}), NOW, assigned={"checkout": "treatment"})
    [rule] = describe_trace(explain(flag, context).as_json(), "Production").rules
    assert rule.note == "The user was exposed to treatment before, and keeps this variant."


def test_step__of_each_kind__is_described() -> None:
    for rule, text, finding, passed in [
        ({**ALL, "enabled": False}, "The rule is on", "it is off", False),
        (
            {**ALL, "startAt": "2026-03-01T00:00:00Z", "endAt": "2026-03-02T00:00:00Z"},
            "The rule is scheduled from 1 Mar 2026, 00:00 UTC until 2 Mar 2026, 00:00 UTC",
            "it is 15 Mar 2026, 12:00 UTC",
            False,
        ),
        (
            {**ALL, "endAt": "2026-04-01"},
            "The rule is scheduled until 1 Apr 2026, 00:00 UTC",
            "it is 15 Mar 2026, 12:00 UTC",
            True,
        ),
        ({"type": "users", "userIds": ["lin", "b"]}, "The user is one of the 2 listed", "", True),
        (NOBODY, "The user is the one listed", "", False),
        ({"type": "segment", "segment": "gone"}, "The user is in segment gone", "this segment does not exist", False),
        (
            {**ALL, "bucketBy": "company"},
            "The user is in the 100 % by company",
            "company is not a text or a whole number",
            False,
        ),
    ]:
        step = steps(rule)[0]
        assert (step.text, step.finding, step.passed) == (text, finding, passed), (rule, text)


def test_step__of_a_condition__describes_the_value_compared() -> None:
    for condition, attributes, text, finding in [
        (PRO, {"plan": "pro"}, "plan equals pro", 'plan is "pro"'),
        (PRO, {}, "plan equals pro", "plan is not known"),
        (PRO, {"plan": None}, "plan equals pro", "plan is null"),
        ({**PRO, "negate": True}, {"plan": ["a"]}, "plan does not equal pro", 'plan is ["a"]'),
        ({**PRO, "ignoreCase": True}, {"plan": "PRO"}, "plan equals pro (ignoring case)", 'plan is "PRO"'),
    ]:
        step = steps({"type": "attribute", "conditions": [condition]}, attributes)[0]
        assert (step.text, step.finding) == (text, finding), (condition, attributes)


@pytest.mark.parametrize(
    "rule",
    [
        {"type": "segment", "segment": "testers"},
        {"type": "attribute", "conditions": [{"operator": "inSegment", "value": "testers"}]},
    ],
)
def test_step__of_a_segment__describes_its_conditions(rule: dict[str, Any]) -> None:
    step = steps(rule, {"plan": "free"})[0]
    assert step.finding == "not listed, and does not meet all its conditions"
    assert [(part.text, part.passed) for part in step.parts] == [("plan equals pro", False)]
    assert steps(rule, {"plan": "pro"})[0].finding == "meets its conditions"


def test_prerequisite__describes_what_is_wanted_and_what_is() -> None:
    wanted = [{"flag": "parent", "variants": ["a", "b"]}, {"flag": "gone"}]
    parent, gone = describe([], prerequisites=wanted).prerequisites
    assert (parent.text, parent.finding) == ("parent is on, serving a or b", "it is off")
    assert (gone.text, gone.finding, gone.passed) == ("gone is on", "this flag does not exist", False)
