"""The editor of rules in a real browser: everything that a rule can say, said without a word of JSON."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, expect

from config.change_log.writing import writing
from config.models import Environment
from flags.changes.experiment_rules import put_rule
from flags.changes.segment_changes import create_segment
from flags.engine.operators import OPERATORS
from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production, stored
from tests.conftest import ACTOR, NOON
from tests.flags.engine.experiments import COLOURS as SERVED_COLOURS
from tests.flags.engine.experiments import experiment_rule

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

COLOURS = [{"key": "blue", "value": "Buy now"}, {"key": "green", "value": "Order"}, {"key": "grey", "value": "Buy"}]
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}


def open_flag(visit: Visit, **fields: Any) -> None:
    visit.open(f"/admin/flags/flag/{flag_in_production(**fields).pk}/change/")


def save(visit: Visit) -> None:
    visit.page.get_by_role("button", name="Save", exact=True).click()
    expect(visit.page.get_by_text("was changed successfully")).to_be_visible()


def rule(visit: Visit, number: int) -> Locator:
    return visit.page.get_by_label(f"rule {number}", exact=True)


def test_conditions__of_every_kind__are_stored_as_they_look(visit: Visit) -> None:
    create_segment(key="testers", actor=ACTOR, now=NOON)
    open_flag(visit)
    wanted: list[dict[str, Any]] = [
        {"attribute": "email", "operator": "endsWith", "value": "@example.com", "negate": True, "ignoreCase": True},
        {"attribute": "name", "operator": "matches", "value": "^a+$"},
        {"attribute": "age", "operator": "lessThanOrEqual", "value": 17.5},
        {"attribute": "signedUp", "operator": "before", "value": "2026-03-01T10:30:00Z"},
        {"attribute": "seen", "operator": "after", "value": "-7d"},
        {"attribute": "version", "operator": "semverGreaterThanOrEqual", "value": "2.1.0"},
        {"attribute": "ip", "operator": "inCidr", "value": ["10.0.0.0/8", "2001:db8::/32"]},
        {"attribute": "plan", "operator": "notExists"},
        {"operator": "inSegment", "value": "testers"},
        {"attribute": "beta", "operator": "equals", "value": True},
    ]
    visit.page.get_by_role("button", name="Add rule").click()
    card = rule(visit, 1)
    card.get_by_label("Who").select_option("attribute")
    for at, condition in enumerate(wanted):
        if at:
            card.get_by_role("button", name="and another condition").click()
        row = card.locator(".hy-condition").nth(at)
        row.get_by_label("Operator").select_option(condition["operator"])
        if "attribute" in condition:
            row.get_by_label("Attribute").fill(condition["attribute"])
        fill_value(row, condition)
    save(visit)
    [made] = stored().rules
    assert made["conditions"] == wanted


def fill_value(row: Locator, condition: dict[str, Any]) -> None:
    if condition.get("negate"):
        row.get_by_role("button", name="Negate").click()
    if condition.get("ignoreCase"):
        row.get_by_role("button", name="Ignore upper and lower case").click()
    match condition.get("value"):
        case None:
            pass
        case list() as values:
            row.get_by_label("Values, one a line").fill("\n".join(values))
        case True:
            row.get_by_label("Kind of value").select_option("boolean")
            row.get_by_label("Value", exact=True).select_option("true")
        case str() as text if condition["operator"] == "before":
            row.get_by_label("Value", exact=True).fill(text.removesuffix(":00Z"))
        case str() as text if condition["operator"] == "after":
            row.get_by_label("Kind of value").select_option("days ago")
            row.get_by_label("Value", exact=True).fill(text[1:-1])
        case str() as text if condition["operator"] == "inSegment":
            row.get_by_label("Segment").select_option(text)
        case value:
            row.get_by_label("Value", exact=True).fill(str(value))


def test_condition__on_a_relative_time__is_a_number_of_days_or_other_units(visit: Visit) -> None:
    recent = {"attribute": "seen", "operator": "after", "value": "-30d"}
    open_flag(visit, rules=[{"type": "attribute", "conditions": [recent]}])
    address = urlsplit(visit.page.url).path
    value, kind = visit.page.get_by_label("Value", exact=True), visit.page.get_by_label("Kind of value")
    expect(value).to_have_value("30")
    expect(kind.locator("option:checked")).to_have_text("days ago")
    kind.select_option("weeks from now")
    expect(value).to_have_value("30")
    value.fill("4")
    save(visit)
    assert stored().rules[0]["conditions"] == [{**recent, "value": "+4w"}]
    visit.open(address)
    value.fill("-12h")
    save(visit)
    assert stored().rules[0]["conditions"] == [{**recent, "value": "-12h"}]


def test_operators__all_that_there_are__can_be_chosen(visit: Visit) -> None:
    open_flag(visit, rules=[{"type": "attribute", "conditions": [PRO]}])
    offered = visit.page.get_by_label("Operator").locator("option").evaluate_all("all => all.map((each) => each.value)")
    assert sorted(offered) == sorted(OPERATORS)


def test_rule__of_a_segment__is_chosen_among_those_there_are(visit: Visit) -> None:
    create_segment(key="testers", actor=ACTOR, now=NOON)
    open_flag(visit)
    visit.page.get_by_role("button", name="Add rule").click()
    rule(visit, 1).get_by_label("Who").select_option("segment")
    rule(visit, 1).get_by_label("Segment").select_option("testers")
    save(visit)
    assert stored().rules == [{"type": "segment", "segment": "testers"}]


def test_rule__new_one_that_names_users__is_for_all_of_them(visit: Visit) -> None:
    open_flag(visit)
    add = visit.page.get_by_role("button", name="Add rule")
    add.click()
    who = rule(visit, 1).get_by_label("Who", exact=True)
    percentage = rule(visit, 1).get_by_label("Percentage", exact=True)
    for kind, share in (("users", "100"), ("percentage", "10"), ("segment", "100")):
        who.select_option(kind)
        expect(percentage).to_have_value(share)
    percentage.fill("25")
    who.select_option("users")
    expect(percentage).to_have_value("25")  # as it was typed
    rule(visit, 1).get_by_label("User ids").fill("ada")
    add.click()
    rule(visit, 2).get_by_label("Who").select_option("attribute")
    expect(rule(visit, 2).get_by_label("Percentage", exact=True)).to_have_value("100")
    rule(visit, 2).get_by_label("Attribute").fill("plan")
    rule(visit, 2).get_by_label("Value", exact=True).fill("pro")
    save(visit)
    assert stored().rules == [
        {"type": "users", "percentage": 25, "userIds": ["ada"]},
        {"type": "attribute", "conditions": [PRO]},
    ]


def test_rule__its_parts_behind_more__are_stored_and_reported_when_folded(visit: Visit) -> None:
    open_flag(visit, rules=[{"type": "percentage", "percentage": 5}])
    card = rule(visit, 1)
    expect(card.get_by_label("Name")).to_be_hidden()
    card.get_by_text("More").click()
    assert (card.get_by_label("Name").bounding_box() or {})["width"] > 200
    card.get_by_label("Name").fill("Launch")
    card.get_by_label("Starts", exact=True).fill("2026-03-01T10:00")
    card.get_by_label("Ends", exact=True).fill("2026-04-01T00:00")
    card.get_by_label("Share by").fill("company")
    card.get_by_label("Salt").fill("autumn")
    card.get_by_role("button", name="Raise the share step by step").click()
    card.get_by_label("Step 1 starts").fill("2026-03-08T00:00")
    card.get_by_label("Step 1 percentage").fill("50")
    card.get_by_label("State").select_option("false")
    save(visit)
    assert stored().rules == [
        {
            "type": "percentage",
            "percentage": 5,
            "name": "Launch",
            "startAt": "2026-03-01T10:00:00Z",
            "endAt": "2026-04-01T00:00:00Z",
            "bucketBy": "company",
            "salt": "autumn",
            "ramp": [{"at": "2026-03-08T00:00:00Z", "percentage": 50}],
            "enabled": False,
        }
    ]
    visit.open(f"/admin/flags/flag/{stored().pk}/change/")
    summary = "More from 1 Mar 2026, 10:00 UTC · until 1 Apr 2026, 00:00 UTC · 1 step · by company · own salt"
    expect(rule(visit, 1).locator("summary")).to_have_text(summary.replace("More ", "More"))
    expect(rule(visit, 1).locator("header")).to_contain_text("Launch")


def test_rule__its_parts__taken_back_leave_nothing_behind(visit: Visit) -> None:
    open_flag(visit, rules=[{"type": "percentage", "percentage": 5, "name": "Launch", "salt": "s", "enabled": False}])
    card = rule(visit, 1)
    card.get_by_text("More").click()
    card.get_by_label("Name").fill("")
    card.get_by_label("Salt").fill("")
    card.get_by_label("State").select_option("true")
    save(visit)
    assert stored().rules == [{"type": "percentage", "percentage": 5}]


def test_rule__what_it_serves__is_chosen_among_the_variants(visit: Visit) -> None:
    everyone = {"type": "percentage", "percentage": 5}
    open_flag(visit, type="string", variants=COLOURS, rules=[everyone, everyone, everyone])
    rule(visit, 1).get_by_label("Serves").select_option("green")
    rule(visit, 2).get_by_label("Serves").select_option("=split")
    rule(visit, 2).get_by_label("Weight of blue").fill("30")
    rule(visit, 2).get_by_label("Weight of green").fill("10.5")
    rule(visit, 2).get_by_label("Weight of grey").fill("")
    expect(rule(visit, 2).locator("output").first).to_have_text("74.1 %")
    expect(rule(visit, 2).locator("output").last).to_have_text("not served")
    save(visit)
    split = [{"variant": "blue", "weight": 30}, {"variant": "green", "weight": 10.5}]
    assert stored().rules == [{**everyone, "variant": "green"}, {**everyone, "split": split}, everyone]


def test_percentages__as_people_type_them__are_numbers(visit: Visit) -> None:
    typed = {"12,5": 12.5, "12.5%": 12.5, "7 %": 7, "0,125": 0.125, "12,345 %": 12.345}
    open_flag(visit, type="string", variants=COLOURS, rules=[{"type": "percentage", "percentage": 5}] * len(typed))
    for number, text in enumerate(typed, start=1):
        rule(visit, number).get_by_label("Percentage", exact=True).fill(text)
    rule(visit, 1).get_by_label("Serves").select_option("=split")
    rule(visit, 1).get_by_label("Weight of blue").fill("33,3 %")
    rule(visit, 1).get_by_label("Weight of green").fill("1,000")  # of two meanings, so the server refuses it
    visit.page.get_by_role("button", name="Save", exact=True).click()
    expect(visit.page.get_by_text("Must be a number").first).to_be_visible()
    rule(visit, 1).get_by_label("Weight of green").fill("1000")
    rule(visit, 1).get_by_label("Weight of grey").fill("")
    save(visit)
    assert [stored_rule["percentage"] for stored_rule in stored().rules] == list(typed.values())
    assert [part["weight"] for part in stored().rules[0]["split"]] == [33.3, 1000]


def test_rule__of_a_flag_without_variants__serves_on_or_off(visit: Visit) -> None:
    open_flag(visit, rules=[{"type": "percentage", "percentage": 5}])
    rule(visit, 1).get_by_label("Serves").select_option("off")
    save(visit)
    assert stored().rules == [{"type": "percentage", "percentage": 5, "serves": False}]


def test_rule__refused__unfolds_where_the_mistake_is(visit: Visit) -> None:
    open_flag(visit, rules=[{"type": "percentage", "percentage": 5}])
    card = rule(visit, 1)
    card.get_by_text("More").click()
    card.get_by_label("Starts", exact=True).fill("2026-04-01T00:00")
    card.get_by_label("Ends", exact=True).fill("2026-03-01T00:00")
    visit.page.get_by_role("button", name="Save", exact=True).click()
    expect(rule(visit, 1).get_by_role("alert")).to_be_visible()
    expect(rule(visit, 1).get_by_label("Ends", exact=True)).to_have_value("2026-03-01T00:00")


def test_rules__with_everything_in_them__stay_as_they_were_when_others_are_edited(visit: Visit) -> None:
    create_segment(key="testers", actor=ACTOR, now=NOON)
    full = {
        "type": "segment",
        "segment": "testers",
        "name": "All",
        "enabled": False,
        "percentage": 12.345,
        "conditions": [{**PRO, "negate": True}, {"attribute": "x", "operator": "in", "value": [1, "1", True]}],
        "startAt": "2026-03-01T10:00:00.123456+02:00",
        "endAt": "2027-03-01",
        "salt": "s",
        "bucketBy": "company",
        "ramp": [{"at": "2026-03-08T00:00:30Z", "percentage": 50}],
        "split": [{"variant": "grey", "weight": 0.5}, {"variant": "blue", "weight": 1}],
    }
    open_flag(visit, type="string", variants=COLOURS, rules=[full, {"type": "percentage", "percentage": 5}])
    rule(visit, 2).get_by_label("Percentage", exact=True).fill("6")
    save(visit)
    assert stored().rules == [full, {"type": "percentage", "percentage": 6}]


def test_rule__of_an_experiment__is_shown_and_stays_first(visit: Visit) -> None:
    rules = [{"type": "percentage", "percentage": share} for share in (5, 6)]
    flag_in_production(**SERVED_COLOURS, rules=rules)
    driving_rule = experiment_rule(is_plain=False, percentage=20, forced={"qa": "treatment"})
    with writing(actor=ACTOR, now=NOON) as log:
        production = Environment.objects.get(key="production")
        put_rule(log, key="new-checkout", environment=production, rule=driving_rule)
    visit.open(f"/admin/flags/flag/{stored().pk}/change/")
    card = rule(visit, 1)
    expect(card.get_by_text("Experiment checkout")).to_be_visible()
    expect(card.get_by_text("serves new")).to_be_visible()
    expect(card.get_by_text("20 % of the audience are in the experiment.")).to_be_visible()
    expect(card.get_by_role("button")).to_have_count(0)
    expect(rule(visit, 2).get_by_label("Move rule 2 up")).to_be_disabled()
    rule(visit, 3).get_by_label("Move rule 3 up").click()
    save(visit)
    assert stored().rules == [driving_rule, *rules[::-1]]


def test_rules__before_that_of_an_experiment__are_shown_and_stay_as_they_are(visit: Visit) -> None:
    rules = [{"type": "percentage", "percentage": share} for share in (5, 6, 7)]
    flag_in_production(rules=rules)
    driving_rule = experiment_rule()
    with writing(actor=ACTOR, now=NOON) as log:
        production = Environment.objects.get(key="production")
        put_rule(log, key="new-checkout", environment=production, rule=driving_rule, position=1)
    visit.open(f"/admin/flags/flag/{stored().pk}/change/")
    expect(rule(visit, 1).get_by_text("is not edited while the experiment runs")).to_be_visible()
    expect(rule(visit, 1).get_by_role("button", name="Remove rule 1")).to_have_count(0)
    expect(rule(visit, 3).get_by_label("Move rule 3 up")).to_be_disabled()
    rule(visit, 4).get_by_label("Percentage", exact=True).fill("8")
    save(visit)
    assert stored().rules == [rules[0], driving_rule, rules[1], {**rules[2], "percentage": 8}]


def test_rule__that_a_winner_left_behind__keeps_its_ranges_and_what_it_serves(visit: Visit) -> None:
    ranges = [{"salt": "checkout", "from": 0, "to": 75}, {"salt": "e", "from": 0, "to": 12.5}]
    shipped = {"type": "percentage", "percentage": 5, "salt": "e:holdback", "ranges": ranges, "serves": False}
    flag_in_production(rules=[shipped])
    visit.open(f"/admin/flags/flag/{stored().pk}/change/")
    expect(rule(visit, 1).get_by_label("Serves")).to_have_value("false")
    rule(visit, 1).get_by_text("More").first.click()
    expect(rule(visit, 1).get_by_label("Range 1 salt")).to_have_value("checkout")
    rule(visit, 1).get_by_label("Range 2 to").fill("20")
    save(visit)
    assert stored().rules == [{**shipped, "ranges": [ranges[0], {**ranges[1], "to": 20}]}]


def test_rule__of_a_kind_that_the_cards_do_not_know__is_refused_as_it_was_typed(visit: Visit) -> None:
    open_flag(visit)
    visit.page.get_by_role("button", name="Edit as JSON").first.click()
    visit.page.fill("textarea[name=rules]", json.dumps([{"type": "new"}]))
    visit.page.get_by_role("button", name="Edit as cards").click()
    area = rule(visit, 1).get_by_label("Rule as JSON")
    area.fill('{"type": "perc')
    visit.page.get_by_role("button", name="Save", exact=True).click()
    expect(rule(visit, 1).get_by_role("alert")).to_contain_text("Must be an object")
    expect(rule(visit, 1).get_by_label("Rule as JSON")).to_have_value('{"type": "perc')


def test_users__of_a_rule__lead_to_their_pages(visit: Visit) -> None:
    open_flag(visit, rules=[{"type": "users", "userIds": ["ada", "a/b c"]}])
    area = rule(visit, 1).get_by_label("User ids, one a line")
    links = rule(visit, 1).locator("a.hy-user")
    expect(links).to_have_text(["ada", "a/b c"])
    area.fill("ada\n\ngrace\ngrace\n" + "\n".join(f"u{number}" for number in range(20)))
    expect(links).to_have_count(20)
    expect(links.nth(1)).to_have_text("grace")
    expect(rule(visit, 1).get_by_text("and 2 more")).to_be_visible()
    area.fill("a/b c")
    with visit.page.expect_popup() as opened:
        links.click()
    expect(opened.value.get_by_role("heading", name="a/b c")).to_be_visible()
    area.fill("")
    expect(rule(visit, 1).get_by_text("Pages of these users")).to_be_hidden()
