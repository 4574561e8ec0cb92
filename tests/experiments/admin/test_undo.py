"""Undoing changes of metrics and edits of experiments that were made in the admin. `test_undo_of_steps` has steps."""

from __future__ import annotations

import pytest
from django.urls import reverse

from config.models import Change, Environment
from experiments.lifecycle.changes import experiment_as_json as experiment_document
from experiments.lifecycle.changes import get_experiment, update_experiment
from experiments.metrics.changes import create_metric, get_metric, metric_as_json, update_metric
from experiments.models import Experiment, Metric
from tests.admin import AdminClient, filled, messages_of, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory


@pytest.fixture
def metric(db: None) -> Metric:
    return create_metric(key="m", type="conversion", event="buy", actor=ACTOR, now=NOON)


def address(page: str, metric: Metric) -> str:
    return reverse(f"admin:experiments_metric_{page}", args=[metric.pk])


def undo(client: AdminClient, number: int | None = None) -> str:
    page = reverse("admin:config_change_undo", args=[number or revision()])
    return messages_of(client.post(page))[-1]


def test_metric__is_undone__until_it_changes(metric: Metric) -> None:
    then, client, page = metric_as_json(metric), sign_in(), address("change", metric)
    assert client.post(page, filled(client, page, event="pay", description="New")).status_code == 302
    made = revision()
    update_metric(key="m", changes={"event": "refund"}, actor=ACTOR, now=NOON)
    assert "The metric m has changed since" in undo(client, made)
    update_metric(key="m", changes={"event": "pay"}, actor=ACTOR, now=NOON)
    assert undo(client, made) == "The change of m is undone."
    assert metric_as_json(get_metric("m")) == then
    assert Change.objects.latest("revision").reason == f"Undo of change {made}"


def test_metric__that_an_experiment_measures__gets_a_new_version_of_the_old_definition(metric: Metric) -> None:
    client, page = sign_in(), address("change", metric)
    client.post(page, filled(client, page, event="pay"))
    made = revision()
    ExperimentFactory(metrics=["m"], running=True)
    undo(client, made)
    now = get_metric("m")
    assert (now.event, now.version) == ("buy", 2)


def test_metric__created_or_deleted__is_undone(db: None) -> None:
    client, add = sign_in(), reverse("admin:experiments_metric_add")
    client.post(add, filled(client, add, key="m", type="conversion", event="buy"))
    then, created = Metric.objects.get(), revision()
    client.post(address("delete", then), {})
    undo(client)
    now = Metric.objects.get()
    assert (metric_as_json(now), now.created_at) == (metric_as_json(then), then.created_at)
    assert undo(client, created) == "The change of m is undone."
    assert not Metric.objects.exists()


def test_edit_of_an_experiment__is_undone__until_it_changes(production: Environment) -> None:
    experiment = ExperimentFactory(key="e", running=True)
    client, page = sign_in(), reverse("admin:experiments_experiment_change", args=[experiment.pk])
    then = experiment_document(experiment)
    done = client.post(page, filled(client, page, owner="Ada", description="New", forced_variants='{"u": "green"}'))
    assert f"/admin/config/change/{revision()}/undo/" in client.get(done.url).content.decode()
    made = revision()
    update_experiment(key="e", environment=production, changes={"owner": "Eve"}, actor=ACTOR, now=NOON)
    assert "The experiment e has changed since" in undo(client, made)
    update_experiment(key="e", environment=production, changes={"owner": "Ada"}, actor=ACTOR, now=NOON)
    lost = "Exposures of users who got a forced variant do not come back, because they were deleted."
    write = client.get(reverse("admin:config_change_change", args=[made]))
    assert f"unless something changes before. {lost}" in text_of(write)
    assert undo(client, made) == f"The change of e is undone. {lost}"
    assert experiment_document(get_experiment("e", production)) == then


def test_draft__edited_or_created__is_undone(production: Environment) -> None:
    client, add = sign_in(), reverse("admin:experiments_experiment_add") + "?all=true"
    client.post(add, filled(client, add, key="e", metrics='["buy"]', percentage="50", minimum_days="9"))
    created, then = revision(), experiment_document(get_experiment("e", production))
    page = reverse("admin:experiments_experiment_change", args=[then["id"]])
    edits = {"percentage": "", "minimum_days": "14", "owner": "Ada", "planned_sample_size": "1000"}
    assert client.post(page, filled(client, page, **edits)).status_code == 302
    assert undo(client) == "The change of e is undone."
    assert experiment_document(get_experiment("e", production)) == then
    assert undo(client, created) == "The change of e is undone."
    assert not Experiment.objects.exists()
