"""Metrics in the admin: written through the domain, refused at their fields, with a new version only on purpose."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from config.models import Source
from experiments.metrics.changes import create_metric, get_metric
from experiments.models import Experiment, Metric, MetricType
from tests.admin import errors_of, filled, messages_of, only_change, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory

LIST = "/admin/experiments/metric/"
ADD = "/admin/experiments/metric/add/"
DRAFT = "/admin/experiments/experiment/add/?all=true"
WRITE = {"actor": ACTOR, "now": NOON}
RATIO = {"type": "ratio", "event": "click", "denominator_event": "view"}


@pytest.fixture
def metric(db: None) -> Metric:
    values = {"type": "revenue", "event": "purchase", "currency": "EUR", "window_hours": 168, "cap_percentile": 99.0}
    return create_metric(key="spent", description="What they spend", **values, **WRITE)


def address(page: str, metric: Metric) -> str:
    return reverse(f"admin:experiments_metric_{page}", args=[metric.pk])


# --- the list ---------------------------------------------------------------------------------------------------------


def test_list__tells_what_each_computes_and_how_many_use_it(metric: Metric) -> None:
    create_metric(key="bounces", type="count", event="bounce", role="guardrail", **WRITE)
    ExperimentFactory(metrics=["spent", "bounces"])
    ExperimentFactory(metrics=["spent"], running=True)
    shown = text_of(sign_in().get(LIST))
    assert "spent What they spend Revenue Revenue in EUR of purchase per user within 7 days of exposure" in shown
    assert "2 experiments" in shown
    assert "guardrail 1 experiment 1" in shown


def test_list__of_an_unused_metric__says_so(metric: Metric) -> None:
    assert "no experiments yet" in text_of(sign_in().get(LIST))


def test_list__search__finds_by_key_description_and_event(metric: Metric) -> None:
    create_metric(key="bounces", type="count", event="left", description="Gone", **WRITE)
    client = sign_in()
    for word in ("bounc", "gone", "left"):
        assert [row.key for row in client.get(LIST, {"q": word}).context["cl"].result_list] == ["bounces"]


@pytest.mark.parametrize("count", [1, 12])
def test_list__any_number_of_metrics__takes_as_many_queries(
    db: None, django_assert_num_queries: Any, count: int
) -> None:
    for at in range(count):
        create_metric(key=f"m{at}", type="count", event="view", **WRITE)
        ExperimentFactory(metrics=[f"m{at}"])
    client = sign_in()
    client.get(LIST)
    # session, user, environments, uses, count, metrics, missing events, stopped events
    with django_assert_num_queries(8):
        client.get(LIST)


# --- the form ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "typed",
    [
        {"type": "conversion", "event": "purchase", "window_hours": "24", "delay_hours": "1"},
        {"type": "count", "event": "view", "cap_value": "12.5", "direction": "decrease", "role": "guardrail"},
        {"type": "mean", "event": "view", "property": "seconds"},
        {**RATIO, "denominator_property": "pages"},
        {"type": "retention", "event": "visit", "from_day": "7", "to_day": "14"},
    ],
    ids=lambda each: each["type"],
)
def test_add__each_type__is_written_through_the_domain(db: None, typed: dict[str, str]) -> None:
    client = sign_in()
    before = revision()
    response = client.post(ADD, filled(client, ADD, key="fresh", reason="Wanted", **typed))
    assert response.status_code == 302, errors_of(response)
    change = only_change(after=before)
    assert (change.kind, change.action, change.source, change.reason) == ("metric", "created", Source.ADMIN, "Wanted")
    page = reverse("admin:experiments_metric_change", args=[get_metric("fresh").pk])
    shown = filled(client, page)
    assert {name: str(shown[name]) for name in typed} == typed


def test_change__opened_and_saved__changes_nothing(metric: Metric) -> None:
    client = sign_in()
    before = revision()
    assert client.post(address("change", metric), filled(client, address("change", metric))).status_code == 302
    assert revision() == before


def test_change__of_a_ratio_opened_and_saved__changes_nothing(db: None) -> None:
    ratio = create_metric(key="r", type="ratio", event="click", denominator={"event": "view"}, **WRITE)
    client = sign_in()
    before = revision()
    assert client.post(address("change", ratio), filled(client, address("change", ratio))).status_code == 302
    assert revision() == before


def test_change__to_a_type_whose_script_disables_the_rest__forgets_what_does_not_go_with_it(metric: Metric) -> None:
    client = sign_in()
    sent = filled(client, address("change", metric), type="retention", from_day="1", to_day="8")
    for disabled in ("currency", "window_hours", "delay_hours", "cap_percentile"):
        sent.pop(disabled, None)  # a delay of 0 is not in it
    assert client.post(address("change", metric), sent).status_code == 302
    changed = get_metric("spent")
    assert (changed.type, changed.currency, changed.window_hours, changed.to_day) == ("retention", "", None, 8)


def test_change__of_another_version__is_refused(metric: Metric) -> None:
    client = sign_in()
    sent = filled(client, address("change", metric), description="Mine")
    client.post(address("change", metric), filled(client, address("change", metric), description="Theirs"))
    response = client.post(address("change", metric), sent)
    assert "Nothing was saved" in errors_of(response)["__all__"][0]
    assert get_metric("spent").description == "Theirs"


@pytest.mark.parametrize(
    ("typed", "field", "words"),
    [
        (
            {"type": "count", "cap_value": "9", "cap_percentile": "99"},
            "cap_percentile",
            'Cannot be combined with "Cap at value"; set one of the two.',
        ),
        (
            {"type": "retention", "from_day": "7", "to_day": "7"},
            "to_day",
            'Must be greater than "From day"; it is the first day after the period.',
        ),
        ({"type": "count", "from_day": "7"}, "from_day", "A metric of type count does not have this; leave it empty."),
        ({"type": "count", "property": "x"}, "property", "A metric of type count does not have this; leave it empty."),
        ({"type": "count", "delay_hours": "7.5"}, "delay_hours", "Must be a whole number."),
        ({"type": "count", "cap_percentile": "50"}, "cap_percentile", "Must be above 50 and below 100, such as 99."),
        (
            {"type": "count", "currency": "EUR"},
            "currency",
            "A metric of type count does not have this; leave it empty.",
        ),
        (
            {"type": "ratio", "denominator_event": "view", "denominator_currency": "EUR"},
            "denominator_currency",
            "Requires the property revenue; leave it empty.",
        ),
    ],
)
def test_form__refused__speaks_of_fields_as_it_labels_them(
    db: None, typed: dict[str, str], field: str, words: str
) -> None:
    client = sign_in()
    response = client.post(ADD, filled(client, ADD, key="m", event="view", **typed))
    assert errors_of(response)[field] == [words]


def test_form__each_field_of_some_types__names_them_for_the_script(db: None) -> None:
    fields = sign_in().get(ADD).context["adminform"].form.fields
    types = {name: field.widget.attrs.get("data-types") for name, field in fields.items()}
    assert types["denominator_currency"] == "ratio"
    assert types["property"] == "sum mean ratio distinct quantile"
    assert types["from_day"] == "retention"
    assert "retention" not in types["window_hours"]
    assert [types[name] for name in ("key", "role", "margin", "reason")] == [None] * 4
    assert types["event"] == types["where"] == " ".join(kind for kind in MetricType.values if kind != "funnel")
    assert types["steps"] == "funnel"
    assert types["denominator_where"] == "ratio"
    assert fields["margin"].widget.attrs["data-roles"] == "guardrail"


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"key": "spent"}, "key"),
        ({"key": "no key"}, "key"),
        ({"event": ""}, "event"),
        ({"event": "e" * 201}, "event"),
        ({"event": "nul \0"}, "event"),
        ({"description": "d" * 2001}, "description"),
        ({"type": "median"}, "type"),
        ({"type": "sum"}, "property"),
        ({"type": "count", "property": "items"}, "property"),
        ({"type": "revenue"}, "currency"),
        ({"type": "revenue", "currency": "euro"}, "currency"),
        ({"window_hours": "-1"}, "window_hours"),
        ({"window_hours": "a week"}, "window_hours"),
        ({"window_hours": "1e400"}, "window_hours"),
        ({"window_hours": "true"}, "window_hours"),
        ({"window_hours": "1.5"}, "window_hours"),
        ({"delay_hours": "9000"}, "delay_hours"),
        ({"type": "conversion", "cap_value": "10"}, "cap_value"),
        ({"type": "count", "cap_value": "0"}, "cap_value"),
        ({"type": "count", "cap_value": "1", "cap_percentile": "99"}, "cap_percentile"),
        ({"type": "count", "cap_percentile": "10"}, "cap_percentile"),
        ({"type": "retention", "from_day": "7"}, "to_day"),
        ({"type": "retention", "from_day": "7", "to_day": "7"}, "to_day"),
        ({"type": "ratio"}, "denominator_event"),
        ({"type": "ratio", "denominator_property": "n"}, "denominator_event"),
        ({**RATIO, "denominator_property": "revenue"}, "denominator_currency"),
        ({**RATIO, "denominator_currency": "EUR"}, "denominator_currency"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_add__what_cannot_be__is_refused_at_its_field(metric: Metric, typed: dict[str, str], field: str) -> None:
    client = sign_in()
    before = revision()
    sent = filled(client, ADD, **{"key": "fresh", "type": "conversion", "event": "view", **typed})
    response = client.post(ADD, sent)
    assert response.status_code == 200
    assert list(errors_of(response)) == [field]
    assert revision() == before


# --- versions ---------------------------------------------------------------------------------------------------------


def test_change_of_meaning__while_an_experiment_measures_it__asks_first(metric: Metric) -> None:
    experiment = ExperimentFactory(key="e", metrics=["spent"], running=True)
    client = sign_in()
    page = address("change", metric)
    assert "Create version 2 e (production) measured version 1 and will not change." in text_of(client.get(page))
    before = revision()
    refused = client.post(page, filled(client, page, window_hours="24"))
    assert "Confirm that this makes version 2" in errors_of(refused)["new_version"][0]
    assert revision() == before

    assert client.post(page, filled(client, page, window_hours="24", new_version="on")).status_code == 302
    assert get_metric("spent").version == 2
    assert Experiment.objects.get(pk=experiment.pk).definitions[0]["windowHours"] == 168


def test_change_of_the_description__while_an_experiment_measures_it__asks_nothing(metric: Metric) -> None:
    ExperimentFactory(metrics=["spent"], running=True)
    client = sign_in()
    page = address("change", metric)
    assert client.post(page, filled(client, page, description="Words")).status_code == 302
    assert get_metric("spent").version == 1


def test_change_of_meaning__that_an_experiment_has_taken_since_the_page_was_opened__asks_first(metric: Metric) -> None:
    client = sign_in()
    page = address("change", metric)
    sent = filled(client, page, window_hours="24")
    assert "new_version" not in sent
    ExperimentFactory(metrics=["spent"], running=True)
    refused = client.post(page, sent)
    assert "Confirm that this makes version 2" in errors_of(refused)["new_version"][0]
    assert get_metric("spent").window_hours == 168


def test_form__of_a_metric_that_only_drafts_name__asks_nothing(metric: Metric) -> None:
    ExperimentFactory(key="e", metrics=["spent"])
    client = sign_in()
    page = address("change", metric)
    assert "Make version" not in text_of(client.get(page))
    assert client.post(page, filled(client, page, window_hours="24")).status_code == 302


# --- who uses it, and deletion ----------------------------------------------------------------------------------------


def test_form__tells_who_measures_it(metric: Metric, staging: Any) -> None:
    running = ExperimentFactory(key="here", metrics=["spent"], running=True)
    ExperimentFactory(key="there", metrics=["spent"], environment=staging)
    page = sign_in().get(address("change", metric))
    assert "Used by there Staging, draft here Production, running, version 1" in text_of(page)
    assert f'href="/admin/experiments/experiment/{running.pk}/change/"' in page.content.decode()


def test_form__of_an_unused_metric__says_so(metric: Metric) -> None:
    assert "No experiment uses this metric yet." in text_of(sign_in().get(address("change", metric)))


def test_delete__of_a_metric_in_use__says_by_whom(metric: Metric) -> None:
    ExperimentFactory(key="e", metrics=["spent"])
    before = revision()
    response = sign_in().post(address("delete", metric))
    assert "used by e (production)" in messages_of(response)[0]
    assert revision() == before


def test_delete__confirmed__goes_through_the_domain(metric: Metric) -> None:
    client = sign_in()
    before = revision()
    assert client.post(address("delete", metric), {"reason": "Over"}).url == LIST
    change = only_change(after=before)
    assert (change.action, change.source, change.reason) == ("deleted", Source.ADMIN, "Over")


def test_history__tells_each_version(metric: Metric) -> None:
    ExperimentFactory(metrics=["spent"], running=True)
    client = sign_in()
    page = address("change", metric)
    client.post(page, filled(client, page, window_hours="24", new_version="on"))
    shown = text_of(client.get(address("history", metric)))
    assert "Changed what it measures from “" in shown
    assert "within 1 day of exposure" in shown
    assert "Made version 2 of the metric" in shown


def test_viewer__reads_what_it_computes_and_writes_nothing(metric: Metric) -> None:
    client = sign_in("experiments.view_metric")
    page = client.get(address("change", metric))
    assert "Revenue in EUR of purchase per user within 7 days of exposure" in text_of(page)
    assert 'name="window_hours"' not in page.content.decode()
    before = revision()
    assert client.post(address("change", metric), {"event": "x"}).status_code == 403
    assert client.post(address("delete", metric)).status_code == 403
    assert revision() == before


# --- the form of an experiment ----------------------------------------------------------------------------------------


def test_draft__form__offers_the_metrics_and_takes_any_name(metric: Metric) -> None:
    client = sign_in()
    page = client.get(DRAFT)
    assert page.context["known_metrics"]()["spent"].startswith("Revenue in EUR of purchase per user")
    assert 'id="hy-metrics"' in page.content.decode()
    sent = filled(client, DRAFT, key="e", metrics=json.dumps(["spent", "any event"]), variants=page_variants())
    assert client.post(DRAFT, sent).status_code == 302
    assert Experiment.objects.get().metrics == ["spent", "any event"]


def test_draft__tuning_size__is_written_and_refused_at_its_field(db: None) -> None:
    client = sign_in()
    sent = filled(client, DRAFT, key="e", variants=page_variants(), metrics="[]")
    assert sent.get("tuning_sample_size") in (None, "")
    refused = client.post(DRAFT, {**sent, "tuning_sample_size": "99"})
    assert errors_of(refused) == {"tuning_sample_size": ["Must be 100 to 10,000,000 users."]}
    assert client.post(DRAFT, {**sent, "tuning_sample_size": "800"}).status_code == 302
    assert Experiment.objects.get().tuning_size == 800


def test_started__form__tells_what_it_was_tuned_for(db: None) -> None:
    experiment = ExperimentFactory(running=True, given_tuning_size=12_000)
    page = reverse("admin:experiments_experiment_change", args=[experiment.pk])
    assert "tuned for 12,000 users" in text_of(sign_in().get(page))


def page_variants() -> str:
    return json.dumps([{"key": "a", "weight": 1}, {"key": "b", "weight": 1}])
