"""Switching off a flag that an experiment drives, in a real browser, by the keyboard alone."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from config.models import Change, Environment
from experiments.models import Experiment
from flags.changes.flag_changes import update_flag
from tests.browser.conftest import Visit
from tests.browser.flags import stored
from tests.conftest import ACTOR
from tests.experiments.lifecycle.shipping import record_clear_winner, run_experiment
from tests.flags.usage.users import seen, store

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]
BOTH = pytest.mark.parametrize("visit", [True, False], indirect=True, ids=["script", "no script"])


@pytest.fixture
def experiment(transactional_db: None) -> Experiment:
    return run_experiment(Environment.objects.get(key="production"))


@BOTH
def test_switch__of_a_driven_flag__asks_first(visit: Visit, experiment: Experiment) -> None:
    page = visit.page
    visit.open("/admin/flags/flag/")
    switch = page.get_by_role("switch", name="button in Production")
    switch.press("Enter")
    question = page.get_by_role("heading", name="Switch off button?")
    expect(question).to_be_visible()
    expect(page.get_by_text("The experiment e drives the flag button in Production.")).to_be_visible()
    page.get_by_label("Reason").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("You cancelled, so nothing was changed.")).to_be_visible()
    expect(switch).to_have_attribute("aria-checked", "true")
    assert stored("button").enabled is True

    switch.press("Enter")
    page.get_by_label("Reason").fill("It harms")
    page.get_by_label("Reason").press("Enter")
    expect(page.get_by_text("button is now off in Production.")).to_be_visible()
    expect(switch).to_have_attribute("aria-checked", "false")
    assert stored("button").enabled is False
    assert Change.objects.latest("revision").reason == "It harms"

    page.get_by_role("link", name="button", exact=False).first.press("Enter")
    expect(page.get_by_text("measures nothing while the flag is off")).to_be_visible()
    page.get_by_role("link", name="e", exact=True).first.press("Enter")
    expect(page.get_by_text("has been off since").first).to_be_visible()


def test_form__of_a_driven_flag__keeps_its_edits_when_cancelled(visit: Visit, experiment: Experiment) -> None:
    page = visit.page
    visit.open(f"/admin/flags/flag/{stored('button').pk}/change/")
    page.fill("#id_description", "Two\nlines")
    page.get_by_label("Enabled").press("Space")
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    page.get_by_role("button", name="Cancel").press("Enter")
    expect(page.get_by_text("You cancelled, so nothing was changed.")).to_be_visible()
    expect(page.locator("#id_description")).to_have_value("Two\nlines")
    expect(page.get_by_label("Enabled")).not_to_be_checked()
    assert stored("button").enabled is True

    page.get_by_role("button", name="Save", exact=True).press("Enter")
    page.get_by_role("button", name="Switch off").press("Enter")
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    flag = stored("button")
    assert (flag.enabled, flag.description) == (False, "Two\nlines")
    assert [rule["type"] for rule in flag.rules] == ["experiment", "percentage"]


@BOTH
def test_ship__onto_a_flag_that_is_off__asks_whether_to_switch_it_on(visit: Visit, experiment: Experiment) -> None:
    page, production = visit.page, Environment.objects.get(key="production")
    record_clear_winner(production)
    changes = {"enabled": False}
    update_flag(key="button", environment=production, changes=changes, actor=ACTOR, now=timezone.now())
    visit.open(f"/admin/experiments/experiment/{experiment.pk}/ship/")
    expect(page.get_by_role("status").filter(has_text="The flag button has been off since")).to_be_visible()
    page.get_by_role("textbox", name="Reason").fill("Seen enough")
    page.get_by_role("button", name="Ship the winner").press("Enter")
    expect(page.get_by_role("alert")).to_have_text("Choose whether to switch the flag on.")
    page.get_by_role("radio", name="Switch it on").press("Space")
    page.get_by_role("button", name="Ship the winner").press("Enter")
    expect(page.get_by_text("green is shipped to")).to_be_visible()
    assert stored("button").enabled is True


def test_ship__onto_a_flag_that_is_off__requires_a_reason_if_switching_it_on_affects_others(visit: Visit) -> None:
    page, production, now = visit.page, Environment.objects.get(key="production"), timezone.now()
    pro = {"attribute": "plan", "operator": "equals", "value": "pro"}
    experiment = run_experiment(production, conditions=[pro])
    record_clear_winner(production)
    update_flag(key="button", environment=production, changes={"enabled": False}, actor=ACTOR, now=now)
    store(production, *(seen(f"user-{number}", now, plan="free") for number in range(60)), now=now)
    visit.open(f"/admin/experiments/experiment/{experiment.pk}/ship/")
    expect(page.locator("input[value=green]")).to_be_checked()
    needed = page.get_by_text("there are objections against this choice")
    expect(needed).to_be_hidden()
    page.get_by_role("radio", name="Switch it on").check()
    expect(needed).to_be_visible()
    page.get_by_role("radio", name="Leave it off").check()
    expect(needed).to_be_hidden()
