"""What an experiment is made of, in words."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.admin import words as told
from experiments.models import Experiment

TWO = [{"key": "control", "weight": 1}, {"key": "green", "weight": 3}]
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
GROUP = {"key": "checkout", "from": 0, "to": 12.5}


def test_shares__weights__are_percentages_of_their_sum() -> None:
    assert told.shares_in_words(TWO) == "control 25 % · green 75 %"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "everyone"),
        ({"percentage": 12.5}, "12.5 % of users"),
        ({"conditions": [PRO]}, "users whose plan equals pro"),
        ({"percentage": 20, "conditions": [PRO]}, "20 % of users whose plan equals pro"),
        ({"group": GROUP}, "everyone, within 0 to 12.5 % of the group checkout"),
    ],
)
def test_audience__each_kind__is_told(values: dict[str, Any], words: str) -> None:
    assert told.audience_in_words(Experiment(variants=TWO, **values)) == words


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        (None, "none"),
        ({"key": "f", "serves": {"control": False, "green": True}}, "f: control off · green on"),
        ({"key": "f", "serves": {"control": "old", "green": "new"}}, "f: control old · green new"),
    ],
)
def test_flag__driven_or_not__is_told(flag: Any, words: str) -> None:
    assert told.flag_in_words(Experiment(variants=TWO, flag=flag)) == words


def test_testers__none__are_nobody() -> None:
    assert told.testers_in_words(Experiment(variants=TWO)) == "nobody"


@pytest.mark.parametrize(
    ("winner", "decision", "words"),
    [
        ("", None, "no winner"),
        ("", {"flag": {"before": [], "revision": 7}}, "no winner"),
        ("green", {"holdback": 0, "overridden": [], "reason": ""}, "green wins"),
        ("green", {"holdback": 2.5, "overridden": [], "reason": "Yes"}, "green wins, with 2.5 % held back: Yes"),
        (
            "green",
            {"holdback": 0, "overridden": ["not_the_verdict"], "reason": "Yes"},
            "green wins, although something spoke against it: Yes",
        ),
    ],
)
def test_decision__each_kind__is_told(winner: str, decision: Any, words: str) -> None:
    assert told.decision_in_words(Experiment(variants=TWO, winner=winner, decision=decision)) == words
