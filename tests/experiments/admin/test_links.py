"""Pages lead to each other: an experiment to its flag, metrics, users and history, and flags and metrics back to it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from config.models import Environment
from experiments.admin.results.exposed_users import USERS_A_PAGE
from experiments.metrics.changes import create_metric
from experiments.models import Experiment
from flags.models import Flag
from tests.admin import sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.admin.results.test_pages import address, report
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db
DRIVEN = {"key": "checkout", "serves": {"control": False, "green": True}}


@pytest.fixture
def flag() -> Flag:
    made: Flag = FlagFactory(key="checkout", on=True)
    return made


@pytest.fixture
def running(flag: Flag) -> Experiment:
    create_metric(key="sales", type="count", event="purchase", actor=ACTOR, now=NOON)
    made: Experiment = ExperimentFactory(key="button", metrics=["sales", "items"], flag=DRIVEN, running=True)
    return made


def links(client: Client, page: str) -> list[tuple[str, str]]:
    """Return the links of the bar about the experiment, as their words and their addresses."""
    shown = client.get(page).context["links"]
    shown = shown() if callable(shown) else shown  # the form asks for them in its template
    return [("checkout", shown.flag), *shown.metrics.items()]


@pytest.mark.parametrize("page", ["change", "results", "users"])
def test_experiment__on_each_page__leads_to_its_flag_metrics_users_and_history(running: Experiment, page: str) -> None:
    client = sign_in()
    body = client.get(address(running, page)).content.decode()
    flag, metric = Flag.objects.get(key="checkout"), reverse("admin:experiments_metric_changelist")
    for target in (
        reverse("admin:flags_flag_change", args=[flag.pk]),
        f"{reverse('admin:events_event_named')}?event=items",
        *(address(running, other) for other in ("change", "results", "users", "history")),
    ):
        assert f'href="{target}"' in body, target
    assert body.count(f'href="{metric}') >= 2  # the menu's, and that of the metric with a definition
    for _, target in links(client, address(running, page)):
        assert client.get(target).status_code == 200, target


def test_results__lead_to_shipping__while_this_person_can_ship(running: Experiment) -> None:
    ship = f'href="{reverse("admin:experiments_experiment_ship", args=[running.pk])}"'
    change = ("experiments.view_experiment", "experiments.change_experiment", "flags.view_flag")
    for username, rights, leads in (("root", (), 1), ("eve", change[:1], 0), ("bo", change, 0)):  # the flag is not bo's
        assert sign_in(*rights, username=username).get(address(running)).content.decode().count(ship) == leads, username
    stopped = ExperimentFactory(key="old", running=True, stopped_at=NOON)
    assert "Ship a variant" not in text_of(sign_in().get(address(stopped)))


def test_links__without_rights__are_plain_words(running: Experiment) -> None:
    client = sign_in("experiments.view_experiment")
    page = client.get(address(running))
    assert links(client, address(running)) == [("checkout", ""), ("sales", ""), ("items", "")]
    assert "Metrics sales items" in text_of(page)


def test_links__of_a_draft__have_no_results_and_no_users() -> None:
    draft = ExperimentFactory(key="draft", metrics=["view"])
    text = text_of(sign_in().get(address(draft, "change")))
    assert "Experiment Step by step Change log Metrics view" in text
    assert "has not started, so it has no users yet" in text_of(sign_in(username="bo").get(address(draft, "users")))


def test_flag__that_experiments_use__leads_to_those_of_the_environment(
    running: Experiment, flag: Flag, staging: Environment
) -> None:
    ExperimentFactory(key="elsewhere", flag=DRIVEN, environment=staging)
    ExperimentFactory(key="next", flag=DRIVEN)
    ExperimentFactory(key="unrelated")
    page = sign_in().get(reverse("admin:flags_flag_change", args=[flag.pk]))
    assert [(use.key, use.words) for use in page.context["uses"]] == [("next", "draft"), ("button", "running")]
    assert "Experiments in Production next draft button running" in text_of(page)
    # The notice about the driver leads to it, too.
    assert page.content.decode().count(f'href="{address(running, "change")}"') == 2


def test_flag__for_a_user_without_the_right__names_no_experiments(running: Experiment, flag: Flag) -> None:
    page = sign_in("flags.view_flag").get(reverse("admin:flags_flag_change", args=[flag.pk]))
    assert page.context["uses"] == []
    assert "Experiments in Production" not in text_of(page)


def test_users__of_an_experiment__lead_to_the_page_of_each(running: Experiment) -> None:
    for user, variant in (("ada/..", "green"), ("bo", "control"), ("cy", "green")):
        report(running, user, variant)
    client = sign_in()
    text = text_of(client.get(address(running, "users")))
    assert "ada/.. green 31 Jan 2026, 12:01 reported by an event bo control" in text
    body = client.get(address(running, "users")).content.decode()
    assert f'href="{reverse("admin:experiments_experiment_user")}?id=ada%2F.."' in body
    green = client.get(address(running, "users") + "?variant=green").context["page"]
    assert [row.exposure.user_id for row in green.users] == ["ada/..", "cy"]
    later = client.get(address(running, "users") + "?after=bo")
    assert [row.exposure.user_id for row in later.context["page"].users] == ["cy"]
    assert "First page" in text_of(later)
    assert "No user matches." in text_of(client.get(address(running, "users") + "?after=zoe%00"))


@pytest.mark.parametrize("count", [1, USERS_A_PAGE, USERS_A_PAGE + 1])
def test_users__any_number__take_the_same_queries_and_come_in_pages(
    running: Experiment, django_assert_num_queries: Any, count: int
) -> None:
    for number in range(count):
        report(running, f"user-{number:03}", "green")
    client = sign_in()
    with django_assert_num_queries(7):  # session, user, environments, experiment, flag, metrics, users
        first = client.get(address(running, "users"))
    shown = [row.exposure.user_id for row in first.context["page"].users]
    assert len(shown) == min(count, USERS_A_PAGE)
    assert first.context["page"].next == (shown[-1] if count > USERS_A_PAGE else "")
    assert ("Next page" in text_of(first)) == (count > USERS_A_PAGE)


def test_users__without_the_right__are_refused(running: Experiment) -> None:
    assert sign_in("flags.view_flag").get(address(running, "users")).status_code == 403
