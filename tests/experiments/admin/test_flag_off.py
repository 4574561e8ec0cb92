"""What the pages of a running experiment say while its flag is off."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse

from config.models import Change, Environment
from experiments.lifecycle.changes import stop_experiment
from experiments.lifecycle.checklist import Check, Level, check_experiment
from experiments.models import Experiment
from flags.changes.flag_changes import get_flag, update_flag
from tests.admin import sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.lifecycle.shipping import record_clear_winner, run_experiment, step_arguments
from tests.factories import ExperimentFactory

LIST = "/admin/experiments/experiment/"
SAYS = "The flag button has been off since 31 Jan 2026, 15:00 UTC."
LINK = 'href="/admin/flags/flag/?q=button"'


def switch(environment: Environment, *, enabled: bool) -> None:
    changes = {"enabled": enabled}
    update_flag(key="button", environment=environment, changes=changes, actor=ACTOR, now=NOON)
    newest = Change.objects.latest_revision()
    Change.objects.filter(pk=newest).update(at=NOON + timedelta(hours=3))


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """A running experiment with a clear winner, whose flag has been off for long."""
    experiment = run_experiment(production)
    record_clear_winner(production)
    switch(production, enabled=False)
    return experiment


def pages_of(experiment: Experiment) -> list[str]:
    names = ("change", "results", "ship")
    own = [reverse(f"admin:experiments_experiment_{name}", args=[experiment.pk]) for name in names]
    return [*own, reverse("admin:index")]


def test_pages__flag_off__say_since_when_with_a_link_and_to_check_the_data(
    experiment: Experiment, production: Environment
) -> None:
    client = sign_in()
    for address in pages_of(experiment):
        page = client.get(address)
        assert SAYS in text_of(page)
        assert "Check the data" in text_of(page)
        assert LINK in page.content.decode()
    switch(production, enabled=True)
    assert all("has been off" not in text_of(client.get(address)) for address in pages_of(experiment))


def test_page__flag_off__has_no_link_for_people_who_may_not_see_flags(experiment: Experiment) -> None:
    page = sign_in("experiments.view_experiment").get(pages_of(experiment)[0])
    assert SAYS in text_of(page)
    assert LINK not in page.content.decode()


def test_page__of_an_experiment_that_has_stopped__says_nothing_of_the_flag_now(
    experiment: Experiment, production: Environment
) -> None:
    stop_experiment(**step_arguments(production))
    shown = text_of(sign_in().get(pages_of(experiment)[0]))
    assert "has been off" not in shown
    assert "The flag button was off from 31 Jan 2026, 15:00 UTC until the end" in shown


def test_list__flag_off__marks_the_experiment(experiment: Experiment, production: Environment) -> None:
    ExperimentFactory(key="draft", flag=experiment.flag)
    client = sign_in()
    shown = text_of(client.get(LIST))
    assert (shown.count("flag off"), "e flag off" in shown) == (1, True)
    switch(production, enabled=True)
    assert "flag off" not in text_of(client.get(LIST))


def test_checklist__flag_off_after_the_start__is_a_problem(experiment: Experiment) -> None:
    [finding] = [finding for finding in check_experiment(experiment, NOON) if finding.check == Check.FLAG]
    assert (finding.status, finding.message) == (
        Level.PROBLEM,
        "The flag button is off in production, so nobody sees a variant; turn it on.",
    )


def test_ship__flag_off__asks_what_happens_to_it_without_a_default(
    experiment: Experiment, production: Environment
) -> None:
    client, address = sign_in(), reverse("admin:experiments_experiment_ship", args=[experiment.pk])
    page = client.get(address)
    assert "The flag button is off. What happens to it?" in text_of(page)
    assert page.context["form"]["enable"].value() is None
    sent = {"winner": "green", "reason": "Seen enough", "opened_in": "production"}
    page = client.post(address, sent)
    assert page.context["form"].errors == {"enable": ["Choose whether to switch the flag on."]}
    assert client.post(address, {**sent, "enable": "true"}).status_code == 302
    assert get_flag("button", production).enabled is True


def test_ship__flag_left_off__stays_off(experiment: Experiment, production: Environment) -> None:
    address = reverse("admin:experiments_experiment_ship", args=[experiment.pk])
    sent = {"winner": "green", "reason": "Seen enough", "enable": "false", "opened_in": "production"}
    assert sign_in().post(address, sent).status_code == 302
    assert get_flag("button", production).enabled is False


def test_ship__flag_on__asks_nothing_about_it(experiment: Experiment, production: Environment) -> None:
    switch(production, enabled=True)
    page = sign_in().get(reverse("admin:experiments_experiment_ship", args=[experiment.pk]))
    assert "What happens to it?" not in text_of(page)
