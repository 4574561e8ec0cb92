"""Writes of metrics: their effects, refusals, new versions, and entries in the change log."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.errors import DomainError, ValidationFailed
from config.models import Change, Environment
from experiments.lifecycle.changes import start_experiment, stop_experiment
from experiments.metrics.changes import create_metric, delete_metric, get_metric, metric_as_json, update_metric
from experiments.metrics.definition import definition_of, definitions_of
from experiments.models import Experiment, Metric
from tests.conftest import ACTOR, NOON
from tests.experiments.metrics.test_definition import BLANK, WHERE
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

WRITE = {"actor": ACTOR, "now": NOON}
SPENT = {"type": "revenue", "event": "purchase", "currency": "EUR", "window_hours": 168}


@pytest.fixture
def metric(db: None) -> Metric:
    return create_metric(key="spent", description="S", **SPENT, **WRITE)


def revision() -> int:
    return Change.objects.latest_revision()


def measured_by(metric: str, key: str = "e", **options: Any) -> Experiment:
    return ExperimentFactory(key=key, metrics=["sign up", metric], **options)


# --- create, update ---------------------------------------------------------------------------------------------------


def test_create__type_and_event__is_a_goal_without_a_window(db: None) -> None:
    metric = create_metric(key="buyers", type="conversion", event="purchase", **WRITE)

    assert metric_as_json(metric) == {
        **BLANK,
        "id": str(metric.pk),
        "key": "buyers",
        "event": "purchase",
        "description": "",
    }


def test_create__change__holds_the_whole_metric(metric: Metric) -> None:
    change = Change.objects.latest("revision")

    assert (change.kind, change.key, change.environment, change.before) == ("metric", "spent", "", None)
    assert change.after == metric_as_json(metric)
    assert change.after["windowHours"] == 168
    assert metric.revision == change.revision
    assert metric.created_at == metric.updated_at == change.at


def test_create__cap_and_denominator__are_kept_in_one_form(db: None) -> None:
    create_metric(key="capped", type="count", event="view", cap_value=100, **WRITE)
    create_metric(key="share", type="ratio", event="purchase", denominator={"event": "view"}, **WRITE)

    assert repr(get_metric("capped").cap_value) == "100.0"
    assert get_metric("share").denominator == {"event": "view", "property": "", "currency": ""}


def test_create__currencies_in_lower_case__are_stored_in_upper_case(db: None) -> None:
    money = {"event": "refund", "property": "revenue", "currency": "chf"}
    create_metric(key="m", type="ratio", event="buy", property="revenue", currency="Chf", denominator=money, **WRITE)

    metric = get_metric("m")
    assert (metric.currency, metric.denominator) == ("CHF", {**money, "currency": "CHF"})


def test_create__funnel__has_the_event_of_its_first_step(db: None) -> None:
    steps = [{"event": "view", "where": []}, {"event": "buy", "where": WHERE}]
    create_metric(key="m", type="funnel", steps=steps, **WRITE)

    metric = get_metric("m")
    assert (metric.event, metric.steps) == ("view", [{"event": "view"}, {"event": "buy", "where": WHERE}])
    assert metric_as_json(metric)["steps"] == metric.steps


def test_update__first_step__changes_the_event_with_it(db: None) -> None:
    old, new = [{"event": "view"}, {"event": "buy"}], [{"event": "open"}, {"event": "buy"}]
    create_metric(key="m", type="funnel", steps=old, **WRITE)

    update_metric(key="m", changes={"event": "view", "steps": new}, **WRITE)  # as a client that read "view" sends it
    assert get_metric("m").event == "open"
    with pytest.raises(ValidationFailed) as refused:
        update_metric(key="m", changes={"event": "close"}, **WRITE)
    assert [detail.field for detail in refused.value.details] == ["event"]


def test_update__null_where__removes_the_conditions(db: None) -> None:
    create_metric(key="m", type="count", event="buy", where=WHERE, **WRITE)
    assert metric_as_json(get_metric("m"))["where"] == WHERE

    update_metric(key="m", changes={"where": None}, **WRITE)
    assert get_metric("m").where == []
    assert "where" not in metric_as_json(get_metric("m"))


@pytest.mark.parametrize(
    "values",
    [
        {"where": WHERE},
        {"where": [{**WHERE[1], "value": 2}]},
        {"role": "guardrail"},
        {"role": "guardrail", "margin": 0.05},
        {"role": "guardrail", "margin_absolute": 5},
        {"type": "quantile", "property": "revenue", "quantile": 0.5},
        {"type": "funnel", "currency": "", "steps": [{"event": "purchase"}, {"event": "refund"}]},
    ],
)
def test_update__definition_in_use__makes_a_new_version_once(metric: Metric, values: dict[str, Any]) -> None:
    experiment = measured_by("spent", running=True)
    start = definitions_of(experiment)

    assert update_metric(key="spent", changes=values, **WRITE).version == 2
    assert update_metric(key="spent", changes=values, **WRITE).version == 2
    assert definitions_of(experiment) == start
    assert definition_of(get_metric("spent")) != start[1]


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ({"description": "d" * 2001}, ["description"]),
        ({"where": [{"property": "plan", "operator": "is", "value": 1}]}, ["where[0].operator"]),
        ({"margin": 0.1}, ["margin"]),
        ({"role": "guardrail", "margin": 0}, ["margin"]),
        ({"type": "median"}, ["type"]),
        ({"window_hours": -1}, ["windowHours"]),
        ({"cap_value": 1.0, "cap_percentile": 99.0}, ["capPercentile"]),
        ({"denominator": {"event": "view"}, "from_day": 1}, ["denominator", "fromDay"]),
        ({"description": "d" * 2001, "currency": "", "delay_hours": None}, ["description", "delayHours", "currency"]),
    ],
)
def test_write__unacceptable__names_every_field_and_changes_nothing(
    metric: Metric, values: dict[str, Any], fields: list[str]
) -> None:
    before = revision()
    with pytest.raises(ValidationFailed) as created:
        create_metric(key="other", **{**SPENT, **values}, **WRITE)
    with pytest.raises(ValidationFailed) as updated:
        update_metric(key="spent", changes=values, **WRITE)

    for refused in (created, updated):
        assert [detail.field for detail in refused.value.details] == fields
    assert revision() == before
    assert metric_as_json(get_metric("spent")) == metric_as_json(metric)


def test_create__not_a_key_and_nothing_else__names_all_that_is_needed(db: None) -> None:
    with pytest.raises(ValidationFailed) as refused:
        create_metric(key="not a key", **WRITE)

    assert [detail.field for detail in refused.value.details] == ["key", "type", "event"]


def test_create__key_that_exists__is_refused(metric: Metric) -> None:
    with pytest.raises(DomainError) as refused:
        create_metric(key="spent", **SPENT, **WRITE)

    assert refused.value.code == "already_exists"


def test_write__name_that_a_metric_does_not_have__is_a_mistake_of_the_program(metric: Metric) -> None:
    with pytest.raises(TypeError, match="version"):
        update_metric(key="spent", changes={"version": 7}, **WRITE)


def test_update__some_of_it__leaves_the_rest(metric: Metric) -> None:
    later = NOON + timedelta(days=400)
    updated = update_metric(key="spent", changes={"window_hours": None}, actor=ACTOR, now=later, reason="For ever")

    change = Change.objects.latest("revision")
    assert (updated.window_hours, updated.currency, updated.description) == (None, "EUR", "S")
    assert (updated.updated_at, updated.revision) == (later, change.revision)
    assert (change.before, change.after) == (metric_as_json(metric), {**metric_as_json(metric), "windowHours": None})
    assert change.reason == "For ever"


@pytest.mark.parametrize("changes", [{}, {"description": "S"}, {"type": "revenue", "window_hours": 168}])
def test_update__nothing_new__writes_nothing(metric: Metric, changes: dict[str, Any]) -> None:
    before = revision()
    updated = update_metric(key="spent", changes=changes, **WRITE)

    assert revision() == before
    assert updated.etag == metric.etag


def test_update_and_delete__stale_version__are_refused_and_change_nothing(metric: Metric) -> None:
    update_metric(key="spent", changes={"description": "T"}, if_match=metric.etag, **WRITE)
    before = revision()
    with pytest.raises(DomainError) as updated:
        update_metric(key="spent", changes={"description": "U"}, if_match=metric.etag, **WRITE)
    with pytest.raises(DomainError) as deleted:
        delete_metric(key="spent", if_match=metric.etag, **WRITE)

    assert updated.value.code == deleted.value.code == "precondition_failed"
    assert revision() == before


@pytest.mark.parametrize("key", ["nothing", "", "\0", "a/b", "a" * 300])
def test_get__unknown_or_impossible_key__is_not_found(db: None, key: str) -> None:
    with pytest.raises(DomainError) as refused:
        get_metric(key)

    assert refused.value.code == "not_found"


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [{}, {"running": True}, {"stopped": True}])
def test_update__another_description__is_no_new_version(metric: Metric, state: dict[str, bool]) -> None:
    measured_by("spent", **state)

    assert update_metric(key="spent", changes={"description": "Words"}, **WRITE).version == 1


@pytest.mark.parametrize("state", [{"running": True}, {"stopped": True}])
@pytest.mark.parametrize(
    "changes",
    [
        {"event": "order"},
        {"currency": "CHF"},
        {"window_hours": 24},
        {"delay_hours": 1},
        {"cap_value": 10.0},
        {"direction": "decrease"},
        {"role": "guardrail"},
        {"type": "count", "currency": ""},
    ],
)
def test_update__another_meaning_while_a_started_experiment_measures_it__is_a_new_version(
    metric: Metric, state: dict[str, bool], changes: dict[str, Any]
) -> None:
    experiment = measured_by("spent", **state)
    kept = experiment.definitions
    updated = update_metric(key="spent", changes=changes, **WRITE)

    assert updated.version == 2
    experiment.refresh_from_db()
    assert experiment.definitions == kept
    assert kept[1]["version"] == 1


def test_update__another_meaning_while_only_drafts_name_it__is_the_same_version(metric: Metric) -> None:
    measured_by("spent")

    assert update_metric(key="spent", changes={"window_hours": 24}, **WRITE).version == 1


def test_update__of_a_version_that_no_experiment_has_taken_yet__is_the_same_version(metric: Metric) -> None:
    measured_by("spent", running=True)
    assert update_metric(key="spent", changes={"window_hours": 24}, **WRITE).version == 2
    assert update_metric(key="spent", changes={"window_hours": 48}, **WRITE).version == 2

    measured_by("spent", "later", running=True)
    assert update_metric(key="spent", changes={"window_hours": 72}, **WRITE).version == 3


def test_update__while_an_experiment_measures_the_name_as_it_was_before_the_metric__is_the_same_version(
    db: None,
) -> None:
    measured_by("spent", running=True)
    create_metric(key="spent", **SPENT, **WRITE)

    assert update_metric(key="spent", changes={"window_hours": 24}, **WRITE).version == 1


def test_update__while_an_experiment_measures_another_of_a_similar_name__is_the_same_version(metric: Metric) -> None:
    create_metric(key="spent-2", **SPENT, **WRITE)
    measured_by("spent-2", running=True)

    assert update_metric(key="spent", changes={"window_hours": 24}, **WRITE).version == 1


def test_update__by_somebody_who_wants_no_new_version__is_refused_where_one_would_begin(metric: Metric) -> None:
    measured_by("spent", running=True)
    before = revision()
    with pytest.raises(ValidationFailed) as refused:
        update_metric(key="spent", changes={"window_hours": 24}, may_make_version=False, **WRITE)

    assert refused.value.message == (
        "newVersion: e (production) measured version 1 and will keep it. Confirm that this makes version 2, for "
        "experiments that start from now on."
    )
    assert revision() == before
    assert update_metric(key="spent", changes={"description": "D"}, may_make_version=False, **WRITE).description == "D"


# --- delete -----------------------------------------------------------------------------------------------------------


def test_delete__metric__goes_and_its_history_stays(metric: Metric) -> None:
    delete_metric(key="spent", if_match=metric.etag, **WRITE)

    assert not Metric.objects.exists()
    assert [change.action for change in Change.objects.of("metric", metric.pk)] == ["deleted", "created"]


def test_delete__named_by_drafts_and_running_experiments__is_refused_with_their_names(
    metric: Metric, production: Environment, staging: Environment
) -> None:
    measured_by("spent", "draft", environment=staging)
    measured_by("spent", "running", running=True)
    measured_by("spent", "stopped", stopped=True)
    before = revision()
    with pytest.raises(DomainError) as refused:
        delete_metric(key="spent", **WRITE)

    assert refused.value.code == "in_use"
    names = refused.value.message.removeprefix("The metric is used by ").split(". ")[0].split(", ")
    assert sorted(names) == ["draft (staging)", "running (production)"]
    assert revision() == before


def test_delete__named_by_very_many__names_the_first_of_them(metric: Metric) -> None:
    for number in range(7):
        measured_by("spent", f"e{number}")
    with pytest.raises(DomainError, match=r"\(production\) and 2 more\. Stop these experiments"):
        delete_metric(key="spent", **WRITE)


def test_delete__named_by_a_stopped_experiment__leaves_it_its_definition(metric: Metric) -> None:
    experiment = measured_by("spent", stopped=True)
    delete_metric(key="spent", **WRITE)

    experiment.refresh_from_db()
    assert experiment.definitions[1]["windowHours"] == 168


def test_create__again_after_a_deletion__begins_after_the_versions_that_experiments_have_kept(
    metric: Metric, production: Environment
) -> None:
    measured_by("spent", stopped=True)
    update_metric(key="spent", changes={"window_hours": 24}, **WRITE)
    measured_by("spent", "later", stopped=True)
    delete_metric(key="spent", **WRITE)

    assert create_metric(key="spent", **SPENT, **WRITE).version == 3
    which = {"key": "last", "environment": production, **WRITE}
    ExperimentFactory(key="last", metrics=["spent"])
    start_experiment(**which)
    assert stop_experiment(**which).definitions[0]["version"] == 3
