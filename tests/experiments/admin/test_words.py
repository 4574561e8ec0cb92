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
    describe_margin,
)
from experiments.lifecycle.changes import stop_experiment, update_experiment
from experiments.lifecycle.new_phase import open_phase
from experiments.metrics.definition import Condition, Definition, Quantity, undefined
from experiments.models import Experiment
from tests.admin import sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.lifecycle.shipping import run_experiment

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
PURCHASES = Definition("purchases", 1, "count", Quantity("purchase"))
CONDITIONS = (
    Condition("land", "in", ("CH", 1)),
    Condition("items", "greaterThanOrEqual", 2),
    Condition("gift", "notExists"),
    Condition("page", "exists"),
)
REVENUE = Definition("revenue", 1, "revenue", Quantity("purchase", "revenue", "EUR"))
TWO = [{"key": "control", "weight": 1}, {"key": "green", "weight": 3}]
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
GROUP = {"key": "checkout", "from": 0, "to": 12.5}
PHASE = {"startedAt": "2026-01-31T12:00:00Z", "variants": TWO, "percentage": 100, "conditions": [], "reason": ""}
NARROW = {**PHASE, "percentage": 12.5, "conditions": [PRO]}
DEFINITION = undefined("buy").as_json()
PLAN = {"minimumEffect": 0.05, "analysis": "sequential", "minimumDays": 7, "lookbackDays": 0, "tuningSampleSize": 9_000}
REGISTRATION = {"primaryMetric": "buy", "direction": "decrease", "plannedSampleSize": 5000, **PLAN}
PLANNED = "sequential, at least 7 days, no look-back, tuned for 9,000 users"


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
        (
            replace(REVENUE, type="ratio", denominator=Quantity("visit", where=(Condition("page", "exists"),))),
            "Revenue in EUR of purchase divided by number of visit events where page is known after exposure",
        ),
        (
            replace(PURCHASES, type="conversion", quantity=Quantity("purchase", where=CONDITIONS[:2])),
            "Share of users with purchase where land is one of CH, 1 and items is at least 2 after exposure",
        ),
        (
            replace(PURCHASES, quantity=Quantity("purchase", where=CONDITIONS)),
            "Number of purchase events where land is one of CH, 1 and items is at least 2 and gift is not known "
            "and 1 more per user after exposure",
        ),
        (
            replace(PURCHASES, type="distinct", quantity=Quantity("visit", "page")),
            "Number of different values of page of visit per user after exposure",
        ),
        (
            replace(PURCHASES, type="distinct", quantity=Quantity("visit")),
            "Number of days with visit per user after exposure",
        ),
        (
            replace(PURCHASES, type="funnel", steps=(Quantity("visit", where=CONDITIONS[2:3]), Quantity("purchase"))),
            "Share of users with visit where gift is not known, then purchase after exposure",
        ),
        (
            replace(PURCHASES, type="quantile", quantity=Quantity("visit", "seconds"), quantile=0.5),
            "Median of seconds of visit after exposure",
        ),
        (
            replace(REVENUE, type="quantile", quantile=0.07),
            "7th percentile of revenue in EUR of purchase after exposure",
        ),
    ],
)
def test_definition__of_each_type__is_a_sentence(definition: Definition, words: str) -> None:
    assert describe_definition(definition) == words


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, ""),
        ({"is_guardrail": True}, "at most 10 % worse"),
        ({"is_guardrail": True, "margin": 0.125}, "at most 12.5 % worse"),
        ({"is_guardrail": True, "margin_absolute": 2.5}, "at most 2.500 worse"),
        ({"is_guardrail": True, "type": "funnel", "margin_absolute": 0.015}, "at most 1.5 points worse"),
    ],
)
def test_margin__of_a_guardrail__says_how_much_worse_it_may_get(values: dict[str, Any], words: str) -> None:
    assert describe_margin(replace(PURCHASES, **values)) == words


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
        (
            "registration",
            REGISTRATION,
            f"primary metric buy, less is better, 5,000 users planned, effects from 5 %, {PLANNED}",
        ),
        (
            "registration",
            {**REGISTRATION, "primaryMetric": None, "plannedSampleSize": None},
            f"no primary metric, effects from 5 %, {PLANNED}",
        ),
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
    assert describe_experiment_value(path, value, NOON) == expected


@pytest.mark.django_db
def test_history__of_a_whole_life__holds_no_json_but_plain_values(production: Environment) -> None:
    who: dict[str, Any] = {"key": "e", "environment": production, "actor": ACTOR, "now": NOON}
    experiment = run_experiment(production, forced_variants={"qa": "green"}, group={"key": "g", "from": 0, "to": 50})
    update_experiment(**who, changes={"metrics": ["purchase", "sign_up"]})
    open_phase(**who, changes={"percentage": 10, "conditions": [PRO]}, reason="Fewer.")
    stop_experiment(**who, winner="green", holdback=5, reason="We like it.")

    lines = [
        line for change in Change.objects.of("experiment", experiment.pk) for line in describe_change(change).lines
    ]
    assert [line for line in lines if "{" in line] == []
    assert (
        "Recorded the decision: green wins for the audience, with a holdback of 5 %, "
        "despite objections: not the verdict" in lines
    )
    assert "Opened phase 2: control 50 % · green 50 %, 10 % of the audience, plan equals pro" in lines
    assert {"Started the experiment", "Stopped the experiment and shipped green"} <= set(lines)
    page = text_of(sign_in().get(f"/admin/experiments/experiment/{experiment.pk}/history/"))
    assert "control 50 % · green 50 %, 10 % of the audience, plan equals pro" in page
