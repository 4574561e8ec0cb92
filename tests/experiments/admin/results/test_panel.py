"""What is above the metrics: the verdict with its reasons, the checks of the data, and the phases."""

from __future__ import annotations

from datetime import timedelta

import pytest

from experiments.admin.results.panel import build_badge, build_panel
from experiments.lifecycle.new_phase import open_phase
from experiments.models import Exposure
from experiments.results.classification import NO_EXPOSURES, AssignmentAudit, Cause
from experiments.results.large_values import LargeValue
from experiments.results.types import DataAudit, Guards
from experiments.results.unexposed import NOBODY_UNEXPOSED, Unexposed
from experiments.stats.outcomes import Decision, SampleRatio, Verdict
from experiments.stats.types import Reason, ReasonCode
from tests.admin import messages_of, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.admin.results.made import (
    CONVERSION,
    EVEN,
    EXPERIMENT,
    REFUNDS,
    TOO_FEW,
    metric,
    results,
    variant,
)
from tests.experiments.admin.results.test_pages import address, report
from tests.factories import ExperimentFactory


@pytest.mark.parametrize(
    ("decision", "label", "tone"),
    [
        (Decision.SHIP, "Ship green", "good"),
        (Decision.DO_NOT_SHIP, "Do not ship", "bad"),
        (Decision.KEEP_RUNNING, "Keep running", "open"),
        (Decision.NO_DIFFERENCE, "No difference", "none"),
        (Decision.INCONCLUSIVE, "No clear result", "none"),
        (Decision.CHECK_DATA, "Check the data", "warning"),
    ],
)
def test_badge__of_each_decision__says_what_to_do_and_why(decision: Decision, label: str, tone: str) -> None:
    reason = Reason(ReasonCode.TOO_FEW_USERS, "100 users a variant are needed, green has 37.")
    verdict = Verdict(decision, "green" if decision is Decision.SHIP else None, [reason])
    badge = build_badge(results(EXPERIMENT, verdict=verdict))
    assert (badge.label, badge.tone, badge.reasons) == (label, tone, [reason.message])


def test_panel__of_results__knows_the_card_of_the_primary_metric() -> None:
    guardrail = metric(REFUNDS, variant("blue", 0.1))
    panel = build_panel(results(EXPERIMENT, [guardrail, metric(CONVERSION, variant("blue", 0.1), metric_index=1)]))
    assert panel.primary is panel.cards[1]
    assert panel.users == "2,000 users"
    assert panel.variants == [("blue", "1,000", "1,000"), ("green", "1,000", "1,000")]
    assert build_panel(results(EXPERIMENT, [guardrail])).primary is None


def test_panel__with_events_never_received__names_their_metrics() -> None:
    silent = metric(CONVERSION, variant("blue", 0.0), never_received=["purchase"])
    panel = build_panel(results(EXPERIMENT, [silent, metric(REFUNDS, variant("blue", 0.1), metric_index=1)]))
    assert [key for key, _ in panel.never_received] == ["purchase"]


def test_panel__of_all_users__is_marked_where_it_makes_a_difference() -> None:
    windowed, whole = metric(CONVERSION, variant("blue", 0.1)), metric(REFUNDS, variant("blue", 0.1))
    assert build_panel(results(EXPERIMENT, [windowed], maturity="all")).counts_all_users
    assert not build_panel(results(EXPERIMENT, [windowed])).counts_all_users
    assert not build_panel(results(EXPERIMENT, [whole], maturity="all")).counts_all_users


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
        "Doubted reports": ("none", False),
    }


def test_guards__with_everything_wrong__are_alarms() -> None:
    uneven = SampleRatio({}, chi_square_p=1e-9, always_valid_p=1e-6, is_mismatch=True)
    unexposed = Unexposed(3_000, 7, 2, "Send the same ids.")
    large = [LargeValue("revenue", "green", "ada", 1e7, 0.987)]
    audit = DataAudit(5, AUDIT, unexposed, similar_ids=2, large_values=large)
    assert guards_in_words(Guards(uneven, 1, 2_000, 3, audit)) == {
        "Sample ratio": ("does not match the weights (p < 0.001)", True),
        "Users in several variants": ("1 user; each counts for the first variant", True),
        "Events with unknown variants": ("2,000 events; not counted", True),
        "Doubted reports": ("3 events; not counted, as client keys may not report these", True),
        "Events before exposure": ("5 events; not counted", False),
        "Conversions without exposure": ("3,000 events of 7 users; not counted. Send the same ids.", True),
        "Similar ids": ("2 users; other ids but for blanks or case; each counts as a user", True),
        "Large values": ("98 % of revenue in green come from the user ada", True),
        "Assignment mismatches": (
            "8 of 400 exposures: 2 reported by clients or imported, 6 for no known cause",
            True,
        ),
        "Exposures outside the run": ("1 exposure; before the start or after the stop", True),
    }
    assert build_panel(results(EXPERIMENT, guards=Guards(uneven, 0, 0))).is_mismatch


def test_guards__audited_with_nothing_wrong__say_so() -> None:
    clean = DataAudit(0, NO_EXPOSURES, NOBODY_UNEXPOSED)
    words = guards_in_words(Guards(EVEN, 0, 0, audit=clean))
    audited = ("Conversions without exposure", "Similar ids", "Large values", "Assignment mismatches")
    assert [words[name] for name in audited] == [("none", False)] * 4
    older = guards_in_words(Guards(EVEN, 0, 0, audit=DataAudit(0, NO_EXPOSURES, None)))
    assert "Conversions without exposure" not in older


def test_guard__without_enough_users__gives_the_reason() -> None:
    assert guards_in_words(Guards(TOO_FEW, 0, 0))["Sample ratio"] == (TOO_FEW.message, False)


@pytest.mark.django_db
def test_page__of_an_experiment_with_phases__shows_them_with_links_and_keeps_to_the_one_chosen(production):
    experiment = ExperimentFactory(key="button", running=True)
    weights = [{"key": "control", "weight": 9}, {"key": "green", "weight": 1}]
    arguments = {"key": "button", "environment": production, "actor": ACTOR, "now": NOON, "reason": "Complaints"}
    open_phase(**arguments, opened_at=NOON + timedelta(days=1), changes={"variants": weights})
    for key in ("control", "green"):
        report(experiment, f"one {key}", key, "purchase")
    Exposure.objects.filter(user_id="one green").update(phase=2)

    browser = sign_in()
    page = browser.get(address(experiment), {"phase": "2"})
    text = text_of(page)
    assert "These figures cover phase 2; users of the other phases are left out." in text
    assert "control 90 % · green 10 % Complaints" in text
    assert "1 user since" in text
    assert 'href="?phase=1"' in page.content.decode()
    assert "2 users since" in text_of(browser.get(address(experiment)))
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
