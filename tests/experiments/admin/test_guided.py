"""The guided form: its steps save the draft one after the other, and lead from a hypothesis to the start."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from config.models import Environment, ReasonSetting
from experiments.admin.guided import STEPS
from experiments.lifecycle.changes import get_experiment, start_experiment, update_experiment
from experiments.models import Experiment
from tests.admin import AdminClient, messages_of, only_change, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db
ADD = "admin:experiments_experiment_add"
HERE = {"opened_in": "production"}
GREEN_AND_BLUE = [{"key": "blue", "weight": 50}, {"key": "green", "weight": 50}]


def address(experiment: Experiment, step: str) -> str:
    return reverse("admin:experiments_experiment_guided", args=[experiment.pk, step])


def sent(client: AdminClient, page: str, **edits: Any) -> dict[str, Any]:
    """Return what a browser sends from a step after these edits."""
    form = client.get(page).context["form"]
    values = {name: form[name].value() for name in form.fields} | edits
    return {**HERE, **{name: value for name, value in values.items() if value is not None}}


def test_guided__from_nothing__saves_each_step_and_leads_to_the_start(production: Environment) -> None:
    FlagFactory(key="checkout", on=True)
    client, add = sign_in(), reverse(ADD)
    response = client.post(add, sent(client, add, key="button", hypothesis="Green sells more.", owner="Shop"))
    experiment = get_experiment("button", production)
    assert response.url == address(experiment, "audience")
    assert [variant["weight"] for variant in experiment.variants] == [50, 50]
    assert experiment.minimum_days == 7  # the default of a plan
    driven = {"key": "checkout", "serves": {"control": False, "treatment": True}}
    edits: list[tuple[str, dict[str, Any]]] = [
        ("audience", {"flag": json.dumps(driven), "percentage": "50"}),
        ("variants", {}),
        ("metrics", {"metrics": '["purchase"]'}),
        ("plan", {"planned_sample_size": "2 000", "minimum_effect": "5"}),
    ]
    for name, edit in edits:
        page = address(experiment, name)
        assert response.url == page
        before = revision()
        response = client.post(page, sent(client, page, **edit))
        assert response.status_code == 302, response.context["form"].errors
        if edit:
            assert only_change(after=before).actor == "user ada"
        else:
            assert revision() == before
    assert response.url == reverse("admin:experiments_experiment_start", args=[experiment.pk])
    experiment = get_experiment("button", production)
    assert (experiment.hypothesis, experiment.owner, experiment.flag) == ("Green sells more.", "Shop", driven)
    assert (experiment.percentage, experiment.metrics) == (50, ["purchase"])
    assert (experiment.planned_size, experiment.minimum_effect) == (2000, 0.05)
    start = text_of(client.get(response.url))
    assert "Hypothesis Flag and audience Variants Metrics Plan Check and start" in start
    assert "Checklist" in start
    client.post(response.url, HERE)
    assert get_experiment("button", production).status == "running"


def test_guided__every_step__is_reachable_and_leads_to_the_others() -> None:
    draft, client = ExperimentFactory(key="e"), sign_in()
    for step in STEPS:
        page = client.get(address(draft, step.name))
        assert step.about.split(".")[0] in text_of(page)
        body = page.content.decode()
        for other in STEPS:
            assert (f'href="{address(draft, other.name)}"' in body) == (other is not step)
    assert client.get(address(draft, "other")).status_code == 404
    assert f'href="{address(draft, "hypothesis")}"' in client.get(f"{address(draft, 'plan')}").content.decode()
    change = client.get(reverse("admin:experiments_experiment_change", args=[draft.pk]))
    assert f'href="{address(draft, "hypothesis")}"' in change.content.decode()


def test_guided__going_back__saves_first() -> None:
    draft, client = ExperimentFactory(key="e"), sign_in()
    page = address(draft, "metrics")
    response = client.post(page, sent(client, page, metrics='["view"]', go="back"))
    assert response.url == address(draft, "variants")
    draft.refresh_from_db()
    assert draft.metrics == ["view"]


@pytest.mark.parametrize(
    ("step", "edit", "field", "words"),
    [
        ("variants", {"variants": '[{"key": "a", "weight": 1}]'}, "variants", "2 to 50 variants"),
        ("plan", {"minimum_effect": "200000"}, "minimum_effect", "at most"),
        ("plan", {"planned_sample_size": "many"}, "planned_sample_size", "number"),
        ("audience", {"flag": '{"key": "none", "serves": {}}'}, "flag", ""),
        ("metrics", {"metrics": '["a", "a"]'}, "metrics", "once"),
    ],
)
def test_guided__what_the_api_refuses__stays_in_the_form_with_its_error(
    step: str, edit: dict[str, str], field: str, words: str
) -> None:
    draft, client = ExperimentFactory(key="e"), sign_in()
    before, page = revision(), address(draft, step)
    response = client.post(page, sent(client, page, **edit))
    assert response.status_code == 200
    form = response.context["form"]
    assert form.errors[field]
    assert words in " ".join(form.errors[field])
    assert form[field].value() == edit[field]
    assert revision() == before


def test_guided__key_that_exists__is_refused_at_the_key() -> None:
    ExperimentFactory(key="e")
    client = sign_in()
    response = client.post(reverse(ADD), {"key": "e", **HERE})
    assert "already exists" in response.context["form"].errors["key"][0]


def test_guided__variants_of_a_flag__change_together_with_what_it_serves(production: Environment) -> None:
    FlagFactory(key="checkout", on=True)
    draft = ExperimentFactory(key="e", flag={"key": "checkout", "serves": {"control": False, "green": True}})
    client, page = sign_in(), address(draft, "variants")
    edited = {"key": "checkout", "serves": {"blue": False, "green": True}}
    client.post(page, sent(client, page, variants=json.dumps(GREEN_AND_BLUE), flag=json.dumps(edited)))
    draft = get_experiment("e", production)
    assert (draft.variant_keys, draft.flag) == (["blue", "green"], edited)


def test_guided__opened_in_another_environment__writes_nothing(production: Environment) -> None:
    draft, client = ExperimentFactory(key="e"), sign_in()
    before = revision()
    response = client.post(address(draft, "metrics"), {"metrics": '["view"]', "opened_in": "staging"})
    assert response.status_code == 412
    assert "have switched to Production since" in text_of(response)
    assert revision() == before


def test_guided__of_a_started_experiment__leads_to_its_page(production: Environment) -> None:
    draft, client = ExperimentFactory(key="e"), sign_in()
    start_experiment(key="e", environment=production, actor=ACTOR, now=NOON)
    response = client.get(address(draft, "plan"))
    assert response.url == reverse("admin:experiments_experiment_change", args=[draft.pk])
    assert messages_of(response) == ["e has started, so its design cannot change any more."]


def test_guided__where_reasons_are_required__asks_for_one(production: Environment) -> None:
    Environment.objects.filter(pk=production.pk).update(change_reason=ReasonSetting.REQUIRED)
    draft, client = ExperimentFactory(key="e"), sign_in()
    page = address(draft, "metrics")
    response = client.post(page, sent(client, page, metrics='["view"]'))
    assert "reason" in response.context["form"].errors
    before = revision()
    client.post(page, sent(client, page, metrics='["view"]', reason="Q3"))
    assert only_change(after=before).reason == "Q3"


def test_guided__without_the_right__is_refused() -> None:
    draft, viewer = ExperimentFactory(key="e"), sign_in("experiments.view_experiment")
    assert viewer.get(address(draft, "plan")).status_code == 403
    assert viewer.get(reverse(ADD)).status_code == 403


def test_step__that_somebody_else_has_saved_meanwhile__shows_both_versions(production: Environment) -> None:
    experiment, client = ExperimentFactory(key="button"), sign_in()
    page = address(experiment, "hypothesis")
    typed = sent(client, page, hypothesis="Mine", owner="Shop")
    at = {"environment": production, "actor": ACTOR, "now": NOON}
    update_experiment(key="button", changes={"hypothesis": "Theirs"}, **at)
    before = revision()
    conflict = client.post(page, typed)
    text = text_of(conflict)
    assert "Two versions of button" in text
    assert "Hypothesis Theirs Mine" in text
    assert revision() == before
    again = {**typed, "version": conflict.context["form"]["version"].value()}
    assert client.post(page, again).url == address(experiment, "audience")
    experiment = get_experiment("button", production)
    assert (experiment.hypothesis, experiment.owner) == ("Mine", "Shop")


def test_step__of_what_somebody_else_has_saved__keeps_the_fields_of_other_steps(production: Environment) -> None:
    experiment, client = ExperimentFactory(key="button"), sign_in()
    page = address(experiment, "hypothesis")
    typed = sent(client, page, hypothesis="Mine")
    update_experiment(key="button", changes={"percentage": 10}, environment=production, actor=ACTOR, now=NOON)
    conflict = client.post(page, typed)
    assert "Two versions of button" in text_of(conflict)
    client.post(page, {**typed, "version": conflict.context["form"]["version"].value()})
    experiment = get_experiment("button", production)
    assert (experiment.hypothesis, experiment.percentage) == ("Mine", 10)
