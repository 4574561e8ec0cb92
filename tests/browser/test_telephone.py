"""Lists on a telephone: a row is a card with the few things that matter, and no page scrolls sideways."""

from __future__ import annotations

import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone
from playwright.sync_api import expect

from config.access.api_keys import create_key
from config.access.environments import create_environment
from config.models import Environment, Scope
from config.slugs import KEY_LENGTH
from config.webhooks.outbox import queue_test
from config.webhooks.writes import create_webhook
from flags.changes.flag_changes import archive_flag
from flags.changes.kill_switches import create_kill_switch
from flags.models import Flag, Usage, hour_of
from tests.browser.accessibility import complaints
from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production
from tests.conftest import ACTOR, NOON

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

WIDTH, HIGHEST_CARD = 390, 120
LISTS = {
    "experiments/experiment": (["delivery-date", "running", "hidden 50\N{NO-BREAK SPACE}%"], ["Metrics"]),
    "experiments/metric": (["came-back", "goal", "1 experiment"], ["version"]),
    "flags/segment": (["colleagues", "email ends with @shop.example"], ["Updated"]),
    "flags/killswitch": (["pager", "new-checkout", "live"], ["Starts with"]),
    "events/event": (["user-", "platform"], []),
    "config/apikey": (["shop", "live", "never"], ["Created"]),
    "config/change": (["segment", "Created the", "operator"], ["Source"]),
    "config/webhook": (["chat", "hooks.example.com"], ["Format"]),
    "config/delivery": (["chat"], []),
    "config/environment": (["Production", "asks first"], ["Created"]),
    "auth/user": (["ada"], ["staff status"]),
}
"""What the cards of each list show, and the columns that they leave out."""


def test_lists__on_a_telephone__are_cards_of_a_few_lines(visit: Visit) -> None:
    call_command("demo", "--users", "50", "--events", "400", stdout=StringIO())
    production = Environment.objects.get(key="production")
    create_key(name="shop", scope=Scope.SERVER, environment=production, actor=ACTOR, now=NOON)
    create_kill_switch(name="pager", environment=production, flags=["new-checkout"], actor=ACTOR, now=NOON)
    webhook, _ = create_webhook(name="chat", url="https://hooks.example.com", actor=ACTOR, now=NOON)
    queue_test(webhook, NOON)
    visit.page.set_viewport_size({"width": WIDTH, "height": 844})
    for address, (shown, hidden) in LISTS.items():
        visit.open(f"/admin/{address}/")
        rows = visit.page.locator("#result_list tbody .data-row")
        expect(rows.first).to_be_visible()
        heights = [box["height"] for row in rows.all() if (box := row.bounding_box())]
        assert max(heights) <= HIGHEST_CARD, address
        assert visit.page.evaluate("document.documentElement.scrollWidth") == WIDTH, address
        text = visit.page.locator("#result_list").inner_text().casefold()
        assert [words for words in shown if words.casefold() not in text] == [], address
        for label in hidden:
            expect(rows.first.locator(f'[data-label="{label}"]')).to_be_hidden()


@pytest.fixture
def environments() -> None:
    """More of them than a row has room for, one with a long name."""
    for key in ("development", "quality", "preview", "an-environment-of-customers-in-asia-and-oceania"):
        create_environment(key=key, name=key.title(), actor=ACTOR, now=NOON)


def test_lists__with_many_environments__fit_a_telephone(visit: Visit, environments: None) -> None:
    rules = [{"type": "users", "userIds": ["ada", "bob"]}]
    flag_in_production(description="A long description of the flag. " * 6, enabled=True, rules=rules)
    visit.page.set_viewport_size({"width": WIDTH, "height": 844})
    for address in ("flags/flag", "config/change", "config/apikey", "config/webhook"):
        visit.open(f"/admin/{address}/")
        assert visit.page.evaluate("document.documentElement.scrollWidth") == WIDTH, address
    visit.open("/admin/flags/flag/")
    row = visit.page.locator("#result_list .data-row").bounding_box()
    assert row
    assert row["height"] <= 90
    expect(visit.page.get_by_role("switch")).to_have_count(1)


LONGEST_KEYS = ["k" * KEY_LENGTH, f"{'team-of-payments.' * 5}checkout"]


