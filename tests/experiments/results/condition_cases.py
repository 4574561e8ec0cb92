"""Conditions on the properties of events, and values that meet some of them: of every operator, and random ones."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from experiments.metrics.definition import Condition
from tests.experiments.results.histories import ODD_NAME

TEXTS = [
    *(
        "",
        "a",
        "A",
        "abc",
        "true",
        "True",
        "FALSE",
        "TRUE ",
        "fal\u017fe",
        "1",
        "5",
        "é",
        "e\u0301",
        "ß",
        "SS",
        "日本",
        "😀",
    ),
    *('it\'s "%s"\\', "100%", "a_c", "a*c", "[a]"),
]
NUMBERS = [
    *(0, 1, 1.0, -1, 2.5, 0.1, 0.30000000000000004, 5),
    *(2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 1e300, 1e-300),
]
VALUES: list[Any] = [*TEXTS, *NUMBERS, True, False, None, [], [1], ["a"], {}, {"a": 1}]
_TEXT = ("contains", "startsWith")
_NUMBER = ("greaterThan", "greaterThanOrEqual", "lessThan", "lessThanOrEqual")

CONDITIONS = [
    *(Condition(ODD_NAME, operator) for operator in ("exists", "notExists")),
    *(Condition(ODD_NAME, operator, text) for operator in _TEXT for text in TEXTS if text),
    *(Condition(ODD_NAME, operator, number) for operator in _NUMBER for number in NUMBERS),
    *(
        Condition(ODD_NAME, operator, value)
        for operator in ("equals", "notEquals")
        for value in [*TEXTS, *NUMBERS, True, False]
    ),
    *(
        Condition(ODD_NAME, operator, values)
        for operator in ("in", "notIn")
        for values in (
            ("a", "é"),
            (1, 2.5),
            (True,),
            (True, False),
            ("1", 1, False),
            ("a", "False"),
            tuple(TEXTS),
            tuple(NUMBERS),
        )
    ),
]

names = st.sampled_from(["a", ODD_NAME])
texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=4)
scalars = st.one_of(texts, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(-1e6, 1e6))
members = st.lists(scalars, min_size=1, max_size=4).map(tuple)
conditions = st.one_of(
    st.builds(Condition, names, st.sampled_from(["equals", "notEquals"]), scalars),
    st.builds(Condition, names, st.sampled_from(["in", "notIn"]), members),
    st.builds(Condition, names, st.sampled_from(_TEXT), texts.filter(bool)),
    st.builds(Condition, names, st.sampled_from(_NUMBER), scalars.filter(lambda value: type(value) in (int, float))),
    st.builds(Condition, names, st.sampled_from(["exists", "notExists"])),
)
