"""The plan, the owner and the archive of experiments in the admin."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from config.models import Environment
from experiments.lifecycle.changes import create_experiment, update_experiment
from experiments.models import Experiment
from tests.admin import errors_of, filled, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory

LIST = "admin:experiments_experiment_changelist"
VARIANTS = [{"key": "blue", "weight": 1}, {"key": "green", "weight": 3}]


@pytest.fixture
def draft(production: Environment) -> Experiment:
    write: dict[str, Any] = {"environment": production, "actor": ACTOR, "now": NOON}
    return create_experiment(key="button", description="Which?", variants=VARIANTS, metrics=["buy"], **write)


def test_experiment_list__archived__are_shown_only_on_their_shelf(draft: Experiment) -> None:
    client = sign_in()
    page = reverse("admin:experiments_experiment_archive", args=[draft.pk])
    assert "Lists no longer show it" in text_of(client.get(page))
    confirmed = client.post(page, {"reason": "Done", "opened_in": "production"}, follow=True)
    assert "button is archived." in text_of(confirmed)

    assert "Which?" not in text_of(client.get(reverse(LIST)))
    assert "Which? archived" in text_of(client.get(reverse(LIST), {"shelf": "archived"}))
    back = reverse("admin:experiments_experiment_unarchive", args=[draft.pk])
    client.post(back, {"opened_in": "production"})
    assert "Which? draft" in text_of(client.get(reverse(LIST)))


def test_experiment_list__owner__is_shown_and_chosen(draft: Experiment, production: Environment) -> None:
    write: dict[str, Any] = {"environment": production, "actor": ACTOR, "now": NOON}
    update_experiment(key="button", changes={"owner": "Growth"}, **write)
    create_experiment(key="other", variants=VARIANTS, owner="Search", **write)
    client = sign_in()

    assert "Growth · Which?" in text_of(client.get(reverse(LIST)))
    chosen = client.get(reverse(LIST), {"owner": "Search"})
    assert [experiment.key for experiment in chosen.context["cl"].result_list] == ["other"]


def test_draft__plan_in_percent_and_days__is_written_and_shown_again(production: Environment) -> None:
    client, address = sign_in(), reverse("admin:experiments_experiment_add") + "?all=true"
    plan = {"planned_sample_size": "40000", "minimum_effect": "12.5", "analysis": "fixed"}
    more = {"minimum_days": "14", "lookback_days": "0", "owner": "Growth", "hypothesis": "Shorter is better."}
    sent = filled(client, address, key="e", variants=json.dumps(VARIANTS), **plan, **more)
    assert client.post(address, sent).status_code == 302

    experiment = Experiment.objects.get(key="e")
    assert (experiment.minimum_effect, experiment.analysis, experiment.minimum_days) == (0.125, "fixed", 14)
    assert (experiment.lookback_days, experiment.owner, experiment.tuning_size) == (0, "Growth", 40_000)
    change = reverse("admin:experiments_experiment_change", args=[experiment.pk])
    again = filled(client, change)
    assert {name: str(again[name]) for name in plan} == {**plan, "minimum_effect": "12.5 %"}
    assert again.get("tuning_sample_size") in (None, "")


def test_draft__unacceptable_plan__is_refused_at_its_fields(production: Environment) -> None:
    client, address = sign_in(), reverse("admin:experiments_experiment_add") + "?all=true"
    typed = {"minimum_effect": "0", "minimum_days": "366", "lookback_days": "1.5", "analysis": "fixed"}
    refused = client.post(address, filled(client, address, key="e", variants=json.dumps(VARIANTS), **typed))

    assert errors_of(refused) == {
        "minimum_effect": ["Must be above 0 and at most 1,000 %."],
        "planned_sample_size": [
            "Is required for a fixed analysis, which is read once every variant has its part of these users."
        ],
        "minimum_days": ["Must be 0 to 365 days."],
        "lookback_days": ["Must be a whole number."],
    }


def test_started__form__shows_the_plan_and_still_takes_an_owner(production: Environment) -> None:
    experiment = ExperimentFactory(key="e", planned_size=30_000, minimum_effect=0.05, running=True)
    client, address = sign_in(), reverse("admin:experiments_experiment_change", args=[experiment.pk])
    assert (
        "30,000 users planned, effects from 5 %, sequential, at least 7 days, look-back 28 days, tuned for 30,000 users"
        in text_of(client.get(address))
    )
    assert client.post(address, filled(client, address, owner="Growth")).status_code == 302
    assert Experiment.objects.get().owner == "Growth"
