"""From each id of a user in the words of an experiment, one click leads to this user."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from config.models import Environment
from experiments.lifecycle.changes import create_experiment, start_experiment, update_experiment
from experiments.models import Experiment
from tests.admin import sign_in
from tests.conftest import ACTOR, NOON
from tests.named_users import HOSTILE, linked_on

pytestmark = pytest.mark.django_db

VARIANTS = [{"key": "blue", "weight": 1}, {"key": "green", "weight": 3}]
CONDITIONS = [{"attribute": "userId", "operator": "notIn", "value": ["<cy>", "dan"]}]


def experiment_with(production: Environment, **more: Any) -> Experiment:
    fields = {"key": "e", "variants": VARIANTS, "metrics": ["buy"], "conditions": CONDITIONS}
    return create_experiment(**{**fields, **more}, environment=production, actor=ACTOR, now=NOON)


def page_of(experiment: Experiment, page: str) -> str:
    return reverse(f"admin:experiments_experiment_{page}", args=[experiment.pk])


@pytest.mark.parametrize("first", range(0, len(HOSTILE), 4))
def test_history__of_an_experiment__links_any_id(production: Environment, first: int) -> None:
    users = HOSTILE[first : first + 4]
    experiment = experiment_with(production, forced_variants={"ada": "blue"}, conditions=[])
    forced = dict.fromkeys(users, "green")
    update_experiment(key="e", changes={"forced_variants": forced}, environment=production, actor=ACTOR, now=NOON)
    client = sign_in()
    assert linked_on(client.get(page_of(experiment, "history"))) == {"ada", *users}
    assert linked_on(client.get(reverse("admin:config_change_changelist"))) >= {*users}


def test_form__to_people_who_may_only_look__links_users(production: Environment) -> None:
    experiment = experiment_with(production, forced_variants={"<ada>": "blue"})
    page = sign_in("experiments.view_experiment").get(page_of(experiment, "change"))
    assert linked_on(page) == {"<ada>", "<cy>", "dan"}


def test_results__of_an_experiment__link_users_of_its_audience(production: Environment) -> None:
    experiment = experiment_with(production)
    start_experiment(key="e", environment=production, actor=ACTOR, now=NOON)
    client = sign_in()
    assert linked_on(client.get(page_of(experiment, "report"))) == {"<cy>", "dan"}
