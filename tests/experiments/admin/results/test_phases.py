"""Phases in words: what changed, why, who came, and whose users the figures are of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from experiments.admin.results.phases import phases_of
from experiments.lifecycle.new_phase import open_phase
from experiments.models import Exposure
from experiments.results.types import PhaseFigures, VariantUsers
from experiments.stats.sample_ratio import check
from experiments.stats.types import Weight
from tests.admin import messages_of, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.admin.results.test_views import address, report
from tests.factories import ExperimentFactory

LEFT_OUT = "Figures of phase 2; the users of the others are left out."
CONDITION = {"attribute": "country", "operator": "equals", "value": "CH"}


def figures(number: int, *, weights: Sequence[float] = (1, 1), users: tuple[int, int] = (10, 10), **others: Any) -> Any:
    variants = [{"key": key, "weight": weight} for key, weight in zip(("blue", "green"), weights, strict=True)]
    usual = {"startedAt": "2026-01-31T12:00:00.000000Z", "percentage": 100, "conditions": [], "reason": ""}
    counts = dict(zip(("blue", "green"), users, strict=True))
    return PhaseFigures(
        number,
        {**usual, "variants": variants, **{name: others[name] for name in usual.keys() & others.keys()}},
        [VariantUsers(key, 1, count, sum(users) / 2) for key, count in counts.items()],
        check([Weight(each["key"], each["weight"]) for each in variants], counts),
        others.get("is_covered", True),
    )


def test_phases__but_one__are_nothing_to_tell():
    assert phases_of([]) is phases_of([figures(1)]) is None


def test_phases__each__tell_what_changed_since_the_one_before():
    found = phases_of(
        [
            figures(1, percentage=10),
            figures(2, reason="Nothing broke.", weights=(50, 50)),
            figures(3, weights=(9, 1), conditions=[CONDITION]),
            figures(4, weights=(9, 1), users=(0, 0)),
        ]
    )
    assert found is not None
    assert [each.changes for each in found.rows] == [
        ["blue 50 % · green 50 %", "10 % of the audience"],
        ["everybody"],
        ["blue 90 % · green 10 %", "country equals CH"],
        ["no conditions any more"],
    ]
    assert [each.reason for each in found.rows] == ["", "Nothing broke.", "", ""]
    assert [each.ratio for each in found.rows] == ["p = 1.00", "p = 1.00", found.rows[2].ratio, "nobody came"]
    assert found.rows[0].users == [("blue", "10", "10"), ("green", "10", "10")]


@pytest.mark.parametrize(
    ("phases", "note", "is_mixed"),
    [
        (
            [figures(1, is_covered=False), figures(2)],
            "Figures of phase 2; the users of the others are left out.",
            False,
        ),
        ([figures(1), figures(2)], "Figures of phases 1, 2.", False),
        (
            [figures(1, weights=(9, 1)), figures(2)],
            "Figures of phases 1, 2, which split users differently: what differs between their times looks like an "
            "effect.",
            True,
        ),
        ([figures(1, weights=(9, 1), users=(0, 0)), figures(2)], "Figures of phases 1, 2.", False),
    ],
)
def test_phases__covered_ones__are_named(phases, note, is_mixed):
    found = phases_of(phases)
    assert found is not None
    assert (found.note, found.is_mixed) == (note, is_mixed)


def test_phases__users_not_split_as_the_weights_of_their_phase_say__are_marked():
    found = phases_of([figures(1, users=(900, 100)), figures(2, users=(500, 500))])
    assert found is not None
    assert [each.is_mismatch for each in found.rows] == [True, False]


@pytest.mark.django_db
def test_page__of_an_experiment_with_phases__shows_them_with_links_and_keeps_to_the_one_chosen(production):
    experiment = ExperimentFactory(key="button", running=True)
    weights = [{"key": "control", "weight": 9}, {"key": "green", "weight": 1}]
    who = {"key": "button", "environment": production, "actor": ACTOR, "at": NOON, "reason": "Complaints"}
    open_phase(**who, opened_at=NOON + timedelta(days=1), changes={"variants": weights})
    for variant in ("control", "green"):
        report(experiment, f"one {variant}", variant, "purchase")
    Exposure.objects.filter(user_id="one green").update(phase=2)

    browser = sign_in()
    page = browser.get(address(experiment))
    text = text_of(page)
    assert "Figures of phase 2; the users of the others are left out." in text
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
