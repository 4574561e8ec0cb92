"""Two people who edit one flag: the second one sees both versions side by side, in a real browser."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from config.models import Environment
from flags.changes.flag_changes import update_flag
from tests.browser.accessibility import complaints
from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production, stored
from tests.conftest import ACTOR

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]
BOTH = pytest.mark.parametrize("visit", [True, False], indirect=True, ids=["script", "no script"])


def edit_with_somebody(visit: Visit) -> None:
    """Save a form of a flag that somebody else has saved since it was opened."""
    page, flag = visit.page, flag_in_production(rules=[{"type": "percentage", "percentage": 25}])
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    production = Environment.objects.get(key="production")
    theirs = {"description": "Theirs", "rules": [{"type": "percentage", "percentage": 50}]}
    update_flag(key=flag.key, environment=production, changes=theirs, actor=ACTOR, now=timezone.now())
    page.fill("#id_description", "Mine")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="Two versions of new-checkout")).to_be_visible()
    expect(page.get_by_role("row", name="description")).to_contain_text("TheirsMine")
    expect(page.get_by_role("row", name="rule 1, percentage")).to_contain_text("50 %25 %")
    expect(page.locator("#id_description")).to_have_value("Mine")
    expect(page.get_by_text("Please correct")).to_have_count(0)


@BOTH
def test_conflict__mine_is_chosen__replaces_theirs(visit: Visit) -> None:
    edit_with_somebody(visit)
    visit.page.get_by_role("button", name="Save mine over theirs").click()
    expect(visit.page.get_by_text("was changed successfully")).to_be_visible()
    assert (stored().description, stored().rules[0]["percentage"]) == ("Mine", 25)


@BOTH
def test_conflict__theirs_is_taken__shows_the_form_with_theirs(visit: Visit) -> None:
    edit_with_somebody(visit)
    visit.page.get_by_role("link", name="Take theirs").click()
    expect(visit.page.locator("#id_description")).to_have_value("Theirs")
    expect(visit.page.get_by_role("heading", name="Two versions")).to_have_count(0)
    assert stored().description == "Theirs"


def test_conflict__at_any_width__is_accessible(visit: Visit) -> None:
    page = visit.page
    edit_with_somebody(visit)
    assert complaints(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
