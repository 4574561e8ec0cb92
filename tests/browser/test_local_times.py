"""Times in a browser of another time zone: the reader's own is added to elements, sentences and tooltips."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from experiments.metrics.changes import create_metric
from tests.browser.conftest import Visit
from tests.conftest import ACTOR, NOON
from tests.factories import EventFactory

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def page_in(visit: Visit) -> Iterator[Callable[[str], Page]]:
    """Make a page of a reader in a time zone, who is signed in."""
    contexts = []

    def make(zone: str) -> Page:
        context = visit.page.context
        assert context.browser
        contexts.append(context.browser.new_context(timezone_id=zone, storage_state=context.storage_state()))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: visit.errors.append(str(error)))
        return page

    yield make
    for context in contexts:
        context.close()


def test_times__of_another_zone__are_beside_those_of_the_page(visit: Visit, page_in: Callable[[str], Page]) -> None:
    EventFactory(timestamp=datetime(2026, 1, 31, 20, 15, tzinfo=UTC))
    page = page_in("Asia/Kolkata")
    page.goto(visit.root + "/admin/events/event/")
    time = page.locator("#result_list time").first
    expect(time).to_have_text("31 Jan 2026, 20:15 1 Feb, 01:45 GMT+5:30")
    title = time.get_attribute("title") or ""
    assert title.splitlines() == ["2026-01-31T20:15:00.000000Z", "1 Feb 2026, 01:45:00 GMT+5:30 (Asia/Calcutta)"]
    expect(time.locator(".hy-local")).to_have_text("1 Feb, 01:45 GMT+5:30")
    same = page_in("UTC")
    same.goto(visit.root + "/admin/events/event/")
    expect(same.locator("#result_list time").first).to_have_text("31 Jan 2026, 20:15")


def test_times__in_sentences_tooltips_and_later_rows__have_it_too(visit: Visit, page_in: Callable[[str], Page]) -> None:
    create_metric(key="m", type="count", event="buy", actor=ACTOR, at=NOON)
    now = timezone.now().replace(minute=0, second=0, microsecond=0)
    for hour in range(24, 124):
        EventFactory(name="buy", timestamp=now - timedelta(hours=hour))
    since = now - timedelta(hours=24) + timedelta(minutes=15)
    page = page_in("Asia/Tokyo")
    page.goto(visit.root + "/admin/experiments/metric/")
    there = since + timedelta(hours=9)
    local = f"{there:%H:%M} GMT+9" if there.date() == since.date() else f"{there:%-d %b, %H:%M} GMT+9"
    warning = page.locator("#result_list .hy-error")
    expect(warning).to_contain_text(f"has received none since {since:%-d %b %Y, %H:%M} UTC {local}. Before that,")
    assert warning.locator("time").get_attribute("datetime") == f"{since:%Y-%m-%dT%H:%M:%S}.000Z"
    page.goto(visit.root + "/admin/events/event/")
    assert " UTC (" in (page.locator(".hy-hours title").first.text_content() or "")
    with page.expect_response("**/tail/**"):
        page.get_by_role("button", name="Follow live").click()
    EventFactory(name="new", timestamp=timezone.now())
    expect(page.locator(".hy-tail time .hy-local")).to_contain_text("GMT+9")
