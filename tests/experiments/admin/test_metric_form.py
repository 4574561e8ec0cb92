"""The form of conditions, steps, quantiles and margins, and what it suggests and warns about."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from config.models import Environment
from events.admin.name_page import address_of_event
from experiments.metrics.changes import create_metric, get_metric
from experiments.models import Metric
from tests.admin import errors_of, filled, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.metrics.test_definition import STEPS, WHERE
from tests.factories import EventFactory

pytestmark = pytest.mark.django_db

LIST = "/admin/experiments/metric/"
ADD = "/admin/experiments/metric/add/"
EVENT = "/admin/experiments/metric/event/"
WRITE = {"actor": ACTOR, "now": NOON}
GUARDRAIL = {"type": "count", "event": "view", "role": "guardrail"}


def page_of(metric: Metric) -> str:
    return reverse("admin:experiments_metric_change", args=[metric.pk])


def add(**typed: str) -> tuple[Any, Client]:
    client = sign_in()
    return client.post(ADD, filled(client, ADD, key="m", **typed)), client


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ({"type": "count", "event": "view", "where": json.dumps(WHERE)}, {"where": WHERE}),
        ({"type": "funnel", "steps": json.dumps(STEPS)}, {"steps": STEPS, "event": "view"}),
        ({"type": "distinct", "event": "view"}, {"property": ""}),
        ({"type": "quantile", "event": "view", "property": "s", "quantile": "99.5"}, {"quantile": 0.995}),
        ({"type": "quantile", "event": "view", "property": "s", "quantile": "7"}, {"quantile": 0.07}),
        ({"type": "revenue", "event": "buy", "currency": "eur"}, {"currency": "EUR"}),
        ({**GUARDRAIL, "margin": "12,5"}, {"margin": 0.125}),
        ({**GUARDRAIL, "margin": "12.5"}, {"margin": 0.125}),
        ({**GUARDRAIL, "margin": "100"}, {"margin": 1.0}),
        ({**GUARDRAIL, "margin": "0,5 %"}, {"margin": 0.005}),
        ({**GUARDRAIL, "margin_absolute": "1 %"}, {"margin_absolute": 0.01}),
        ({**GUARDRAIL, "margin_absolute": "0,25"}, {"margin_absolute": 0.25}),
        (
            {"type": "ratio", "event": "buy", "denominator_event": "view", "denominator_where": json.dumps(WHERE)},
            {"denominator": {"event": "view", "property": "", "currency": "", "where": WHERE}},
        ),
    ],
)
def test_add__each_field__is_stored_and_stays_when_saved_again(typed: dict[str, str], stored: dict[str, Any]) -> None:
    response, client = add(**typed)
    assert response.status_code == 302, errors_of(response)
    metric = get_metric("m")
    assert {name: getattr(metric, name) for name in stored} == stored
    before = revision()
    assert client.post(page_of(metric), filled(client, page_of(metric))).status_code == 302
    assert revision() == before


@pytest.mark.parametrize(
    ("typed", "field", "words"),
    [
        ({**GUARDRAIL, "margin": "0"}, "margin", "Must be above 0 and at most 100 %."),
        ({**GUARDRAIL, "margin": "100,5"}, "margin", "Must be above 0 and at most 100 %."),
        ({**GUARDRAIL, "margin": "1,000"}, "margin", "Could mean 1.000 or 1000. Write one of them."),
        ({**GUARDRAIL, "margin": "a tenth"}, "margin", "Must be a percentage such as 5 % or 12.5 %."),
        ({**GUARDRAIL, "margin_absolute": "0"}, "margin_absolute", "Must be greater than 0."),
        (
            {**GUARDRAIL, "margin": "5", "margin_absolute": "5"},
            "margin_absolute",
            "Cannot be combined with margin; set one of the two.",
        ),
        (
            {**GUARDRAIL, "role": "goal", "margin": "5"},
            "margin",
            "Only a guardrail has a margin; leave it empty.",
        ),
        (
            {"type": "quantile", "event": "view", "property": "s", "quantile": "100"},
            "quantile",
            "Must be above 0 and below 100 %: 50 % is the median.",
        ),
        ({"type": "count"}, "event", "This field is required."),
        ({"type": "funnel"}, "steps", "A metric of type funnel requires this; add it."),
        ({"type": "funnel", "steps": '[{"event": "view"}]'}, "steps", "Must have 2 to 10 steps."),
        (
            {"type": "funnel", "steps": '[{"event": "view"}, {"event": ""}]'},
            "steps",
            "steps[1].event: Must not be empty.",
        ),
        (
            {"type": "funnel", "steps": json.dumps(STEPS), "event": "buy"},
            "event",
            "Must be the event of the first step, view; leave it empty.",
        ),
        (
            {"type": "count", "event": "view", "where": '[{"property": "", "operator": "exists"}]'},
            "where",
            "where[0].property: Must not be empty.",
        ),
        ({"type": "count", "event": "view", "where": "plan is pro"}, "where", None),
        (
            {
                **{"type": "ratio", "event": "buy", "denominator_event": "view"},
                "denominator_where": '[{"property": "p", "operator": "lessThan", "value": "x"}]',
            },
            "denominator_where",
            "denominatorWhere[0].value: Must be a number.",
        ),
    ],
)
def test_add__what_cannot_be__is_refused_at_its_field(typed: dict[str, str], field: str, words: str | None) -> None:
    response, _ = add(**typed)
    assert response.status_code == 200
    assert errors_of(response)[field] == [words] if words else errors_of(response)[field]
    assert not Metric.objects.exists()


def test_pages__of_an_event_that_was_never_received__say_so_in_its_environment(
    production: Environment, staging: Environment
) -> None:
    metric = create_metric(key="m", type="funnel", steps=[{"event": "view"}, {"event": "bye"}], **WRITE)
    client = sign_in()
    warning = "The events bye, view were never received in Production."
    assert warning in text_of(client.get(LIST))
    assert warning in text_of(client.get(page_of(metric)))
    EventFactory(name="view", environment=staging)
    EventFactory(name="view")
    warning = "The event bye was never received in Production."
    assert warning in text_of(client.get(LIST))
    assert warning in text_of(client.get(page_of(metric)))
    EventFactory(name="bye")
    assert "never received" not in text_of(client.get(LIST))
    assert "never received" not in text_of(client.get(page_of(metric)))


def test_pages__of_an_event_that_has_stopped__say_so_and_lead_to_it(production: Environment) -> None:
    metric = create_metric(key="m", type="ratio", event="buy", denominator={"event": "view"}, **WRITE)
    now = timezone.now()
    for hour in range(24, 124):
        EventFactory(name="buy", timestamp=now - timedelta(hours=hour))
    EventFactory(name="view", timestamp=now)
    client = sign_in()
    page = client.get(page_of(metric))
    for response in (client.get(LIST), page):
        assert "The event buy has stopped: Production has received none since" in text_of(response)
        assert "The event view has stopped" not in text_of(response)
    assert "An event has stopped if most hours" in text_of(page)
    for name in ("buy", "view"):
        assert f'href="{address_of_event(name)}"' in page.content.decode()


def test_form__suggestions__are_events_and_operators(production: Environment, staging: Environment) -> None:
    EventFactory(name="view", timestamp=timezone.now())
    EventFactory(name="old", timestamp=timezone.now() - timedelta(days=31))
    EventFactory(name="elsewhere", timestamp=timezone.now(), environment=staging)
    context = sign_in().get(ADD).context
    assert context["event_names"] == ["view"]
    names = [name for _, choices in context["operator_choices"] for name, *_ in choices]
    assert "contains" in names
    assert "inSegment" not in names


def test_event__in_the_current_environment__is_answered_with_its_properties(
    production: Environment, staging: Environment
) -> None:
    EventFactory(name="view", properties={"page": "/a", "seconds": 2})
    EventFactory(name="plain", properties={})
    EventFactory(name="elsewhere", environment=staging)
    client = sign_in()
    assert client.get(EVENT, {"name": "view"}).json() == {
        "isReceived": True,
        "properties": [{"name": "page", "kind": "text"}, {"name": "seconds", "kind": "number"}],
    }
    assert client.get(EVENT, {"name": "plain"}).json() == {"isReceived": True, "properties": []}
    for name in ("elsewhere", "", "e" * 201, "nul\0"):
        assert client.get(EVENT, {"name": name}).json() == {"isReceived": False, "properties": []}


def test_event__without_the_right_to_see_metrics__is_refused(db: None) -> None:
    user = User.objects.create_user("ann", password="x" * 12, is_staff=True)
    client = Client()
    client.force_login(user)
    assert client.get(EVENT, {"name": "view"}).status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_metric"))
    assert client.get(EVENT, {"name": "view"}).status_code == 200


def test_page__of_someone_who_may_only_look__shows_the_margin(db: None) -> None:
    metric = create_metric(key="m", margin=0.025, **GUARDRAIL, **WRITE)
    user = User.objects.create_user("ann", password="x" * 12, is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_metric"))
    client = Client()
    client.force_login(user)
    assert "at most 2.5 % worse" in text_of(client.get(page_of(metric)))
