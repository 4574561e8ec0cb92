"""What is above the metrics: the verdict with its reasons, the checks of the data, and the phases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from experiments.admin.results.panel import build_badge, build_panel, build_phases
from experiments.lifecycle.new_phase import open_phase
from experiments.models import Experiment, Exposure
from experiments.results.classification import AssignmentAudit, Cause
from experiments.results.types import Guards, PhaseFigures, VariantUsers
from experiments.stats.sample_ratio import check
from experiments.stats.types import Decision, Reason, ReasonCode, SampleRatio, Verdict, Weight
from tests.admin import messages_of, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.admin.results.made import CONVERSION, EVEN, REFUNDS, TOO_FEW, metric, results, variant
from tests.experiments.admin.results.test_pages import address, report
from tests.factories import ExperimentFactory

EXPERIMENT = Experiment(key="button")


@pytest.mark.parametrize(
    ("decision", "label", "tone"),
    [
        (Decision.SHIP, "Ship green", "good"),
        (Decision.DO_NOT_SHIP, "Do not ship", "bad"),
        (Decision.KEEP_RUNNING, "Keep running", "open"),
        (Decision.INCONCLUSIVE, "No clear result", "none"),
        (Decision.CHECK_DATA, "Check the data", "warning"),
    ],
)
def test_badge__of_each_decision__says_what_to_do_and_why(decision: Decision, label: str, tone: str) -> None:
    reason = Reason(ReasonCode.TOO_FEW_USERS, "100 users a variant are needed, green has 37.")
    badge = build_badge(Verdict(decision, "green" if decision is Decision.SHIP else None, [reason]))
    assert (badge.label, badge.tone, badge.reasons) == (label, tone, [reason.message])


def test_panel__of_results__knows_the_card_of_the_primary_metric() -> None:
    guardrail = metric(REFUNDS, variant("blue", 0.1))
    panel = build_panel(results(EXPERIMENT, [guardrail, metric(CONVERSION, variant("blue", 0.1), metric_index=1)]))
    assert panel.primary is panel.cards[1]
    assert panel.users == "2,000 users"
    assert panel.variants == [("blue", "1,000", "1,000"), ("green", "1,000", "1,000")]
    assert build_panel(results(EXPERIMENT, [guardrail])).primary is None


AUDIT = AssignmentAudit(
    400, {**dict.fromkeys(Cause, 0), Cause.SELF_REPORTED: 2, Cause.UNEXPLAINED: 6}, 0, before_start=0, after_stop=1
)


def guards_in_words(guards: Guards) -> dict[str, tuple[str, bool]]:
    return {
        guard.name: (guard.words, guard.is_alarm) for guard in build_panel(results(EXPERIMENT, guards=guards)).guards
    }


def test_guards__with_nothing_wrong__say_so() -> None:
    assert guards_in_words(Guards(EVEN, 0, 0)) == {
        "Sample ratio": ("matches the weights (p = 1.00)", False),
        "Users in several variants": ("none", False),
        "Events with unknown variants": ("none", False),
    }


def test_guards__with_everything_wrong__are_alarms() -> None:
    uneven = SampleRatio({}, chi_square_p=1e-9, always_valid_p=1e-6, is_mismatch=True)
    assert guards_in_words(Guards(uneven, 1, 2_000, 5, AUDIT)) == {
        "Sample ratio": ("does not match the weights (p < 0.001)", True),
        "Users in several variants": ("1 user; each counts for the first variant", True),
        "Events with unknown variants": ("2,000 events; not counted", True),
        "Events before exposure": ("5 events; not counted", False),
        "Assignment mismatches": (
            "8 of 400 exposures: 2 reported by clients or imported, 6 for no known cause",
            True,
        ),
        "Exposures outside the run": ("1 exposure; before the start or after the stop", True),
    }
    assert build_panel(results(EXPERIMENT, guards=Guards(uneven, 0, 0))).is_mismatch


def test_guard__without_enough_users__gives_the_reason() -> None:
    assert guards_in_words(Guards(TOO_FEW, 0, 0))["Sample ratio"] == (TOO_FEW.message, False)


LEFT_OUT = "These figures cover phase 2; users of the other phases are left out."
CONDITION = {"attribute": "country", "operator": "equals", "value": "CH"}


def figures(number: int, *, weights: Sequence[float] = (1, 1), users: tuple[int, int] = (10, 10), **others: Any) -> Any:
    variants = [{"key": key, "weight": weight} for key, weight in zip(("blue", "green"), weights, strict=True)]
    usual = {"startedAt": "2026-01-31T12:00:00.000000Z", "percentage": 100, "conditions": [], "reason": ""}
    counts = dict(zip(("blue", "green"), users, strict=True))
    return PhaseFigures(
        number,
        {**usual, "variants": variants, **{name: others[name] for name in usual.keys() & others.keys()}},
        [VariantUsers(key, 1, count, sum(users) / 2) for key, count in counts.items()],
        check([Weight(weighted["key"], weighted["weight"]) for weighted in variants], counts),
        others.get("is_covered", True),
    )


def test_phases__but_one__are_nothing_to_tell():
    assert build_phases([]) is build_phases([figures(1)]) is None


def test_phases__each__tell_what_changed_since_the_one_before():
    table = build_phases(
        [
            figures(1, percentage=10),
            figures(2, reason="Nothing broke.", weights=(50, 50)),
            figures(3, weights=(9, 1), conditions=[CONDITION]),
            figures(4, weights=(9, 1), users=(0, 0)),
        ]
    )
    assert table is not None
    assert [row.changes for row in table.rows] == [
        ["blue 50 % · green 50 %", "10 % of the audience"],
        ["everyone"],
        ["blue 90 % · green 10 %", "country equals CH"],
        ["conditions removed"],
    ]
    assert [row.reason for row in table.rows] == ["", "Nothing broke.", "", ""]
    assert [row.ratio for row in table.rows] == ["p = 1.00", "p = 1.00", table.rows[2].ratio, "no users"]
    assert table.rows[0].users == [("blue", "10", "10"), ("green", "10", "10")]


@pytest.mark.parametrize(
    ("phases", "note", "is_mixed"),
    [
        (
            [figures(1, is_covered=False), figures(2)],
            "These figures cover phase 2; users of the other phases are left out.",
            False,
        ),
        ([figures(1), figures(2)], "These figures cover phases 1, 2.", False),
        (
            [figures(1, weights=(9, 1)), figures(2)],
            "These figures cover phases 1, 2, which split users by different weights. A change over time can "
            "therefore look like an effect of the variant.",
            True,
        ),
        ([figures(1, weights=(9, 1), users=(0, 0)), figures(2)], "These figures cover phases 1, 2.", False),
    ],
)
def test_phases__covered_ones__are_named(phases, note, is_mixed):
    table = build_phases(phases)
    assert table is not None
    assert (table.note, table.is_mixed) == (note, is_mixed)


def test_phases__users_not_split_as_the_weights_of_their_phase_say__are_marked():
    table = build_phases([figures(1, users=(900, 100)), figures(2, users=(500, 500))])
    assert table is not None
    assert [row.is_mismatch for row in table.rows] == [True, False]


@pytest.mark.django_db
def test_page__of_an_experiment_with_phases__shows_them_with_links_and_keeps_to_the_one_chosen(production):
    experiment = ExperimentFactory(key="button", running=True)
    weights = [{"key": "control", "weight": 9}, {"key": "green", "weight": 1}]
    arguments = {"key": "button", "environment": production, "actor": ACTOR, "at": NOON, "reason": "Complaints"}
    open_phase(**arguments, opened_at=NOON + timedelta(days=1), changes={"variants": weights})
    for key in ("control", "green"):
        report(experiment, f"one {key}", key, "purchase")
    Exposure.objects.filter(user_id="one green").update(phase=2)

    browser = sign_in()
    page = browser.get(address(experiment))
    text = text_of(page)
    assert "These figures cover phase 2; users of the other phases are left out." in text
    assert "control 90 % · green 10 % Complaints" in text
    assert "1 user since" in text
    assert 'href="?phase=1"' in page.content.decode()
    page = browser.get(address(experiment), {"phase": "all"})
    assert "2 users since" in text_of(page)
    assert "phase=all" in page.content.decode().partition("results.csv")[2][:40]
    explained = text_of(browser.get(address(experiment, "explanation", 0), {"variant": "control", "phase": "1"}))
    assert "exposed to the variant in phase 1." in explained
    assert browser.get(address(experiment, "explanation", 0), {"phase": "3"}).status_code == 404
    refused = browser.get(address(experiment), {"phase": "3"})
    assert "phase" in str(messages_of(refused))
    assert browser.get(address(experiment, "results_csv"), {"phase": "3"}).status_code == 404


@pytest.mark.django_db
def test_page__metric_added_after_the_start__is_marked(production):
    experiment = ExperimentFactory(key="button", running=True)
    report(experiment, "ann", "green", "look")
    experiment.metrics.append("look")
    experiment.definitions.append({**experiment.definitions[0], "key": "look", "event": "look", "isPostHoc": True})
    experiment.save(update_fields=["metrics", "definitions"])
    assert "look Post hoc Goal" in text_of(sign_in().get(address(experiment)))
