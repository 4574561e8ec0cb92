"""Conditions that different users meet have different words, and each change between them is a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from typing import Any

import pytest

from config.change_log.descriptions import compare_documents
from config.change_log.sentences import KindWords, in_past, sentences
from config.documents import is_identical
from flags.changes import segment_changes
from flags.engine.conditions import USER_ID, compile_condition
from flags.engine.types import Configuration, Context
from flags.explanations.change_words import FLAG_WORDS, SEGMENT_WORDS
from flags.explanations.rule_words import describe_condition
from tests.conftest import NOON

Condition = Mapping[str, Any]

TEXTS = ("", " ", "  ", "a", "A", " a", "a ", "5", "5.0", "-1e5", "true", "yes", "no", "null", "none", "a, b", "“5”")
VALUES: Sequence[Any] = (*TEXTS, 5, 7, -1e5, True, False)
LISTS: Sequence[Sequence[Any]] = ([5], ["5"], [5, "5"], ["a", "b"], ["a, b"], ["yes"], [True], ["“5”"], [""], [" "])
OPTIONS: Sequence[dict[str, bool]] = ({}, {"ignoreCase": True}, {"negate": True}, {"ignoreCase": True, "negate": True})
CONTEXTS = [
    Context(user_id, {} if value is None else {"e": value}, Configuration({}, {}), NOON)
    for user_id, value in [*(("u", value) for value in (*VALUES, None, "b", "B")), *((text, 5) for text in TEXTS)]
]


def conditions() -> Iterator[Condition]:
    cases = (
        *product(("equals", "notEquals"), VALUES),
        *product(("in", "notIn"), LISTS),
        *product(("contains", "startsWith", "endsWith", "matches"), (text for text in TEXTS if text)),
    )
    for attribute, (operator, value), options in product(("e", USER_ID), cases, OPTIONS):
        yield {"attribute": attribute, "operator": operator, "value": value, **options}
    for operator, options in product(("exists", "notExists"), OPTIONS):
        yield {"attribute": "e", "operator": operator, **options}


def users_of(condition: Condition) -> tuple[bool, ...]:
    test = compile_condition(condition).test
    return tuple(test(context) for context in CONTEXTS)


def test_conditions__that_different_users_meet__differ_in_words() -> None:
    by_words: dict[str, dict[tuple[bool, ...], Condition]] = {}
    for condition in conditions():
        by_words.setdefault(describe_condition(condition), {})[users_of(condition)] = condition
    assert len(by_words) > 500
    assert {words: [*found.values()] for words, found in by_words.items() if len(found) > 1} == {}


LONG = "x" * 80
MANY = ["DE", "AT", "CH", "LI"]


def of(value: Any, operator: str = "equals", **options: Any) -> dict[str, Any]:
    return {"attribute": "e", "operator": operator, "value": value, **options}


# Many of these conditions read the same.
CHANGED = (
    *(of(value) for value in (5, 5.0, "5", True, "yes", "", " ", f"{LONG}a", f"{LONG}b")),
    *(of("a", **options) for options in OPTIONS),
    *(of("a", "notEquals"), of("a", ignoreCase=False), of("a", negate=False)),
    *(of(value, "in") for value in ([1], [1.0], ["1"], [True], [1, True], [True, 1])),
    *(of([*MANY, value], "in") for value in (1, 1.0, "1", True, f"{LONG}a", f"{LONG}b")),
    *(of([*MANY, "FR"], "in", **options) for options in OPTIONS),
    *(of("2.0", "semverEquals", **options) for options in OPTIONS),
    *(of("-1d", "after"), of("-0s", "after"), of("+0s", "after")),
)


def changes(old: Sequence[Condition], new: Sequence[Condition]) -> Iterator[list[str]]:
    """Yield the sentences of a change of conditions: those of a segment, and those of a rule."""

    def say(before: Any, after: Any, words: KindWords) -> list[str]:
        return [in_past(sentence) for sentence in sentences(before, after, words, NOON)]

    yield say({"conditions": [*old]}, {"conditions": [*new]}, SEGMENT_WORDS)
    before, after = ({"type": "attribute", "conditions": [*conditions]} for conditions in (old, new))
    yield say({"rules": [before]}, {"rules": [after]}, FLAG_WORDS)


@pytest.mark.parametrize("others", [[], [of("b")]])
def test_change__of_any_condition__is_a_sentence(others: list[Condition]) -> None:
    for one, other in permutations(CHANGED, 2):
        if is_identical(one, other):
            continue
        assert all(changes([one, *others], [other, *others])), (one, other)


def test_change__of_a_condition_of_a_segment__reads_so() -> None:
    for old, new, expected in [
        (of(5), of("5"), "Changed {} from e equals 5 to e equals “5”"),
        (of(""), of(" "), "Changed {} from e equals “” to e equals “ ”"),
        (of("a"), of("a", ignoreCase=True), "Changed {} from e equals a to e equals a (ignoring case)"),
        (of(f"{LONG}a"), of(f"{LONG}b"), "Changed the details of e in {}"),
        (of("a", "notEquals"), of("a", negate=True), "Changed the details of e in {}"),
        (of([1], "in"), of([1.0], "in"), "Changed {} from e is one of 1 to e is one of 1.0"),
        (of([1, True], "in"), of([True, 1], "in"), "Changed {} from e is one of 1, yes to e is one of yes, 1"),
        (of([*MANY, 1], "in"), of([*MANY, 1.0], "in"), "Changed the details of e in {}"),
        (of([*MANY, 1, True], "in"), of([*MANY, True, 1], "in"), "Changed the order of the values of e in {}"),
    ]:
        said = next(changes([old], [new]))
        assert said == [expected.format("the conditions")], (old, new)


def test_change__of_text_to_number_in_a_long_list__tells_them_apart() -> None:
    assert next(changes([of([*MANY, 1], "in")], [of([*MANY, "1"], "in")])) == [
        "Added “1” to the values of e in the conditions",
        "Removed 1 from the values of e in the conditions",
    ]


def test_change__of_a_share_and_of_a_value_that_words_leave_out__says_both() -> None:
    rules = [
        {"type": "attribute", "conditions": [of([*MANY[:3], value], "in")], "percentage": share}
        for value, share in (("LI", 5), ("FR", 10))
    ]
    before, after = ({"rules": [rule]} for rule in rules)
    assert [*sentences(before, after, FLAG_WORDS, NOON)] == [
        "Change rule 1 from 5 % of users whose e is one of DE, AT, CH and 1 more "
        "to 10 % of users whose e is one of DE, AT, CH and 1 more",
        "Add FR to the values of e in the conditions of rule 1",
        "Remove LI from the values of e in the conditions of rule 1",
    ]


def test_change__of_a_rule__is_at_least_one_sentence() -> None:
    for old, new in [
        ({}, {"conditions": []}),
        ({"percentage": 5}, {"percentage": 5.0}),
        ({"conditions": [of(1)]}, {"conditions": [of(True)]}),
        ({"unknown": 1}, {"unknown": True}),
    ]:
        before, after = ({"rules": [{"type": "percentage", **fields}]} for fields in (old, new))
        assert [*sentences(before, after, FLAG_WORDS, NOON)], (old, new)


def test_move__of_a_rule_with_another_value__is_no_move() -> None:
    one, other, third = ({"type": "attribute", "conditions": [of(value)]} for value in (1, "x", True))
    said = [*sentences({"rules": [one, other]}, {"rules": [other, third]}, FLAG_WORDS, NOON)]
    assert said == ["Add a rule: e equals yes", "Remove a rule: e equals 1"]


def test_condition__reads_so() -> None:
    for condition, words in [
        (of("5", "contains"), "e contains 5"),
        (of("5", "matches"), "e matches 5"),
        (of(" a", "startsWith"), "e starts with “ a”"),
        (of("2.0", "semverEquals"), "e is version 2.0"),
        (of("2.0", "semverEquals", ignoreCase=True), "e is version 2.0"),
        (of("-7d", "after"), "e is after 7 days ago"),
        (of("10.0.0.0/8", "inCidr"), "e is in network 10.0.0.0/8"),
        (of(5, "greaterThan"), "e is over 5"),
        (of("2.1.0"), "e equals 2.1.0"),
        (of("“5”"), "e equals ““5””"),
        (of(["a, b", " c, d", "5"], "in"), "e is one of “a, b”, “ c, d”, “5”"),
        (of(MANY, "in", ignoreCase=True), "e is one of DE, AT, CH and 1 more (ignoring case)"),
        (of("a", "inFuture", ignoreCase=True), "e inFuture a (ignoring case)"),
        ({**of("5"), "attribute": USER_ID}, "userId equals 5"),
        ({**of(5), "attribute": USER_ID}, "userId equals the number 5"),
        ({**of(["yes", True, ""], "in"), "attribute": USER_ID}, "userId is one of yes, the value yes, “”"),
    ]:
        assert describe_condition(condition) == words, condition


def test_comparison__of_values_of_conditions__shows_them_alike() -> None:
    for first, second, shown in [
        ("5", 5, ("“5”", "5")),
        (" ", "a", ("“ ”", "a")),
        (["5", ""], [5], ("2 that the other lacks (“5”, “”)", "1 that the other lacks (5)")),
    ]:
        before, after = ({"conditions": [of(value)]} for value in (first, second))
        [comparison] = compare_documents(before, after, segment_changes.KIND, NOON)
        assert (comparison.first, comparison.second) == shown, (first, second)
