"""Lists on a telephone: a row is a card with the few things that matter, and no page scrolls sideways."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone
from playwright.sync_api import expect

from config.keys.api_keys import create_key
from config.models import Environment, Scope
from config.webhooks.changes import create_webhook
from config.webhooks.outbox import queue_test
from flags.kill_switches.changes import create_kill_switch
from flags.models import Usage, hour_of
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
    create_key(name="shop", scope=Scope.SERVER, environment=production, actor=ACTOR, at=NOON)
    create_kill_switch(name="pager", environment=production, flags=["new-checkout"], actor=ACTOR, at=NOON)
    webhook, _ = create_webhook(name="chat", url="https://hooks.example.com", actor=ACTOR, at=NOON)
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


TOO_WIDE = "[...document.querySelectorAll('.hy-usage *')].filter((part) => part.scrollWidth > part.clientWidth + 1)"


def test_usage_of_a_flag__on_a_telephone__stays_in_its_card(visit: Visit) -> None:
    flag, hour = flag_in_production(), hour_of(timezone.now())
    production = Environment.objects.get(key="production")
    Usage.objects.create(environment=production, flag_key=flag.key, outcome="on", hour=hour, count=1_234_567)
    visit.page.set_viewport_size({"width": WIDTH, "height": 844})
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    expect(visit.page.get_by_text("Last evaluated in the hour from")).to_be_visible()
    assert visit.page.evaluate(f"{TOO_WIDE}.filter((part) => part.matches('p')).map((part) => part.innerText)") == []
