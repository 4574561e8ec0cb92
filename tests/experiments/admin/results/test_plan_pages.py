"""The parts of the results page that follow from plans, windows and decisions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.changes import create_experiment, start_experiment, stop_experiment, update_experiment
from experiments.metrics.changes import create_metric
from experiments.models import Experiment
from tests.admin import sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.admin.results.test_pages import address

pytestmark = pytest.mark.django_db
VARIANTS = [{"key": "control", "weight": 1}, {"key": "green", "weight": 1}]


def planned(production: Environment, **values: Any) -> Experiment:
    """An experiment that has run for a day, with four users in each variant; two of each bought something."""
    at = timezone.now() - timedelta(days=1)
    which = {"key": "button", "environment": production, "actor": ACTOR, "now": at}
    create_experiment(variants=VARIANTS, **{"metrics": ["purchase"], **values}, **which)
    experiment = start_experiment(**which, started_at=at)
    for number in range(8):
        exposed = {"experimentId": "button", "variant": "green" if number % 2 else "control"}
        names = {"seen": exposed} | ({"purchase": {}} if number > 3 else {})
        events = [NewEvent(new_id(), f"user-{number}", name, at, at, properties) for name, properties in names.items()]
        record(events, production)
    return experiment


def test_results__with_a_plan__show_how_far_it_is(production: Environment) -> None:
    experiment = planned(production, planned_size=32, minimum_effect=0.05, minimum_days=365)
    text = text_of(sign_in().get(address(experiment)))
    assert "Planned size: 8 of 32 users; smallest effect of interest: 5 %" in text


def test_results__of_a_fixed_analysis__wait_for_their_one_reading(production: Environment) -> None:
    experiment = planned(production, planned_size=32, analysis="fixed")
    client = sign_in()
    text = text_of(client.get(address(experiment)))
    assert "Until the one reading: 25 % of the way to 32 users" in text
    assert "control has 4 users of the 16 that are planned" in text
    assert "The verdict rests on the one reading alone." in text
    brief = text_of(client.get(f"/admin/experiments/experiment/{experiment.pk}/change/"))
    assert "A fixed analysis is read once, at its planned size." in brief


def test_results__of_metrics_with_windows__may_count_all_users(production: Environment) -> None:
    create_metric(key="soon", type="conversion", event="purchase", window_hours=72, actor=ACTOR, now=NOON)
    experiment = planned(production, metrics=["soon"])
    client = sign_in()
    mature = client.get(address(experiment))
    assert "8 users must wait until the 3 days after their exposure are over." in text_of(mature)
    assert "All users are shown." not in text_of(mature)
    everybody = client.get(address(experiment), {"maturity": "all"})
    assert "All users are shown." in text_of(everybody)
    assert "green 4 4 waiting 50.00 %" in text_of(everybody)
    assert "maturity=all" in everybody.content.decode().partition("results.csv")[2][:80]
    refused = client.get(address(experiment), {"maturity": "old"})
    assert "All users are shown." not in text_of(refused)
    assert client.get(address(experiment, "results_csv"), {"maturity": "old"}).status_code == 404


def test_results__without_windows__offer_no_choice_of_users(production: Environment) -> None:
    page = sign_in().get(address(planned(production)), {"maturity": "all"})
    assert 'name="maturity"' not in page.content.decode()
    assert "All users are shown." not in text_of(page)


def test_results__of_events_that_never_came__say_so_on_every_page(production: Environment) -> None:
    experiment = planned(production, metrics=["purchase", "purchas"])
    warning = "Production has never received the event purchas."
    client = sign_in()
    assert warning in text_of(client.get(address(experiment)))
    for path in (f"/admin/experiments/experiment/{experiment.pk}/change/", "/admin/"):
        assert f"purchas: {warning}" in text_of(client.get(path)), path


def test_results__by_days_since_exposure__are_one_click_away(production: Environment) -> None:
    experiment = planned(production)
    client = sign_in()
    assert 'href="?ages=purchase#metric-0"' in client.get(address(experiment)).content.decode()
    page = client.get(address(experiment), {"ages": "purchase"})
    assert 'type="hidden" name="ages" value="purchase"' in page.content.decode()


def test_results__after_shipping__no_longer_advise_to_ship(production: Environment) -> None:
    experiment = planned(production, minimum_days=0)
    which = {"key": "button", "environment": production, "actor": ACTOR}
    stop_experiment(winner="green", reason="We like it.", now=timezone.now(), **which)
    client = sign_in()
    for path in (address(experiment), f"/admin/experiments/experiment/{experiment.pk}/change/"):
        text = text_of(client.get(path))
        assert "Shipped green" in text
        assert "Ship green" not in text


def test_results__with_hypothesis_and_owner__show_them(production: Environment) -> None:
    experiment = planned(production)
    client = sign_in()
    assert "Hypothesis:" not in text_of(client.get(address(experiment)))
    changes = {"hypothesis": "Green is seen sooner.", "owner": "Growth"}
    update_experiment(key="button", environment=production, changes=changes, actor=ACTOR, now=NOON)
    assert "Hypothesis: Green is seen sooner. Owner: Growth" in text_of(client.get(address(experiment)))
