"""Experiments in the admin: drafts that are edited, the two steps that cannot be undone, and results."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from config.models import Environment, Source
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.changes import create_experiment, start_experiment, stop_experiment
from experiments.metrics.definition import definitions_of
from experiments.models import Experiment, Status
from tests.admin import errors_of, filled, messages_of, only_change, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON

LIST = "admin:experiments_experiment_changelist"
VARIANTS = [{"key": "blue", "weight": 1}, {"key": "green", "weight": 3}]


@pytest.fixture
def draft(production: Environment) -> Experiment:
    return create_experiment(
        key="button",
        description="Which?",
        variants=VARIANTS,
        metrics=["buy"],
        environment=production,
        actor=ACTOR,
        now=NOON,
    )


@pytest.fixture
def running(draft: Experiment, production: Environment) -> Experiment:
    return start_experiment(key=draft.key, environment=production, actor=ACTOR, now=NOON)


def address(page: str, experiment: Experiment) -> str:
    return reverse(f"admin:experiments_experiment_{page}", args=[experiment.pk])


def track(environment: Environment, user: str, name: str, **properties: Any) -> None:
    at = timezone.now() + timedelta(seconds=1)
    record([NewEvent(new_id(), user, name, at, at, properties)], environment)


@pytest.mark.parametrize("count", [1, 12])
def test_experiment_list__any_number__takes_the_same_queries(
    production: Environment, django_assert_num_queries: Any, count: int
) -> None:
    for number in range(count):
        create_experiment(key=f"e-{number}", variants=VARIANTS, environment=production, actor=ACTOR, now=NOON)
    client = sign_in()
    with django_assert_num_queries(6):  # session, user, environments, owners, count, experiments
        response = client.get(reverse(LIST))
    assert len(response.context["cl"].result_list) == count


def test_experiment_list__shows_what_an_experiment_is_made_of(draft: Experiment) -> None:
    assert "button Which? draft blue 25 % · green 75 % buy not yet" in text_of(sign_in().get(reverse(LIST)))


def test_experiment_list__by_status__holds_those_alone(running: Experiment, production: Environment) -> None:
    create_experiment(key="other", variants=VARIANTS, environment=production, actor=ACTOR, now=NOON)
    response = sign_in().get(reverse(LIST) + "?status=running")
    assert [row.key for row in response.context["cl"].result_list] == ["button"]


def test_experiment__of_another_environment__is_not_found(draft: Experiment) -> None:
    client = sign_in()
    client.post(reverse("admin:switch_environment"), {"environment": "staging"})
    assert client.get(reverse(LIST)).context["cl"].result_count == 0
    assert client.get(address("change", draft)).status_code == 302
    assert client.post(address("start", draft), {"opened_in": "staging"}).status_code == 302
    assert client.post(address("start", draft), {"opened_in": "production"}).status_code == 412
    draft.refresh_from_db()
    assert draft.status == Status.DRAFT


def test_add__what_was_typed__is_a_draft_and_logged_once(production: Environment) -> None:
    client = sign_in()
    where = reverse("admin:experiments_experiment_add") + "?all=true"
    before = revision()
    sent = filled(client, where, key="price", variants=json.dumps(VARIANTS), metrics='["buy"]', reason="Q3")
    assert client.post(where, sent).status_code == 302
    made = Experiment.objects.get(key="price")
    assert (made.environment, made.status, made.variants, made.metrics) == (production, "draft", VARIANTS, ["buy"])
    change = only_change(after=before)
    assert (change.action, change.source, change.actor, change.reason) == ("created", Source.ADMIN, "user ada", "Q3")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"key": "no spaces"}, "key"),
        ({"key": "button"}, "key"),
        ({"description": "d" * 2001}, "description"),
        ({"variants": "[]"}, "variants"),
        ({"variants": '[{"key": "a", "weight": 1}, {"key": "a", "weight": 1}]'}, "variants"),
        ({"variants": '[{"key": "a", "weight": -1}, {"key": "b", "weight": 1}]'}, "variants"),
        ({"variants": '[{"key": "a", "weight": "1"}, {"key": "b", "weight": Infinity}]'}, "variants"),
        ({"variants": '{"a": 1}'}, "variants"),
        ({"metrics": '["buy", "buy"]'}, "metrics"),
        ({"metrics": '["\\u0000"]'}, "metrics"),
        ({"metrics": '"buy"'}, "metrics"),
        ({"metrics": '["buy"'}, "metrics"),
    ],
)
def test_add__what_the_api_refuses__is_refused_in_the_same_words(
    draft: Experiment, api: Any, changes: dict[str, str], field: str
) -> None:
    client = sign_in()
    where = reverse("admin:experiments_experiment_add") + "?all=true"
    before = revision()
    values = {"key": "fresh", "variants": json.dumps(VARIANTS), "metrics": "[]", **changes}
    response = client.post(where, filled(client, where, **values))
    assert response.status_code == 200
    words = refusal_of_api(api, values)
    assert any(word in error for error in errors_of(response)[field] for word in words), (errors_of(response), words)
    assert response.context["adminform"].form[field].value() == changes[field]
    assert revision() == before


def refusal_of_api(api: Any, values: dict[str, str]) -> list[str]:
    raw = ("variants", "metrics")
    parts = [f'"{name}": {value if name in raw else json.dumps(value)}' for name, value in values.items()]
    answer = api.generic("POST", "/v1/experiments", "{" + ", ".join(parts) + "}", content_type="application/json")
    error = answer.json()["error"]
    assert answer.status_code in (400, 409)
    if error["code"] == "malformed_json":
        return ["is not valid JSON"]  # the position in the text differs
    return [detail["message"] for detail in error.get("details", [])] or [error["message"]]


def test_add__opened_in_another_environment__is_refused(production: Environment) -> None:
    client = sign_in()
    where = reverse("admin:experiments_experiment_add") + "?all=true"
    sent = filled(client, where, key="price")
    client.post(reverse("admin:switch_environment"), {"environment": "staging"})
    response = client.post(where, sent)
    assert "have switched to Staging since" in text_of(response)
    assert not Experiment.objects.exists()


def test_change__of_a_draft__is_one_change(draft: Experiment) -> None:
    client = sign_in()
    before = revision()
    sent = filled(client, address("change", draft), description="Better?", metrics='["buy", "sign_up"]')
    assert client.post(address("change", draft), sent).status_code == 302
    draft.refresh_from_db()
    assert (draft.description, draft.metrics) == ("Better?", ["buy", "sign_up"])
    assert only_change(after=before).source == Source.ADMIN


def test_change__of_a_started_experiment__takes_the_description_alone(running: Experiment) -> None:
    client = sign_in()
    sent = filled(client, address("change", running), description="Better?")
    assert "variants" not in sent
    sent |= {"key": "other", "status": "stopped"}
    assert client.post(address("change", running), sent).status_code == 302
    running.refresh_from_db()
    assert (running.description, running.variants, running.key) == ("Better?", VARIANTS, "button")


def test_change__metrics_of_a_started_experiment__are_added_post_hoc_and_neither_go_nor_move(
    running: Experiment,
) -> None:
    client, where = sign_in(), address("change", running)
    assert client.post(where, filled(client, where, metrics='["buy", "sign_up"]')).status_code == 302
    running.refresh_from_db()
    assert [definition.is_post_hoc for definition in definitions_of(running)] == [False, True]

    refused = client.post(where, filled(client, where, metrics='["sign_up", "buy"]'))
    assert "its metrics cannot be removed or moved" in errors_of(refused)["__all__"][0]
    stop_experiment(
        key=running.key, environment=running.environment, actor=ACTOR, now=NOON, winner="blue", reason="Yes"
    )
    sent = filled(client, where)
    assert "metrics" not in sent
    refused = client.post(where, {**sent, "metrics": '["buy", "sign_up", "late"]'})  # of a page opened before
    assert "are frozen, so no metric can be added" in errors_of(refused)["__all__"][0]


def test_change__of_a_draft_that_was_started_meanwhile__is_not_made(draft: Experiment, production: Environment) -> None:
    client = sign_in()
    sent = filled(client, address("change", draft), metrics='["other"]')
    start_experiment(key=draft.key, environment=production, actor=ACTOR, now=NOON)
    before = revision()
    response = client.post(address("change", draft), sent)
    message = "The experiment is running; its metrics cannot be removed or moved. Add new ones at the end."
    assert errors_of(response)["__all__"] == [message]
    assert response.context["adminform"].form["metrics"].value() == '["other"]'
    draft.refresh_from_db()
    assert (draft.metrics, revision()) == (["buy"], before)


def test_start__confirmed__runs_and_is_logged_with_its_reason(draft: Experiment) -> None:
    client = sign_in()
    assert "Users are assigned to variants from now on: blue 25 % · green 75 %" in text_of(
        client.get(address("start", draft))
    )
    draft.refresh_from_db()
    assert draft.status == Status.DRAFT
    before = revision()
    response = client.post(address("start", draft), {"opened_in": "production", "reason": "Now"})
    assert messages_of(response) == ["button is running."]
    draft.refresh_from_db()
    assert draft.status == Status.RUNNING
    change = only_change(after=before)
    assert (change.source, change.reason) == (Source.ADMIN, "Now")


def test_stop__confirmed__stops(running: Experiment) -> None:
    client = sign_in()
    assert "You can reopen it within 30 days" in text_of(client.get(address("stop", running)))
    before = revision()
    assert messages_of(client.post(address("stop", running), {"opened_in": "production"})) == ["button is stopped."]
    running.refresh_from_db()
    assert running.status == Status.STOPPED
    assert only_change(after=before).source == Source.ADMIN


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("start", "The experiment is running; only a draft experiment can become running."),
        ("stop", None),
    ],
)
def test_move__that_the_status_does_not_allow__is_refused_in_the_words_of_the_domain(
    running: Experiment, production: Environment, page: str, words: str | None
) -> None:
    if page == "stop":
        stop_experiment(key=running.key, environment=production, actor=ACTOR, now=NOON)
        words = "The experiment is stopped; only a running experiment can become stopped."
    before = revision()
    assert messages_of(sign_in().post(address(page, running), {"opened_in": "production"})) == [words]
    assert revision() == before


def test_buttons__of_an_experiment__fit_its_status(draft: Experiment, production: Environment) -> None:
    client = sign_in()

    def offered() -> set[str]:
        page = client.get(address("change", draft)).content.decode()
        return {name for name in ("start", "stop", "delete") if f'href="{address(name, draft)}"' in page}

    assert offered() == {"start", "delete"}
    start_experiment(key=draft.key, environment=production, actor=ACTOR, now=NOON)
    assert offered() == {"stop"}
    stop_experiment(key=draft.key, environment=production, actor=ACTOR, now=NOON)
    assert offered() == set()


@pytest.mark.parametrize("page", ["start", "change", "delete"])
def test_viewer__posts_anyway__is_forbidden(draft: Experiment, page: str) -> None:
    before = revision()
    client = sign_in("experiments.view_experiment")
    assert client.get(address("change", draft)).status_code == 200
    assert client.post(address(page, draft), {"opened_in": "production"}).status_code == 403
    assert revision() == before


def test_delete__of_a_draft__goes_through_the_domain(draft: Experiment) -> None:
    before = revision()
    assert sign_in().post(address("delete", draft), {"opened_in": "production"}).url == reverse(LIST)
    assert not Experiment.objects.exists()
    assert only_change(after=before).action == "deleted"


def test_delete__of_a_started_experiment__is_forbidden(running: Experiment) -> None:
    assert sign_in().post(address("delete", running), {"opened_in": "production"}).status_code == 403
    assert Experiment.objects.exists()


def test_results__of_a_running_experiment__are_shares_in_percent(running: Experiment, production: Environment) -> None:
    for user in ("a", "b", "c"):
        track(production, user, "see", experimentId="button", variant="green")
    track(production, "a", "buy")
    track(production, "d", "see", experimentId="button", variant="blue")
    track(production, "d", "see", experimentId="button", variant="green")
    track(production, "e", "see", experimentId="button", variant="red")
    text = text_of(sign_in().get(address("change", running)))
    assert "Check the data" in text
    assert "blue control 1 0.00 %" in text
    assert "green 3 33.33 %" in text
    assert "as of" in text
    assert "Users in several variants: 1 user; each counts for the first variant" in text
    assert "Events with unknown variants: 1 event; not counted" in text


def test_results__of_a_draft__are_not_shown(draft: Experiment) -> None:
    assert "hy-results" not in sign_in().get(address("change", draft)).content.decode()


def test_history__of_an_experiment__tells_its_steps(running: Experiment) -> None:
    text = text_of(sign_in().get(address("history", running)))
    assert "Started the experiment" in text
    assert "test created experiment button" in text
