"""Ids and values that a plain line cannot show, in a real browser: no form tears them apart."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import Locator, Page, expect

from experiments.models import Experiment
from flags.changes.segment_changes import create_segment, get_segment
from flags.models import Segment
from tests.browser.accessibility import complaints
from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production, stored
from tests.browser.test_kept_input import BOTH, sign_in_again
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory
from tests.hostile_lines import HOSTILE, PLAIN, QUOTED

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

IDS = ["new\nline", "b", " padded ", "a\r\nb\r", '"new\\nline"', '"quoted"', "comma,\nbreak"]
LINES = [r'"new\nline"', "b", " padded ", r'"a\r\nb\r"', r'"\"new\\nline\""', '"quoted"', r'"comma,\nbreak"']


def segment(*more: str, **fields: Any) -> Segment:
    return create_segment(**{"key": "few", "user_ids": [*IDS, *more], "actor": ACTOR, "now": NOON, **fields})


def notice(page: Page) -> Locator:
    return page.locator(".hy-joined:not(:empty)")


def save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.get_by_text("was changed successfully")).to_be_visible()


def test_script__any_value__reads_and_writes_lines_as_the_server_does(visit: Visit) -> None:
    visit.open("/admin/flags/segment/add/")
    script = """async (values) => {
        const name = document.querySelector("script[src*='user_ids']").src.replace("flags/user_ids", "config/lines");
        const { fromLine, toLine } = await import(name);
        return values.map((value) => [toLine(value), fromLine(value), fromLine(toLine(value))]);
    }"""
    shown = visit.page.evaluate(
        script, [*PLAIN, *(value for _, value in QUOTED), *(line for line, _ in QUOTED), *HOSTILE]
    )
    assert [line for line, _, _ in shown[: len(PLAIN)]] == PLAIN
    assert [value for _, value, _ in shown[: len(PLAIN)]] == PLAIN
    quoted = shown[len(PLAIN) : len(PLAIN) + len(QUOTED)]
    assert [line for line, _, _ in quoted] == [line for line, _ in QUOTED]
    lines = shown[len(PLAIN) + len(QUOTED) : len(PLAIN) + 2 * len(QUOTED)]
    assert [value for _, value, _ in lines] == [value for _, value in QUOTED]
    assert [again for _, _, again in shown[-len(HOSTILE) :]] == HOSTILE


@BOTH
def test_segment__with_another_description__keeps_its_ids(visit: Visit) -> None:
    page = visit.page
    visit.open(f"/admin/flags/segment/{segment().pk}/change/")
    expect(page.locator("#id_user_ids")).to_have_value("\n".join(LINES))
    page.fill("#id_description", "Other")
    save(page)
    assert get_segment("few").description == "Other"
    assert get_segment("few").user_ids == IDS


def test_segment__edited__says_why_ids_have_quotes_and_keeps_them(visit: Visit) -> None:
    page = visit.page
    visit.open(f"/admin/flags/segment/{segment().pk}/change/")
    words = "and 3 other lines are in double quotes, because a plain line cannot show these values."
    expect(notice(page).get_by_text(words)).to_be_visible()
    expect(page.get_by_role("button", name="Split")).to_have_count(0)
    expect(page.locator("main a.hy-user").first).to_have_text(LINES[0])
    assert str(page.locator("main a.hy-user").first.get_attribute("href")).endswith("/user/?id=new%0Aline")
    assert complaints(page) == []
    page.fill("#id_user_ids", "\n".join([*LINES[1:], "", "c"]))
    save(page)
    assert get_segment("few").user_ids == [*IDS[1:], "c"]


@BOTH
def test_segment__session_ended_or_refused__keeps_its_ids(visit: Visit) -> None:
    page = visit.page
    visit.open(f"/admin/flags/segment/{segment().pk}/change/")
    page.fill("#id_user_ids", "\n".join([*LINES, "c"]))
    page.fill("#id_description", "d" * 2001)
    Session.objects.all().delete()
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    sign_in_again(page)
    expect(page.locator("#id_user_ids")).to_have_value("\n".join([*LINES, "c"]))
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.get_by_text("Must be at most 2000 characters.").first).to_be_visible()
    expect(page.locator("#id_user_ids")).to_have_value("\n".join([*LINES, "c"]))
    page.fill("#id_description", "Short")
    save(page)
    assert get_segment("few").user_ids == [*IDS, "c"]


def test_segment__of_very_many__keeps_adds_and_removes_such_ids(visit: Visit) -> None:
    page, many = visit.page, [f"user-{number}" for number in range(3_000)]
    visit.open(f"/admin/flags/segment/{segment(*many).pk}/change/")
    page.get_by_label("Ids to add").fill(r'"one\nmore"')
    page.get_by_label("Ids to remove").fill(r'"new\nline"')
    page.locator("#id_description").focus()
    expect(page.get_by_text("3,007 users are listed · 1 to add · 1 to remove")).to_be_visible()
    save(page)
    assert get_segment("few").user_ids == [*IDS[1:], *many, "one\nmore"]


def test_rule__with_another_id__keeps_those_with_line_breaks(visit: Visit) -> None:
    page, rule = visit.page, {"type": "users", "userIds": IDS}
    visit.open(f"/admin/flags/flag/{flag_in_production(rules=[rule]).pk}/change/")
    area = page.get_by_label("User ids, one a line")
    expect(area).to_have_value("\n".join(LINES))
    area.fill("\n".join([*LINES, "c", r'"one\nmore"']))
    save(page)
    assert stored().rules == [{**rule, "userIds": [*IDS, "c", "one\nmore"]}]


def test_condition__with_another_value__keeps_those_with_line_breaks_or_nothing_in_them(visit: Visit) -> None:
    page = visit.page
    listing = {"attribute": "city", "operator": "in", "value": [*IDS, "", "  "]}
    single = {"attribute": "city", "operator": "notEquals", "value": "new\nline"}
    visit.open(f"/admin/flags/segment/{segment(user_ids=[], conditions=[listing, single]).pk}/change/")
    area = page.get_by_label("Values, one a line")
    expect(area).to_have_value("\n".join([*LINES, '""', '"  "']))
    area.fill("\n".join([*LINES, '""', '"  "', "c"]))
    value = page.get_by_label("Value", exact=True)
    expect(value).to_have_value(r'"new\nline"')
    value.fill(r'"newer\nline"')
    save(page)
    assert get_segment("few").conditions == [
        {**listing, "value": [*IDS, "", "  ", "c"]},
        {**single, "value": "newer\nline"},
    ]


def test_tester__with_another_variant__keeps_an_id_with_a_line_break(visit: Visit) -> None:
    page = visit.page
    experiment = ExperimentFactory(forced_variants={"new\nline": "control", "b": "control"})
    visit.open(f"/admin/experiments/experiment/{experiment.pk}/change/")
    testers = page.locator(".hy-tester")
    expect(testers).to_have_count(2)
    # PostgreSQL orders the testers by the length of their ids.
    shown_ids = [each.get_by_label("User ID", exact=True).input_value() for each in testers.all()]
    assert sorted(shown_ids) == [r'"new\nline"', "b"]
    variants = [key for key in experiment.variant_keys if key != "control"]
    testers.nth(shown_ids.index(r'"new\nline"')).get_by_label("Variant").select_option(variants[0])
    shown = json.loads(page.locator('[name="forced_variants"]').input_value())
    assert shown == {"new\nline": variants[0], "b": "control"}
    assert Experiment.objects.get(pk=experiment.pk).forced_variants["new\nline"] == "control"
