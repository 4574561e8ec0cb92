"""What of experiments reads better in words than as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from config.change_log.descriptions import told
from config.models import Change, Environment
from experiments.admin.words import experiment_in_words
from experiments.lifecycle.changes import stop_experiment, update_experiment
from experiments.lifecycle.new_phase import open_phase
from experiments.metrics.definition import undefined
from tests.admin import sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.lifecycle.shipping import run

VARIANTS = [{"key": "control", "weight": 1}, {"key": "green", "weight": 3}]
CONDITION = {"attribute": "plan", "operator": "equals", "value": "pro"}
PHASE = {"startedAt": "2026-01-31T12:00:00Z", "variants": VARIANTS, "percentage": 100, "conditions": [], "reason": ""}
NARROW = {**PHASE, "percentage": 12.5, "conditions": [CONDITION]}
DEFINITION = undefined("buy").document()
REGISTRATION = {"primaryMetric": "buy", "direction": "decrease", "plannedSampleSize": 5000}


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("variants", VARIANTS, "control 25 % · green 75 %"),
        ("variants[1]", VARIANTS[1], "green with the weight 3"),
        ("variants[1].weight", 3, None),
        ("conditions", [CONDITION, CONDITION], "plan equals pro and plan equals pro"),
        ("conditions", [], "none"),
        ("conditions[0]", CONDITION, "plan equals pro"),
        ("definitions", [DEFINITION], "buy: Share of users with buy after exposure"),
        ("definitions[3]", {**DEFINITION, "isPostHoc": True}, "buy: Share of users with buy after exposure, post hoc"),
        ("phases", [PHASE], "control 25 % · green 75 %, everybody"),
        ("phases[1]", NARROW, "control 25 % · green 75 %, 12.5 % of the audience, plan equals pro"),
        ("group", {"key": "checkout", "from": 0, "to": 12.5}, "0 to 12.5 % of checkout"),
        ("flag", {"key": "f", "serves": {"control": False, "green": True}}, "f: control off · green on"),
        ("flag", {"key": "f", "serves": {"control": "old", "green": "new"}}, "f: control old · green new"),
        ("forcedVariants", {"qa-1": "green"}, "qa-1 sees green"),
        ("registration", REGISTRATION, "buy decides, less is better, 5,000 users planned"),
        ("registration", {**REGISTRATION, "primaryMetric": None, "plannedSampleSize": None}, "nothing decides"),
        ("decision", {"flag": {"before": [], "revision": 7}}, "no winner"),
        ("decision", {"winner": "green", "holdback": 0, "overridden": []}, "green wins"),
        (
            "decision",
            {"winner": "green", "holdback": 5, "overridden": ["not_the_verdict", "guardrail_harmed"]},
            "green wins, with 5 % held back; against it: not the verdict, guardrail harmed",
        ),
        ("description", "Why?", None),
        ("metrics", ["buy"], None),
    ],
)
def test_value__in_words(path: str, value: Any, expected: str | None) -> None:
    assert experiment_in_words(path, value) == expected


@pytest.mark.django_db
def test_history__of_a_whole_life__holds_no_json_but_plain_values(production: Environment) -> None:
    who: dict[str, Any] = {"key": "e", "environment": production, "actor": ACTOR, "at": NOON}
    experiment = run(production, forced_variants={"qa": "green"}, group={"key": "g", "from": 0, "to": 50})
    update_experiment(**who, changes={"metrics": ["purchase", "sign_up"]})
    open_phase(**who, changes={"percentage": 10, "conditions": [CONDITION]}, reason="Fewer.")
    stop_experiment(**who, winner="green", holdback=5, reason="We like it.")

    lines = [line for each in Change.objects.of("experiment", experiment.pk) for line in told(each).lines]
    assert [line for line in lines if "{" in line] == []
    assert "decision: nothing → green wins, with 5 % held back; against it: not the verdict" in lines
    page = text_of(sign_in().get(f"/admin/experiments/experiment/{experiment.pk}/history/"))
    assert "control 50 % · green 50 %, 10 % of the audience, plan equals pro" in page
