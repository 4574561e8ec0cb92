"""Rules in words, by a table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from flags.engine.operators import OPERATORS
from flags.explanations.rule_words import _WORDS, operator_choices, summarise_rules
from tests.flags.engine.experiments import experiment_rule


def rule(*conditions: tuple[Any, ...], **fields: Any) -> dict[str, Any]:
    named = [dict(zip(("attribute", "operator", "value"), parts, strict=False)) for parts in conditions]
    return {"type": "attribute", **({"conditions": named} if named else {}), **fields}


NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
PRO = ("plan", "equals", "pro")
PRO_CONDITION = {"attribute": "plan", "operator": "equals", "value": "pro"}
PLAIN = "experiment checkout: control 50 → off / treatment 50 → on"
DRIVEN = "experiment checkout: control 50 → old / treatment 50 → new"


def test_summary__of_rules__says_whom_they_take_in() -> None:
    for rules, words in [
        ([], "everyone"),
        ([rule(type="percentage", percentage=25)], "25 % of everyone"),
        ([rule(type="percentage", percentage=0.125)], "0.125 % of everyone"),
        ([rule(type="percentage", percentage=100)], "everyone"),
        ([rule(type="percentage", percentage=25), rule(PRO)], "25 % of everyone; plan equals pro"),
        ([experiment_rule()], PLAIN),
        ([experiment_rule(is_plain=False), rule(PRO)], f"{DRIVEN}; plan equals pro"),
        ([experiment_rule(percentage=20)], f"{PLAIN}; everyone else"),
        ([experiment_rule(conditions=[PRO_CONDITION])], f"{PLAIN}; everyone else"),
        ([experiment_rule(percentage=20), rule(PRO)], f"{PLAIN}; plan equals pro"),
        ([experiment_rule(percentage=20), rule(PRO, enabled=False)], PLAIN),
        ([rule(PRO, percentage=10)], "10 % of users whose plan equals pro"),
        ([rule(PRO, type="percentage", percentage=10)], "10 % of everyone whose plan equals pro"),
        ([rule(PRO, ("age", "greaterThan", 17))], "plan equals pro and age is over 17"),
        ([rule(("staff", "equals", True))], "staff equals yes"),
        ([rule(("email", "exists"))], "email is known"),
        ([rule(("country", "in", ["DE", "AT", "CH", "FR"]))], "country is one of DE, AT, CH and 1 more"),
        ([rule(("country", "in", ["DE, FR", "US"]))], "country is one of “DE, FR”, US"),
        ([rule(("country", "in", ["DE;FR"]))], "country is one of “DE;FR”"),
        ([rule(("country", "equals", "DE, FR"))], "country equals DE, FR"),
        ([rule(("seen", "before", "2026-01-01"))], "seen is before 1 Jan 2026"),
        ([rule(("seen", "after", "2026-01-01T12:30:00+02:00"))], "seen is after 1 Jan 2026, 10:30 UTC"),
        ([rule(("seen", "after", "-30d"))], "seen is after 30 days ago"),
        ([rule(("seen", "before", "-1w"))], "seen is before 1 week ago"),
        ([rule(("due", "before", "+12h"))], "due is before 12 hours from now"),
        ([rule(("due", "before", "+1m"))], "due is before 1 minute from now"),
        ([rule(("due", "after", "-0s"))], "due is after now"),
        ([rule(("due", "after", "soon"))], "due is after soon"),
        ([rule(("name", "equals", "x" * 61))], f"name equals {'x' * 59}…"),
        ([rule(type="users", userIds=["a", "b"])], "a, b"),
        ([rule(type="users", userIds=["a, b; c"])], "“a, b; c”"),
        ([rule(type="users", userIds=[str(at) for at in range(2000)], percentage=50)], "50 % of 2,000 users"),
        ([rule(PRO, type="users", userIds=["a"])], "a whose plan equals pro"),
        ([rule(type="segment", segment="beta")], "segment beta"),
        ([rule(PRO, type="segment", segment="beta", percentage=5)], "5 % of segment beta whose plan equals pro"),
        ([rule(("userId", "inSegment", "beta"))], "userId is in segment beta"),
        ([rule(PRO, variant="blue")], "plan equals pro → blue"),
        (
            [rule(PRO, percentage=5, split=[{"variant": "a", "weight": 1}, {"variant": "b", "weight": 3}])],
            "5 % of users whose plan equals pro → a / b",
        ),
        (
            [
                rule(
                    type="percentage",
                    ramp=[{"at": "2026-02-01", "percentage": 5}, {"at": "2026-03-01", "percentage": 50}],
                )
            ],
            "5 % from 1 Feb 2026, 50 % from 1 Mar 2026",
        ),
        (
            [rule(type="percentage", percentage=0, ramp=[{"at": "2026-02-01", "percentage": 50}])],
            "50 % of everyone from 1 Feb 2026",
        ),
        ([rule(PRO, enabled=False), rule(type="percentage", percentage=5)], "5 % of everyone"),
        ([rule(PRO, enabled=False)], "no one: all rules are off"),
        ([rule(type="percentage", percentage=25, bucketBy="company")], "25 % of everyone by company"),
        ([rule(type="percentage", percentage=100, bucketBy="company")], "everyone with company"),
        ([rule(type="percentage", percentage=100, bucketBy="userId")], "everyone"),
        ([rule(PRO, percentage=25, bucketBy="company")], "25 % of users whose plan equals pro by company"),
        (
            [
                {
                    "type": "attribute",
                    "conditions": [{"attribute": "os", "operator": "matches", "value": "^a", "negate": True}],
                }
            ],
            "os does not match ^a",
        ),
        ([rule(PRO)] * 5, "plan equals pro; plan equals pro; plan equals pro; and 2 more"),
    ]:
        assert summarise_rules(rules, NOW) == words, rules


def test_summary__every_operator__has_words() -> None:
    assert set(_WORDS) == set(OPERATORS)


def test_choices__of_operators__have_each_of_them_once() -> None:
    choices = [choice for _, group in operator_choices() for choice in group]
    assert sorted(name for name, *_ in choices) == sorted(OPERATORS)
    assert ("in", "is one of", "list", True) in choices
    assert ("exists", "is known", "none", False) in choices
