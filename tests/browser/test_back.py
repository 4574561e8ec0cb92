"""Back from a question to a form, in a real browser: the editors show what was typed there, and not what is stored."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from config.models import Environment
from flags.changes.segment_changes import create_segment, get_segment
from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production, stored
from tests.conftest import ACTOR, NOON
from tests.flags.usage.users import seen, store

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

RULES = [{"type": "users", "userIds": ["ada"]}, {"type": "percentage", "percentage": 30}]
PREREQUISITES = [{"flag": "first"}, {"flag": "second"}]
LONG = [f"user-{number}" for number in range(3_000)]


@pytest.fixture
def page(visit: Visit) -> Page:
    production, now = Environment.objects.get(key="production"), timezone.now()
    store(production, *(seen(f"user-{number}", now) for number in range(40)), now=now)
    for key in ("first", "second"):
        flag_in_production(key=key, enabled=True)
    return visit.page


def save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).press("Enter")


def ask_and_go_back(page: Page) -> None:
    address = page.url
    save(page)
    expect(page.get_by_role("heading", name="Save this change")).to_be_visible()
    page.go_back()
    assert page.url == address


def confirm(page: Page) -> None:
    save(page)
    expect(page.get_by_role("heading", name="Save this change")).to_be_visible()
    save(page)
    expect(page.get_by_text("was changed successfully")).to_be_visible()


def rule_percentage(page: Page, number: int) -> Any:
    return page.get_by_label(f"rule {number}", exact=True).get_by_label("Percentage", exact=True)


def test_rules__edited_before_the_question__are_in_the_editor_after_back(visit: Visit, page: Page) -> None:
    flag = flag_in_production(rules=RULES, prerequisites=PREREQUISITES, enabled=True)
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    page.fill("#id_description", "Mine")
    rule_percentage(page, 2).fill("3")
    page.get_by_role("button", name="Add rule").press("Enter")
    rule_percentage(page, 3).fill("4")
    ask_and_go_back(page)
    expect(page.locator("#id_description")).to_have_value("Mine")
    expect(rule_percentage(page, 2)).to_have_value("3")
    expect(rule_percentage(page, 3)).to_have_value("4")
    expect(page.get_by_label("Who").nth(1)).to_have_value("percentage")
    prerequisites = page.locator("[data-editor-of=prerequisites]").get_by_label("Flag", exact=True)
    assert [chosen.input_value() for chosen in prerequisites.all()] == ["first", "second"]
    rule_percentage(page, 2).fill("5")
    confirm(page)
    assert [rule.get("percentage") for rule in stored().rules] == [None, 5, 4]
    assert stored().prerequisites == PREREQUISITES


def test_users_of_a_long_segment__edited_before_the_question__are_listed_after_back(visit: Visit, page: Page) -> None:
    segment = create_segment(key="testers", user_ids=LONG, actor=ACTOR, now=NOON)
    flag_in_production(rules=[{"type": "segment", "segment": "testers"}], enabled=True)
    visit.open(f"/admin/flags/segment/{segment.pk}/change/")
    page.get_by_label("Ids to remove").fill("user-0")
    page.get_by_label("Ids to add").fill("new, newer")
    ask_and_go_back(page)
    expect(page.get_by_text("3,000 users are listed", exact=True)).to_be_visible()
    page.get_by_role("button", name="Split into 2 values").click()
    expect(page.get_by_text("3,001 users are listed", exact=True)).to_be_visible()
    confirm(page)
    assert get_segment("testers").user_ids == [*LONG[1:], "new", "newer"]


def test_users_of_a_segment__pasted_before_the_question__have_the_notice_after_back(visit: Visit, page: Page) -> None:
    segment = create_segment(key="testers", user_ids=["user-0", "user-1"], actor=ACTOR, now=NOON)
    flag_in_production(rules=[{"type": "segment", "segment": "testers"}], enabled=True)
    visit.open(f"/admin/flags/segment/{segment.pk}/change/")
    page.fill("#id_user_ids", "user-1\nnew, newer")
    ask_and_go_back(page)
    expect(page.locator("#id_user_ids")).to_have_value("user-1\nnew, newer")
    expect(page.get_by_text("“new, newer” counts as one value.")).to_be_visible()
    expect(page.locator("main a.hy-user")).to_have_text(["user-1", "new, newer"])
