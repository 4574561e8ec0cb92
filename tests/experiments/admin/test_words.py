"""Numbers, definitions, experiments and their histories in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from config.change_log.descriptions import describe_change
from config.models import Change, Environment
from experiments.admin import words
from experiments.admin.words import (
    describe_definition,
    describe_experiment_value,
    format_count,
    format_number,
    format_p_value,
    format_percent,
    format_points,
    format_probability,
    format_short_percent,
    with_sign,
)
from experiments.lifecycle.changes import stop_experiment, update_experiment
from experiments.lifecycle.new_phase import open_phase
from experiments.metrics.definition import Definition, Quantity, undefined
from experiments.models import Experiment
from tests.admin import sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.lifecycle.shipping import run_experiment

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
PURCHASES = Definition("purchases", 1, "count", Quantity("purchase"))
REVENUE = Definition("revenue", 1, "revenue", Quantity("purchase", "revenue", "EUR"))
TWO = [{"key": "control", "weight": 1}, {"key": "green", "weight": 3}]
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
GROUP = {"key": "checkout", "from": 0, "to": 12.5}
PHASE = {"startedAt": "2026-01-31T12:00:00Z", "variants": TWO, "percentage": 100, "conditions": [], "reason": ""}
NARROW = {**PHASE, "percentage": 12.5, "conditions": [PRO]}
DEFINITION = undefined("buy").document()
REGISTRATION = {"primaryMetric": "buy", "direction": "decrease", "plannedSampleSize": 5000}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (-0.0, "0"),
        (312.5, "312.50"),
        (12345.678, "12,346"),
        (1234.5, "1,234.50"),
        (2_000_000, "2,000,000"),
        (1.23456, "1.235"),
        (-0.0012345, "\u22120.001234"),
        (1e-12, "1.000e-12"),
        (1.5e100, "1.5e+100"),
    ],
)
def test_number__of_any_size__has_about_four_digits(value: float, words: str) -> None:
    assert format_number(value) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (1 / 3, "33.33 %"),
        (0, "0.00 %"),
        (-0.0, "0.00 %"),
        (-0.05, "\u22125.00 %"),
        (0.0000123, "0.0012 %"),
        (123.456, "12,346 %"),
    ],
)
def test_percent__of_a_share__has_hundredths_or_what_is_left_below(share: float, words: str) -> None:
    assert format_percent(share) == words


def test_plus__of_what_is_not_zero__stands_before_it() -> None:
    assert [with_sign(format_percent(share)) for share in (0.1, 0, -0.1)] == ["+10.00 %", "0.00 %", "\u221210.00 %"]


def test_points__of_a_difference__are_no_percent() -> None:
    assert format_points(-0.0123) == "\u22121.23 points"


@pytest.mark.parametrize(("p", "words"), [(0.0009, "< 0.001"), (0.0312, "0.031"), (0.5, "0.50"), (1, "1.00")])
def test_p_value__has_the_digits_that_matter(p: float, words: str) -> None:
    assert format_p_value(p) == words


@pytest.mark.parametrize(("share", "words"), [(0, "< 0.1 %"), (0.9734, "97.3 %"), (0.99999, "> 99.9 %")])
def test_chance__is_never_a_certainty(share: float, words: str) -> None:
    assert format_probability(share) == words


def test_counted__one__is_singular() -> None:
    assert [format_count(count, "user") for count in (0, 1, 2_000)] == ["0 users", "1 user", "2,000 users"]


def test_short_percent__beside_a_chart__has_no_digits_to_spare() -> None:
    assert [format_short_percent(share) for share in (-0.05, 0.0, 0.1 + 0.2)] == ["\u22125 %", "0 %", "+30 %"]


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (replace(PURCHASES, type="conversion"), "Share of users with purchase after exposure"),
        (PURCHASES, "Number of purchase events per user after exposure"),
        (replace(PURCHASES, window=7 * DAY), "Number of purchase events per user within 7 days of exposure"),
        (replace(PURCHASES, delay=HOUR), "Number of purchase events per user, starting 1 hour after exposure"),
        (
            replace(PURCHASES, delay=DAY, window=36 * HOUR),
            "Number of purchase events per user from 1 day to 60 hours after exposure",
        ),
        (
            replace(PURCHASES, type="retention", delay=7 * DAY, window=7 * DAY),
            "Share of users with purchase from day 7 to day 14 after exposure",
        ),
        (
            replace(PURCHASES, type="mean", quantity=Quantity("review", "stars")),
            "Mean stars of review per user after exposure",
        ),
        (
            replace(PURCHASES, type="sum", quantity=Quantity("purchase", "items"), cap_value=50.0),
            "Sum of items of purchase per user after exposure, capped at 50",
        ),
        (REVENUE, "Revenue in EUR of purchase per user after exposure"),
        (
            replace(REVENUE, type="ratio", denominator=Quantity("visit")),
            "Revenue in EUR of purchase divided by number of visit events after exposure",
        ),
    ],
)
def test_definition__of_each_type__is_a_sentence(definition: Definition, words: str) -> None:
    assert describe_definition(definition) == words


@pytest.mark.parametrize(("percentile", "ordinal"), [(99, "99th"), (99.5, "99.5th"), (91, "91st"), (52, "52nd")])
def test_definition__with_a_cap_by_percentile__names_the_value_in_force(percentile: float, ordinal: str) -> None:
    capped = replace(REVENUE, window=7 * DAY, cap_percentile=percentile)
    start = "Revenue in EUR of purchase per user within 7 days of exposure, capped at the"
    assert describe_definition(capped, 312.5) == f"{start} {ordinal} percentile (312.50)"
    assert describe_definition(capped) == f"{start} {ordinal} percentile"


def test_shares__weights__are_percentages_of_their_sum() -> None:
    assert words.describe_split(TWO) == "control 25 % · green 75 %"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "everyone"),
        ({"percentage": 12.5}, "12.5 % of users"),
        ({"conditions": [PRO]}, "users whose plan equals pro"),
        ({"percentage": 20, "conditions": [PRO]}, "20 % of users whose plan equals pro"),
        ({"group": GROUP}, "everyone, within 0 to 12.5 % of the group checkout"),
    ],
)
def test_audience__each_kind__is_described(values: dict[str, Any], expected: str) -> None:
    assert words.describe_audience(Experiment(variants=TWO, **values)) == expected


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        (None, "none"),
        ({"key": "f", "serves": {"control": False, "green": True}}, "f: control off · green on"),
        ({"key": "f", "serves": {"control": "old", "green": "new"}}, "f: control old · green new"),
    ],
)
def test_flag__driven_or_not__is_described(flag: Any, expected: str) -> None:
    assert words.describe_flag(Experiment(variants=TWO, flag=flag)) == expected


def test_forced_variants__empty__are_none() -> None:
    assert words.describe_forced_variants(Experiment(variants=TWO)) == "none"


@pytest.mark.parametrize(
    ("winner", "decision", "expected"),
    [
        ("", None, "no winner"),
        ("", {"flag": {"before": [], "revision": 7}}, "no winner"),
        ("green", {"holdback": 0, "overridden": [], "reason": ""}, "green wins"),
        ("green", {"holdback": 2.5, "overridden": [], "reason": "Yes"}, "green wins, with a holdback of 2.5 %: Yes"),
        (
            "green",
            {"holdback": 0, "overridden": ["not_the_verdict"], "reason": "Yes"},
            "green wins, despite objections: Yes",
        ),
    ],
)
def test_decision__each_kind__is_described(winner: str, decision: Any, expected: str) -> None:
    assert words.describe_decision(Experiment(variants=TWO, winner=winner, decision=decision)) == expected


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("variants", TWO, "control 25 % · green 75 %"),
        ("variants[1]", TWO[1], "green with weight 3"),
        ("variants[1].weight", 3, None),
        ("status", "running", "running"),
        ("conditions", [PRO, PRO], "plan equals pro and plan equals pro"),
        ("conditions", [], "none"),
        ("conditions[0]", PRO, "plan equals pro"),
        ("definitions", [DEFINITION], "buy: Share of users with buy after exposure"),
        ("definitions[3]", {**DEFINITION, "isPostHoc": True}, "buy: Share of users with buy after exposure, post hoc"),
        ("phases", [PHASE], "control 25 % · green 75 %, everyone"),
        ("phases[1]", NARROW, "control 25 % · green 75 %, 12.5 % of the audience, plan equals pro"),
        ("group", {"key": "checkout", "from": 0, "to": 12.5}, "0 to 12.5 % of checkout"),
        ("flag", {"key": "f", "serves": {"control": False, "green": True}}, "f: control off · green on"),
        ("flag", {"key": "f", "serves": {"control": "old", "green": "new"}}, "f: control old · green new"),
        ("forcedVariants", {"qa-1": "green"}, "qa-1 sees green"),
        ("registration", REGISTRATION, "primary metric buy, less is better, 5,000 users planned"),
        ("registration", {**REGISTRATION, "primaryMetric": None, "plannedSampleSize": None}, "no primary metric"),
        ("decision", {"flag": {"before": [], "revision": 7}}, "no winner"),
        ("decision", {"winner": "green", "holdback": 0, "overridden": []}, "green wins"),
        (
            "decision",
            {"winner": "green", "holdback": 5, "overridden": ["not_the_verdict", "guardrail_harmed"]},
            "green wins, with a holdback of 5 %, despite objections: not the verdict, guardrail harmed",
        ),
        ("description", "Why?", None),
        ("metrics", ["buy"], None),
    ],
)
def test_value__in_words(path: str, value: Any, expected: str | None) -> None:
    assert describe_experiment_value(path, value) == expected


@pytest.mark.django_db
def test_history__of_a_whole_life__holds_no_json_but_plain_values(production: Environment) -> None:
    who: dict[str, Any] = {"key": "e", "environment": production, "actor": ACTOR, "at": NOON}
    experiment = run_experiment(production, forced_variants={"qa": "green"}, group={"key": "g", "from": 0, "to": 50})
    update_experiment(**who, changes={"metrics": ["purchase", "sign_up"]})
    open_phase(**who, changes={"percentage": 10, "conditions": [PRO]}, reason="Fewer.")
    stop_experiment(**who, winner="green", holdback=5, reason="We like it.")

    lines = [
        line for change in Change.objects.of("experiment", experiment.pk) for line in describe_change(change).lines
    ]
    assert [line for line in lines if "{" in line] == []
    assert "decision: nothing → green wins, with a holdback of 5 %, despite objections: not the verdict" in lines
    page = text_of(sign_in().get(f"/admin/experiments/experiment/{experiment.pk}/history/"))
    assert "control 50 % · green 50 %, 10 % of the audience, plan equals pro" in page
