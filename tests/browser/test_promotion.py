"""Flags taken from one environment to another, in a real browser."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from config.access.environments import create_environment
from config.models import Change, Environment
from flags.changes.flag_changes import update_flag
from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production, stored
from tests.conftest import ACTOR

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("visit", [True, False], indirect=True, ids=["script", "no script"])
def test_flag__promoted_from_its_page__is_as_it_was_seen(visit: Visit) -> None:
    page = visit.page
    flag_in_production()
    change = {"enabled": True, "rules": [{"type": "percentage", "percentage": 25}]}
    staging = Environment.objects.get(key="staging")
    update_flag(key="new-checkout", environment=staging, changes=change, actor=ACTOR, now=timezone.now())
    create_environment(key="trial", name="Trial", actor=ACTOR, now=timezone.now())
    visit.open("/admin/flags/flag/")
    page.get_by_role("link", name="new-checkout").click()
    page.get_by_role("link", name="Promote").click()
    expect(page.get_by_text("Choose from where to where.")).to_be_visible()
    page.get_by_role("button", name="Trial to Production").click()
    expect(page.get_by_text("Nothing would change")).to_be_visible()
    page.get_by_role("button", name="Staging to Production").click()
    expect(page.get_by_role("heading", name="Promote new-checkout from Staging to Production")).to_be_visible()
    expect(page.get_by_text("25 % of everyone").first).to_be_visible()
    page.get_by_label("Reason").fill("Tested by all of us")
    page.get_by_label("Reason").press("Enter")
    expect(page.get_by_text("new-checkout is promoted from Staging to Production.")).to_be_visible()
    assert (stored().enabled, stored().rules) == (True, change["rules"])
    assert Change.objects.latest("revision").reason == "Tested by all of us"
