"""Times in a browser of another time zone: the reader's own is added to elements, sentences and tooltips."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from experiments.metrics.changes import create_metric
from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production
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
    assert title.splitlines() == ["31 Jan 2026, 20:15:00 UTC", "1 Feb 2026, 01:45:00 GMT+5:30 (Asia/Calcutta)"]
    expect(time.locator(".hy-local")).to_have_text("1 Feb, 01:45 GMT+5:30")
    same = page_in("UTC")
    same.goto(visit.root + "/admin/events/event/")
    expect(same.locator("#result_list time").first).to_have_text("31 Jan 2026, 20:15")


def test_times__in_sentences_tooltips_and_later_rows__have_it_too(visit: Visit, page_in: Callable[[str], Page]) -> None:
    create_metric(key="m", type="count", event="buy", actor=ACTOR, now=NOON)
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


def midnight_in(days: int) -> datetime:
    return timezone.now().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=days)


def test_times__in_the_words_of_rules__have_it_too(visit: Visit, page_in: Callable[[str], Page]) -> None:
    soon, later, last = midnight_in(2) + timedelta(hours=20, minutes=22), midnight_in(4), midnight_in(30)
    steps = [(soon, 50), (later, 70), (last, 100)]
    ramp = [{"at": f"{at:%Y-%m-%dT%H:%M:%SZ}", "percentage": share} for at, share in steps]
    starting = {"type": "percentage", "percentage": 5, "startAt": ramp[2]["at"]}
    flag_in_production(enabled=True, rules=[{"type": "percentage", "percentage": 30, "ramp": ramp}])
    flag_in_production(key="later", enabled=True, rules=[starting])
    page = page_in("Asia/Tokyo")
    page.goto(visit.root + "/admin/flags/flag/")
    next_day = f"{soon + timedelta(days=1):%A}"
    words = page.locator("#result_list").get_by_text("30 % now").first
    expect(words).to_contain_text(f"50 % from {soon:%A} at 20:22 UTC {next_day}, 05:22 GMT+9,")
    expect(words).to_contain_text(f"70 % from {later:%A} 09:00 GMT+9, 100 % from {last:%-d %b %Y} 09:00 GMT+9")
    starts = page.locator("#result_list").get_by_text("5 % of everyone from").first
    expect(starts).to_have_text(f"5 % of everyone from {last:%-d %b %Y} 09:00 GMT+9")
    west = page_in("America/New_York")
    west.goto(visit.root + "/admin/flags/flag/")
    expect(west.get_by_text("30 % now").first).to_contain_text(
        re.compile(rf"70\s% from {later:%A} {later - timedelta(days=1):%A}, (19|20):00")
    )


def test_inputs__have_the_local_time_beside_them(visit: Visit, page_in: Callable[[str], Page]) -> None:
    expiry = datetime(2027, 1, 31, 20, 15, tzinfo=UTC)
    ends = {"type": "percentage", "percentage": 5, "endAt": "2027-02-01T10:00:00Z"}
    flag = flag_in_production(expires_at=expiry, rules=[ends])
    page = page_in("Asia/Tokyo")
    page.goto(f"{visit.root}/admin/flags/flag/{flag.pk}/change/")
    page.locator("summary", has_text="About").click()
    beside = page.locator("input[name=expires_at] + .hy-local")
    expect(beside).to_have_text("1 Feb, 05:15 GMT+9")
    page.locator("input[name=expires_at]").fill("2027-01-31T10:30")
    expect(beside).to_have_text("19:30 GMT+9")
    page.locator("input[name=expires_at]").fill("")
    expect(beside).to_be_hidden()
    page.locator(".hy-more > summary").click()
    expect(page.get_by_text("UTC", exact=True).last.locator("+ .hy-local")).to_have_text("19:00 GMT+9")


def test_inputs__with_a_fraction_of_a_second__have_it_too(visit: Visit, page_in: Callable[[str], Page]) -> None:
    ends = {
        "type": "percentage",
        "percentage": 5,
        "endAt": "2027-02-01T10:00:00.25Z",
        "startAt": "2027-01-01T10:00:00.000001Z",
    }
    milli, micro = (datetime(2027, 1, 31, 20, 15, 0, fraction, tzinfo=UTC) for fraction in (250_000, 1))
    flag, finer = flag_in_production(expires_at=milli, rules=[ends]), flag_in_production(key="finer", expires_at=micro)
    page = page_in("Asia/Tokyo")
    page.goto(f"{visit.root}/admin/flags/flag/{flag.pk}/change/")
    page.locator("summary", has_text="About").click()
    expiry = page.locator("input[name=expires_at]")
    expect(expiry).to_have_attribute("type", "datetime-local")
    expect(expiry).to_have_value("2027-01-31T20:15:00.25")
    expect(page.locator("input[name=expires_at] + .hy-local")).to_have_text("1 Feb, 05:15 GMT+9")
    page.locator(".hy-more > summary").click()
    beside = page.get_by_text("UTC", exact=True)
    expect(page.get_by_label("Ends")).to_have_value("2027-02-01T10:00:00.25")
    expect(page.get_by_label("Starts")).to_have_value("2027-01-01T10:00:00.000001Z")
    expect(beside.nth(0).locator("+ .hy-local")).to_have_text("19:00 GMT+9")
    expect(beside.nth(1).locator("+ .hy-local")).to_have_text("19:00 GMT+9")
    page.goto(f"{visit.root}/admin/flags/flag/{finer.pk}/change/")
    page.locator("summary", has_text="About").click()
    expect(expiry).to_have_value("2027-01-31 20:15:00.000001")
    expect(page.locator("input[name=expires_at] + .hy-local")).to_have_text("1 Feb, 05:15 GMT+9")


def test_days_of_the_events_list__say_when_they_begin_and_end_for_the_reader(
    visit: Visit, page_in: Callable[[str], Page]
) -> None:
    page = page_in("Asia/Tokyo")
    page.goto(visit.root + "/admin/events/event/?from=2026-01-30&to=2026-01-31")
    first, last = page.get_by_label("From, UTC"), page.get_by_label("To, UTC")
    expect(page.locator("label", has=first).locator(".hy-local")).to_have_text("from 09:00 GMT+9")
    expect(page.locator("label", has=last).locator(".hy-local")).to_have_text("until 1 Feb, 09:00 GMT+9")
    first.fill("")
    expect(page.locator("label", has=first).locator(".hy-local")).to_be_hidden()
    page.goto(visit.root + "/admin/events/event/?from=2026-01-30T20:00:00Z")
    expect(page.locator("label", has=first).locator(".hy-local")).to_have_text("31 Jan, 05:00 GMT+9")
    same = page_in("UTC")
    same.goto(visit.root + "/admin/events/event/?from=2026-01-30&to=2026-01-31")
    expect(same.locator(".hy-search .hy-local").first).to_be_hidden()
