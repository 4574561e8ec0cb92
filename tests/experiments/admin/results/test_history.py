"""Finished experiments read as history: in their badge, in lists, on the overview, and at the flag."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse

from experiments.admin.results.history import describe_briefly, describe_fully, format_briefly
from experiments.admin.results.panel import build_badge
from experiments.models import Experiment, Status
from experiments.results.outcomes import Effect, Outcome, compute_outcome
from experiments.stats.numbers import MINUS
from tests.admin import sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.admin.results.made import results
from tests.experiments.admin.results.test_pages import address
from tests.experiments.results.test_outcomes import stopped

AT = NOON.replace(month=5, day=3)
GREEN = Effect("purchase", 1, "green", True, False, False, "better", 0.041, 0.012, 0.0702, 0.95, 0.01)
RED = replace(GREEN, variant="red", lift=-0.003, lower=-0.02, upper=0.014, label="unclear")
OUTCOME = Outcome(2000, "blue", "ship", "green", "user ada", [GREEN, RED])
VARIANTS = [{"key": key, "weight": 1} for key in ("blue", "green", "red")]


def finished(winner: str = "", **decision: Any) -> Experiment:
    recorded = {"winner": winner, **decision} if winner else None
    return Experiment(
        key="button", status=Status.STOPPED, stopped_at=AT, winner=winner, decision=recorded, variants=VARIANTS
    )


@pytest.mark.parametrize(
    ("winner", "words"),
    [
        ("green", "Shipped green on 3 May 2026; +4.1 %"),
        ("blue", f"Kept blue on 3 May 2026; green +4.1 %, red {MINUS}0.3 %"),
        ("", f"Stopped on 3 May 2026; green +4.1 %, red {MINUS}0.3 %"),
    ],
)
def test_brief__of_each_end__says_what_when_and_with_which_effect(winner: str, words: str) -> None:
    assert describe_briefly(finished(winner), OUTCOME) == words


def test_brief__without_an_outcome__has_the_effect_recorded_with_the_decision() -> None:
    lift = {"estimate": 0.041, "lower": 0.012, "upper": 0.07}
    primary = {"metric": "purchase", "variants": [{"key": "blue", "lift": None}, {"key": "green", "lift": lift}]}
    assert describe_briefly(finished("green", primary=primary), None) == "Shipped green on 3 May 2026; +4.1 %"
    assert describe_briefly(finished("blue", primary=primary), None) == "Kept blue on 3 May 2026"
    assert describe_briefly(finished("green", primary=None), None) == "Shipped green on 3 May 2026"
    assert describe_briefly(finished(), None) == "Stopped on 3 May 2026"


def test_brief__of_many_treatments__names_the_first() -> None:
    effects = [replace(RED, variant=f"v{number}") for number in range(5)]
    words = describe_briefly(finished(), replace(OUTCOME, effects=effects))
    assert words == f"Stopped on 3 May 2026; v0 {MINUS}0.3 %, v1 {MINUS}0.3 %, v2 {MINUS}0.3 %, 2 more"


def test_brief__of_an_experiment_that_runs__is_empty() -> None:
    assert describe_briefly(Experiment(key="button", status=Status.RUNNING, variants=VARIANTS), None) == ""


def test_full__of_a_winner__says_who_to_whom_why_and_how_sure() -> None:
    experiment = finished("green", shipTo="audience", holdback=5, overridden=["guardrail_harmed"], reason="We like it.")
    assert list(describe_fully(experiment, replace(OUTCOME, decision="keep_running", recommended=""))) == [
        "Shipped green on 3 May 2026 by user ada for the audience, with a holdback of 5 %.",
        "purchase of green: +4.10 % against blue (95 % interval +1.20 % to +7.02 %).",
        "The verdict was to keep running.",
        "It was shipped despite objections: guardrail harmed.",
        "Reason: We like it.",
    ]


def test_full__of_a_stop_without_winner__has_all_treatments_and_gives_no_advice() -> None:
    nobody = replace(OUTCOME, stopped_by="", effects=[replace(RED, lower=-1.2, upper=None)])
    assert list(describe_fully(finished(), nobody)) == [
        "Stopped on 3 May 2026 without a winner.",
        f"purchase of red: {MINUS}0.30 % against blue (95 % interval any lift is possible).",
        "The verdict was to ship green.",
    ]


@pytest.mark.parametrize(
    ("lift", "words"),
    [(0.041, "+4.1 %"), (-0.003, f"{MINUS}0.3 %"), (0.0, "0.0 %"), (0.0004, "+0.04 %"), (12.5, "+1,250.0 %")],
)
def test_lift__in_brief__has_one_decimal_or_what_it_needs(lift: float, words: str) -> None:
    assert format_briefly(lift) == words


@pytest.mark.parametrize(
    ("winner", "label", "tone"),
    [("green", "Shipped green", "good"), ("blue", "Kept blue", "none"), ("", "Stopped", "none")],
)
def test_badge__of_a_finished_experiment__is_history_and_no_advice(winner: str, label: str, tone: str) -> None:
    badge = build_badge(results(finished(winner)), OUTCOME)
    assert (badge.label, badge.tone) == (label, tone)
    assert badge.reasons[0].startswith(f"{label} on 3 May 2026 by user ada")
    assert badge.reasons[-1] == "green is better than blue."


@pytest.mark.django_db
@pytest.mark.parametrize("winner", ["green", ""])
def test_pages__of_a_finished_experiment__read_as_history(winner: str) -> None:
    experiment = stopped(winner=winner or None, stopped_at=NOON + timedelta(days=8))
    client = sign_in()
    for page in ("change", "results", "ship"):
        text = text_of(client.get(address(experiment, page)))
        label = "Shipped green" if winner else "Stopped"
        assert f"{label} on 8 Feb 2026 by {ACTOR.name}" in text, page
        assert "purchase of green: +100.00 % against control (95 % interval" in text
        assert "The verdict was to ship green." in text
        assert "rocket_launch Ship green" not in text, page
    text = text_of(client.get(f"{address(experiment)}?control=green"))
    assert "purchase of green: +100.00 % against control" in text


@pytest.mark.django_db
@pytest.mark.parametrize("count", [1, 6])
def test_list__of_finished_experiments__has_their_history_with_one_query(
    django_assert_num_queries: Any, count: int
) -> None:
    for number in range(count):
        compute_outcome(stopped(f"e-{number}"), NOON + timedelta(days=9))
    client = sign_in()
    with django_assert_num_queries(7):  # session, user, environments, owners, count, experiments, outcomes
        text = text_of(client.get(reverse("admin:experiments_experiment_changelist")))
    assert text.count("Stopped on 9 Feb 2026; green +100.0 %") == count
