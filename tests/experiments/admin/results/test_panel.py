"""What stands above the metrics: the decision with its reasons, and whether the data can be trusted."""

from __future__ import annotations

import pytest

from experiments.admin.results.panel import badge_of, panel_of
from experiments.models import Experiment
from experiments.results.classification import Assignments, Cause
from experiments.results.types import Audit, Guards
from experiments.stats.types import Decision, Reason, ReasonCode, SampleRatio, Verdict
from tests.experiments.admin.results.made import CONVERSION, EVEN, REFUNDS, TOO_FEW, metric, results, variant

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
    badge = badge_of(Verdict(decision, "green" if decision is Decision.SHIP else None, [reason]))
    assert (badge.label, badge.tone, badge.reasons) == (label, tone, [reason.message])


def test_panel__of_results__knows_the_card_of_the_primary_metric() -> None:
    guardrail = metric(REFUNDS, variant("blue", 0.1))
    panel = panel_of(results(EXPERIMENT, [guardrail, metric(CONVERSION, variant("blue", 0.1), metric_index=1)]))
    assert panel.primary is panel.cards[1]
    assert panel.users == "2,000 users"
    assert panel.variants == [("blue", "1,000", "1,000"), ("green", "1,000", "1,000")]
    assert panel_of(results(EXPERIMENT, [guardrail])).primary is None


FOUND = Assignments(
    400, {**dict.fromkeys(Cause, 0), Cause.SELF_REPORTED: 2, Cause.UNEXPLAINED: 6}, 0, before_start=0, after_stop=1
)


def guards_in_words(guards: Guards) -> dict[str, tuple[str, bool]]:
    return {each.name: (each.words, each.is_alarm) for each in panel_of(results(EXPERIMENT, guards=guards)).guards}


def test_guards__with_nothing_wrong__say_so() -> None:
    assert guards_in_words(Guards(EVEN, 0, 0)) == {
        "Sample ratio": ("as the weights say (p = 1.00)", False),
        "Users in several variants": ("none", False),
        "Events of unknown variants": ("none", False),
    }


def test_guards__with_everything_wrong__are_alarms() -> None:
    uneven = SampleRatio({}, chi_square_p=1e-9, always_valid_p=1e-6, is_mismatch=True)
    assert guards_in_words(Guards(uneven, 1, 2_000, Audit(5, FOUND))) == {
        "Sample ratio": ("not as the weights say (p < 0.001)", True),
        "Users in several variants": ("1 user; each counts for the first", True),
        "Events of unknown variants": ("2,000 events; they do not count", True),
        "Events before exposure": ("5 events; they do not count", False),
        "Not as the hash has it": (
            "8 of 400 exposures: 2 reported by clients or imported, 6 for no cause that can be told",
            True,
        ),
        "Exposures outside the run": ("1 exposure; before the start or after the stop", True),
    }
    assert panel_of(results(EXPERIMENT, guards=Guards(uneven, 0, 0))).is_mismatch


def test_guard__without_enough_users__gives_the_reason() -> None:
    assert guards_in_words(Guards(TOO_FEW, 0, 0))["Sample ratio"] == (TOO_FEW.message, False)