@pytest.mark.parametrize("number", [2, 3, 6])
def test_flags__with_the_longest_keys_and_every_badge__take_as_little_room(visit: Visit, number: int) -> None:
    for extra in range(2, number):
        create_environment(key=f"extra-{extra}", name=f"Extra {extra}", actor=ACTOR, now=NOON)
    long_ago = timezone.now() - timedelta(days=40)
    rules = [{"type": "users", "userIds": [f"user-{'u' * 40}-{place}" for place in range(3)]}] * 3
    for key in LONGEST_KEYS:
        for is_archived in (False, True):
            about: Any = {"description": "A long description of the flag. " * 6, "tags": ["a-tag", "another-tag"]}
            about |= {"expires_at": long_ago, "owner": "ada@shop.example", "rules": rules}
            name = f"{key[:-1]}-" if is_archived else key
            flag_in_production(key=name, enabled=not is_archived, **about)
            if is_archived:
                archive_flag(key=name, environment=Environment.objects.get(key="production"), actor=ACTOR, now=NOON)
    Flag.objects.update(created_at=long_ago)
    visit.page.set_viewport_size({"width": WIDTH, "height": 844})
    for shelf, badges in (("", ["expired", "not evaluated"]), ("?shelf=archived", ["archived"])):
        visit.open(f"/admin/flags/flag/{shelf}")
        rows = visit.page.locator("#result_list .data-row")
        expect(rows).to_have_count(2)
        for row in rows.all():
            assert row.evaluate("row => row.getBoundingClientRect().height") <= 90, row.inner_text()
            expect(row.locator("th .hy-state")).to_have_text(badges)
            for badge in row.locator("th .hy-state").all():
                expect(badge).to_be_in_viewport(ratio=1)
            key = row.locator(".hy-key")
            assert key.evaluate("key => key.clientWidth > 80 && key.scrollWidth > key.clientWidth")
            assert key.get_attribute("title") == (key.text_content() or "").strip()
        assert visit.page.evaluate("document.documentElement.scrollWidth") == WIDTH
    visit.open("/admin/flags/flag/")
    for key in LONGEST_KEYS:
        visit.page.get_by_role("link", name=re.compile(f"^{re.escape(key)} expired")).click()
        expect(visit.page.locator("#content").get_by_text(key, exact=True).first).to_be_visible()
        visit.page.go_back()


def test_users__in_the_words_of_a_flag__are_links_that_tab_reaches(visit: Visit) -> None:
    rules = [{"type": "users", "userIds": [f"user-{'u' * 40}-{place}" for place in range(3)]}] * 2
    flag_in_production(enabled=True, rules=rules)
    page = visit.page
    cell = page.locator(".field-switch_here")
    links, words, opener = cell.get_by_role("link"), cell.locator("> small"), cell.locator("summary")
    is_cut = "words => words.scrollHeight > words.clientHeight + 1"
    for width in (WIDTH, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        visit.open("/admin/flags/flag/")
        expect(opener).to_have_accessible_name("The users of new-checkout: more")
        assert words.evaluate(is_cut)
        page.get_by_role("switch", name="new-checkout in Production").focus()
        for place in range(6):
            page.keyboard.press("Tab")
            expect(links.nth(place)).to_be_focused()
            assert not words.evaluate(is_cut)  # so what has the focus is seen
        page.keyboard.press("Tab")
        expect(opener).to_be_focused()
        assert words.evaluate(is_cut)
        page.keyboard.press("Enter")
        expect(opener).to_have_accessible_name("The users of new-checkout: less")
        assert not words.evaluate(is_cut)
        assert complaints(page) == []
    links.first.click()
    expect(page.get_by_role("heading", name=f"user-{'u' * 40}-0")).to_be_visible()


def test_flags__with_many_environments__stay_beside_the_last_switch(visit: Visit, environments: None) -> None:
    flag_in_production()
    visit.page.set_viewport_size({"width": 1280, "height": 844})
    visit.open("/admin/flags/flag/")
    visit.page.get_by_role("switch", name="new-checkout in Staging").scroll_into_view_if_needed()
    name = visit.page.locator("#result_list").get_by_role("link", name="new-checkout")
    expect(name).to_be_in_viewport(ratio=1)
    assert name.evaluate(
        "link => { const box = link.getBoundingClientRect();"
        " return link.contains(document.elementFromPoint(box.left + 5, box.top + box.height / 2)); }"
    )


TOO_WIDE = "[...document.querySelectorAll('.hy-usage *')].filter((part) => part.scrollWidth > part.clientWidth + 1)"


def test_usage_of_a_flag__on_a_telephone__stays_in_its_card(visit: Visit) -> None:
    flag, hour = flag_in_production(), hour_of(timezone.now())
    production = Environment.objects.get(key="production")
    Usage.objects.create(environment=production, flag_key=flag.key, outcome="on", hour=hour, count=1_234_567)
    visit.page.set_viewport_size({"width": WIDTH, "height": 844})
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    expect(visit.page.get_by_text("Last evaluated in the hour from")).to_be_visible()
    assert visit.page.evaluate(f"{TOO_WIDE}.filter((part) => part.matches('p')).map((part) => part.innerText)") == []
