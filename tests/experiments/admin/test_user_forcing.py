"""Forcing a variant for one user from the page of the user: through the domain, and asking before a user is lost."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.urls import reverse

from config.admin.template_filters import address_of_user
from config.models import Change, Environment
from experiments.exposures.recording import assign
from experiments.lifecycle.changes import get_experiment
from experiments.models import Exposure
from tests.admin import AdminClient, messages_of, sign_in, text_of
from tests.conftest import NOON
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db

FORCE = reverse("admin:experiments_experiment_user_force")


def force(client: AdminClient, forced: str, **more: str) -> Any:
    return client.post(f"{FORCE}?id=a%2Fb", {"opened_in": "production", "forced": forced, **more})


def forced_in(key: str) -> dict[str, str]:
    return get_experiment(key, Environment.objects.get(key="production")).forced_variants


def test_force__for_a_new_user__is_written_with_its_reason() -> None:
    ExperimentFactory(key="e", running=True, forced_variants={"qa": "control"})
    client = sign_in()
    response = force(client, "e:green", reason="Looks at the new page")
    assert response.url == f"{address_of_user('a/b')}#experiments"
    assert messages_of(response) == ["a/b sees green in e from now on, and does not count in its results."]
    assert forced_in("e") == {"qa": "control", "a/b": "green"}
    assert Change.objects.latest("revision").reason == "Looks at the new page"
    page = text_of(client.get(address_of_user("a/b")))
    assert "The variant is forced, so the user does not count." in page
    assert "Stop forcing" in page


def test_force__a_variant__can_be_undone() -> None:
    ExperimentFactory(key="e", running=True, forced_variants={"qa": "control"})
    client = sign_in()
    force(client, "e:green")
    page = client.get(address_of_user("a/b"))
    [undo] = re.findall(r'action="(/admin/config/change/\d+/undo/)"', page.content.decode())
    client.post(undo, {"next": address_of_user("a/b")})
    assert forced_in("e") == {"qa": "control"}


def test_force__nothing__takes_the_variant_away_from_this_user_alone() -> None:
    ExperimentFactory(key="e", running=True, forced_variants={"qa": "control", "a/b": "green"})
    assert messages_of(force(sign_in(), "e:")) == ["No variant is forced for a/b in e any more."]
    assert forced_in("e") == {"qa": "control"}


def test_force__for_a_user_who_counts__asks_first() -> None:
    experiment = ExperimentFactory(key="e", running=True)
    assign(experiment.pk, "a/b", "control", NOON, {})
    client = sign_in()
    question = force(client, "e:green")
    assert "The user counts in e for control now." in text_of(question)
    assert forced_in("e") == {}
    force(client, "e:green", declined="true")
    assert (forced_in("e"), Exposure.objects.count()) == ({}, 1)
    force(client, "e:green", agreed="e:green")
    assert (forced_in("e"), Exposure.objects.count()) == ({"a/b": "green"}, 0)


@pytest.mark.parametrize(
    ("forced", "why"),
    [
        ("e:purple", "no such variant"),
        ("missing:green", "No experiment has the key"),
        ("", "Choose a variant."),
    ],
)
def test_force__of_what_does_not_exist__is_refused(forced: str, why: str) -> None:
    ExperimentFactory(key="e", running=True)
    assert why in messages_of(force(sign_in(), forced))[0]
    assert forced_in("e") == {}


def test_force__in_an_environment_that_was_switched__is_refused() -> None:
    ExperimentFactory(key="e", running=True)
    assert "have switched to Production since" in text_of(force(sign_in(), "e:green", opened_in="staging"))
    assert forced_in("e") == {}


def test_force__without_the_right__is_refused_and_not_offered() -> None:
    ExperimentFactory(key="e", running=True)
    client = sign_in("experiments.view_experiment")
    assert force(client, "e:green").status_code == 403
    assert "Force a variant" not in text_of(client.get(address_of_user("a/b")))


def test_force__where_a_flag_is_driven__needs_the_right_to_change_flags() -> None:
    FlagFactory(
        key="button", enabled=True, variants=[{"key": key, "value": key} for key in ("old", "new")], type="string"
    )
    serves = {"control": "old", "green": "new"}
    ExperimentFactory(key="e", running=True, flag={"key": "button", "serves": serves})
    client = sign_in("experiments.view_experiment", "experiments.change_experiment")
    assert force(client, "e:green").status_code == 403
    assert "Force a variant" not in text_of(client.get(address_of_user("a/b")))
    assert force(sign_in(username="root"), "e:green").status_code == 302
    assert forced_in("e") == {"a/b": "green"}


def test_choices__are_drafts_and_running_experiments() -> None:
    for key, state in (("draft", {}), ("runs", {"running": True}), ("over", {"stopped": True})):
        ExperimentFactory(key=key, **state)
    choices = sign_in().get(address_of_user("a/b")).context["choices"]
    assert {choice.experiment: choice.variants for choice in choices} == {
        "runs": [("runs:control", "control"), ("runs:green", "green")],
        "draft": [("draft:control", "control"), ("draft:green", "green")],
    }
