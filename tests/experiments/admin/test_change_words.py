"""The steps of experiments, and new versions of metrics, as a product manager would say them."""

from __future__ import annotations

from typing import Any

import pytest

from config.change_log.sentences import in_past, sentences
from experiments.admin.change_words import EXPERIMENT_WORDS, METRIC_WORDS
from experiments.metrics.definition import meaning
from experiments.models import Metric
from tests.conftest import NOON

AT = "2026-01-31T12:00:00.000000Z"
DRAFT = {"status": "draft", "startedAt": None, "stoppedAt": None}
RUNNING = {**DRAFT, "status": "running", "startedAt": AT}
STOPPED = {**RUNNING, "status": "stopped", "stoppedAt": AT}


def told(before: Any, after: Any, words: Any = EXPERIMENT_WORDS) -> list[str]:
    return [in_past(sentence) for sentence in sentences(before, after, words, NOON)]


def test_step__of_an_experiment__is_a_sentence(subtests: pytest.Subtests) -> None:
    for before, after, expected in [
        (DRAFT, RUNNING, ["Started the experiment"]),
        (RUNNING, DRAFT, ["Took back the start of the experiment"]),
        (RUNNING, STOPPED, ["Stopped the experiment without a winner"]),
        (RUNNING, {**STOPPED, "winner": "green"}, ["Stopped the experiment with green as the winner"]),
        (STOPPED, RUNNING, ["Reopened the experiment"]),
        (STOPPED, {**STOPPED, "archivedAt": AT}, ["Archived"]),
        ({"percentage": 50}, {}, ["Changed the share of users from 50 % to 100 %"]),
        ({}, {"minimumEffect": 0.05}, ["Set the smallest effect of interest to 5 %"]),
        (
            {"forcedVariants": {"ada": "green", "bob": "green"}},
            {"forcedVariants": {"ada": "control"}},
            ["Forced ada to control", "Stopped forcing a variant for bob"],
        ),
    ]:
        with subtests.test(before=before):
            assert told(before, after) == expected


def test_end__of_an_experiment_that_drives_a_flag__says_what_was_shipped() -> None:
    flag = {"flag": {"key": "f", "serves": {"green": True}}}
    assert told({**RUNNING, **flag}, {**STOPPED, **flag, "winner": "green"}) == [
        "Stopped the experiment and shipped green"
    ]


def test_version__of_a_metric__says_what_it_measured_and_measures() -> None:
    before = {"key": "bought", **meaning(Metric(type="conversion", event="buy")), "version": 1}
    assert told(before, {**before, "windowHours": 24, "version": 2}, METRIC_WORDS) == [
        "Changed what it measures from “Share of users with buy after exposure” to “Share of users with buy "
        "within 1 day of exposure”",
        "Made version 2 of the metric",
    ]
