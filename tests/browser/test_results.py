"""The results of an experiment, as they are looked at every day."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.models import Experiment
from tests.browser.conftest import Visit
from tests.conftest import NOON
from tests.factories import ExperimentFactory

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]


def experiment_with_users() -> Experiment:
    """With 200 users in each variant; 20 and 80 of them bought something."""
    experiment: Experiment = ExperimentFactory(key="button", running=True)
    at = NOON + timedelta(minutes=1)
    events = []
    for variant, buyers in (("control", 20), ("green", 80)):
        for number in range(200):
            user = f"{variant}-{number}"
            exposed = {"experimentId": "button", "variant": variant, "country": "DE" if number % 2 else "FR"}
            events.append(NewEvent(new_id(), user, "seen", at, at, exposed))
            if number < buyers:
                events.append(NewEvent(new_id(), user, "purchase", at, at, {}))
    record(events, Environment.objects.default())
    return experiment


@pytest.mark.parametrize("visit", [True, False], indirect=True, ids=["with script", "without script"])
def test_results__from_the_form_to_an_explanation(visit: Visit) -> None:
    page = visit.page
    experiment = experiment_with_users()
    visit.open(f"/admin/experiments/experiment/{experiment.pk}/change/")
    expect(page.get_by_label("Results", exact=True)).to_contain_text("Ship green")
    page.get_by_role("link", name="All results").click()
    card = page.get_by_label("purchase", exact=True)
    expect(card.get_by_role("row", name=re.compile("^green")).first).to_contain_text("+300.00 % better")
    expect(card.get_by_role("img", name=re.compile("^green: lift over the control by day"))).to_be_visible()
    expect(card.get_by_text("about 1 in 4 experiments")).to_be_hidden()
    card.get_by_text("For one look alone").press("Enter")
    expect(card.get_by_text("about 1 in 4 experiments")).to_be_visible()
    card.get_by_role("link", name="By days since exposure").click()
    expect(card.get_by_role("img", name=re.compile("lift over the control by day"))).to_have_count(2)
    page.get_by_label("Break down by").select_option("country")
    page.get_by_role("button", name="Show").click()
    expect(card.get_by_role("row", name=re.compile("^FR green"))).to_contain_text("40.00 %")
    expect(page.get_by_label("Break down by")).to_have_value("country")
    page.get_by_role("link", name="How green is computed").click()
    expect(page.get_by_label("Explanation", exact=True)).to_contain_text("Users with such an event")


def test_results__on_a_telephone__do_not_scroll_sideways(visit: Visit) -> None:
    experiment = experiment_with_users()
    visit.page.set_viewport_size({"width": 390, "height": 844})
    for path in ("change/", "results/?breakdown=country&ages=purchase", "results/0/", "ship/"):
        visit.open(f"/admin/experiments/experiment/{experiment.pk}/{path}")
        visit.page.evaluate("for (const fold of document.querySelectorAll('.hy-fold')) fold.open = true")
        wide = visit.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, path
