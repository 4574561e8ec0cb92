"""The page of one user in a real browser, by keyboard and with edited attributes."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from config.models import Environment
from experiments.exposures.recording import assign
from experiments.lifecycle.changes import get_experiment
from tests.browser.conftest import Visit
from tests.conftest import NOON
from tests.factories import EventFactory, ExperimentFactory, FlagFactory

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

GERMANS = {"type": "attribute", "conditions": [{"attribute": "country", "operator": "equals", "value": "DE"}]}


def test_user__found_by_keyboard__shows_flags_for_other_attributes_too(visit: Visit) -> None:
    page = visit.page
    FlagFactory(key="for-germany", enabled=True, rules=[GERMANS])
    assign(ExperimentFactory(key="e", running=True).pk, "a/b ü", "green", NOON, {"country": "FR"})
    EventFactory(user_id="a/b ü", name="bought")
    visit.open("/admin/")
    page.get_by_role("link", name="Find a user").press("Enter")
    page.get_by_label("User ID").fill("a/b ü")
    page.keyboard.press("Enter")
    flag = page.get_by_role("listitem").filter(has_text="for-germany")
    expect(flag).to_contain_text("Off")
    expect(page.get_by_text("Counts for green")).to_be_visible()
    page.get_by_label("Value", exact=True).first.fill("DE")
    page.get_by_role("button", name="Evaluate").press("Enter")
    expect(flag).to_contain_text("On")
    page.get_by_role("button", name="Every step of for-germany").press("Enter")
    expect(flag).to_contain_text('country is "DE"')
    expect(page.get_by_text("These are yours, for this look only.")).to_be_visible()


def test_user__in_the_list_of_events__is_one_click_away_and_can_be_forced_and_erased(visit: Visit) -> None:
    page = visit.page
    ExperimentFactory(key="e", running=True)
    EventFactory(user_id="a?b#c", name="bought")
    visit.open("/admin/events/event/")
    page.get_by_role("link", name="a?b#c").click()
    page.get_by_label("Force a variant for this user").select_option("e:green")
    page.get_by_role("button", name="Force", exact=True).click()
    expect(page.get_by_text("a?b#c sees green in e from now on")).to_be_visible()
    forced = get_experiment("e", Environment.objects.get(key="production")).forced_variants
    assert forced == {"a?b#c": "green"}
    page.get_by_role("button", name="Stop forcing green in e").click()
    expect(page.get_by_text("No variant is forced for a?b#c in e any more.")).to_be_visible()
    page.get_by_role("link", name="Erase").click()
    expect(page.get_by_role("heading", name="Erase a?b#c from Production?")).to_be_visible()
    page.get_by_role("button", name="Erase the user").click()
    expect(page.get_by_text("1 event and 0 exposures are deleted")).to_be_visible()
    expect(page.get_by_text("There are no events of this user in Production.")).to_be_visible()
