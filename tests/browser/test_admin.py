"""What product managers do every day, in a real browser. After each test the fixture checks that no page loaded
anything from another host and that no script failed."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from config.access.environments import create_environment
from config.models import Environment
from config.slugs import KEY_LENGTH, NAME_LENGTH
from events.recording import NewEvent, new_id, record
from experiments.metrics.changes import create_metric
from experiments.models import Experiment
from tests.browser.accessibility import complaints
from tests.browser.conftest import PASSWORD, Visit
from tests.browser.flags import flag_in_production, stored
from tests.conftest import ACTOR, NOON
from tests.factories import EventFactory

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

RULES = [
    {"type": "percentage", "percentage": 25},
    {"type": "attribute", "conditions": [{"attribute": "plan", "operator": "in", "value": ["pro", "team"]}]},
]


def test_overview__after_signing_in__is_the_first_page(visit: Visit) -> None:
    visit.page.context.clear_cookies()
    visit.open("/")
    visit.page.fill("#id_username", "ada")
    visit.page.fill("#id_password", PASSWORD)
    visit.page.get_by_role("button", name="Log in").click()
    expect(visit.page).to_have_url(visit.root + "/admin/")
    expect(visit.page.get_by_role("heading", name="Changed today")).to_be_visible()


def test_flags__on_a_phone__take_little_room(visit: Visit) -> None:
    create_environment(key="development", name="Development", actor=ACTOR, now=NOON)
    flag_in_production(description="A long description of the flag. " * 6, tags=["a-tag", "another-tag"], rules=RULES)
    visit.page.set_viewport_size({"width": 390, "height": 844})
    visit.open("/admin/flags/flag/")
    row = visit.page.locator("#result_list .data-row").bounding_box()
    assert row is not None
    assert row["height"] <= 90
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 390
    for environment in ("Production", "Staging", "Development"):
        switch = visit.page.get_by_role("switch", name=f"new-checkout in {environment}")
        expect(switch).to_be_in_viewport(ratio=1)


def test_flags__on_a_phone__open_long_words_in_the_row(visit: Visit) -> None:
    steps = [{"at": f"2030-12-{day:02}T08:00:00Z", "percentage": day} for day in range(2, 31, 7)]
    ramp = {"type": "percentage", "percentage": 1, "ramp": steps}
    flag_in_production(description="A long description of the flag. " * 6, enabled=True, rules=[ramp])
    shorter = {
        "type": "attribute",
        "conditions": [{"attribute": "email", "operator": "endsWith", "value": "@shop.com"}],
    }
    flag_in_production(key="shorter", description="What it is for", enabled=True, rules=[shorter, *RULES])
    visit.page.set_viewport_size({"width": 390, "height": 844})
    visit.open("/admin/flags/flag/")
    rows, words = visit.page.locator("#result_list .data-row"), visit.page.locator("#result_list details summary").first
    heights = rows.evaluate_all("(rows) => rows.map((row) => row.getBoundingClientRect().height)")
    assert max(heights) <= 90, heights
    is_cut = "(words) => words.firstElementChild.scrollHeight > words.firstElementChild.clientHeight"
    assert words.evaluate(is_cut)
    words.focus()
    visit.page.keyboard.press("Enter")
    expect(words).to_contain_text("from 30 Dec 2030, 08:00 UTC")
    assert not words.evaluate(is_cut)
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 390


def test_flags__on_a_wide_screen__have_no_tab_stop_that_opens_nothing(visit: Visit) -> None:
    conditions = [{"attribute": "email", "operator": "endsWith", "value": "@shop.com"}]
    flag_in_production(enabled=True, rules=[{"type": "attribute", "conditions": conditions}, *RULES])
    page = visit.page
    visit.open("/admin/flags/flag/")
    summary, switch = (
        page.locator("#result_list summary"),
        page.get_by_role("switch", name="new-checkout in Production"),
    )
    expect(summary.locator("small")).to_be_visible()
    switch.focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("switch", name="new-checkout in Staging")).to_be_focused()
    page.set_viewport_size({"width": 390, "height": 844})
    switch.focus()
    page.keyboard.press("Tab")
    expect(summary).to_be_focused()


@pytest.mark.parametrize("width", [390, 1280])
def test_lists__with_keys_and_names_that_have_no_space__fit_the_page(visit: Visit, width: int) -> None:
    flag_in_production(key="k" * KEY_LENGTH)
    create_metric(key="m" * KEY_LENGTH, type="conversion", event="n" * NAME_LENGTH, actor=ACTOR, now=NOON)
    EventFactory(name="n" * NAME_LENGTH, user_id="u" * NAME_LENGTH, timestamp=timezone.now())
    visit.page.set_viewport_size({"width": width, "height": 844})
    for path in ("", "flags/flag/", "experiments/metric/", "events/event/", "config/change/"):
        visit.open(f"/admin/{path}")
        assert visit.page.evaluate("document.documentElement.scrollWidth") == width, path
        for table in visit.page.locator("#result_list").all():
            assert table.evaluate("table => table.offsetWidth <= table.parentElement.clientWidth"), path


def test_flag__switched_in_the_list__is_on(visit: Visit) -> None:
    flag_in_production()
    visit.open("/admin/flags/flag/")
    switch = visit.page.get_by_role("switch", name="new-checkout in Production")
    expect(switch).to_have_attribute("aria-checked", "false")
    switch.click()
    visit.page.get_by_role("button", name="Switch on").click()
    expect(visit.page.get_by_text("new-checkout is now on in Production.")).to_be_visible()
    expect(switch).to_have_attribute("aria-checked", "true")
    assert stored().enabled is True


def test_rules__built_with_the_editor__are_stored_as_they_look(visit: Visit) -> None:
    page = visit.page
    visit.open("/admin/flags/flag/add/")
    expect(page.locator("textarea[name=rules]")).to_be_hidden()
    page.fill("#id_key", "new-checkout")
    page.get_by_role("button", name="Add rule").click()
    page.get_by_label("Percentage", exact=True).fill("12.5")
    page.get_by_role("button", name="Add rule").click()
    second = page.get_by_label("rule 2", exact=True)
    second.get_by_label("Who").select_option("attribute")
    second.get_by_label("Percentage", exact=True).fill("")
    second.get_by_label("Attribute").fill("age")
    second.get_by_label("Operator").select_option("greaterThanOrEqual")
    second.get_by_label("Value", exact=True).fill("18")
    second.get_by_role("button", name="and another condition").click()
    second.get_by_label("Attribute").nth(1).fill("country")
    second.get_by_label("Operator").nth(1).select_option("in")
    second.get_by_label("Values, one a line").fill("DE\nAT")
    page.get_by_role("button", name="Add rule").click()
    third = page.get_by_label("rule 3", exact=True)
    third.get_by_label("Who").select_option("users")
    third.get_by_label("User ids").fill("u-1\nu-2\n")
    third.get_by_label("Percentage", exact=True).fill("")
    page.get_by_role("button", name="Move rule 3 up").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    ages = {"attribute": "age", "operator": "greaterThanOrEqual", "value": 18}
    countries = {"attribute": "country", "operator": "in", "value": ["DE", "AT"]}
    assert stored().rules == [
        {"type": "percentage", "percentage": 12.5},
        {"type": "users", "userIds": ["u-1", "u-2"]},
        {"type": "attribute", "conditions": [ages, countries]},
    ]


def test_rules__removed_and_edited_in_part__keep_the_rest(visit: Visit) -> None:
    digits = {"type": "users", "userIds": ["12345678901234567890", 'quoted "1e9"']}
    flag = flag_in_production(rules=[*RULES, {"type": "users", "userIds": ["u"], "percentage": 50}, digits])
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    visit.page.get_by_role("button", name="Remove rule 1").click()
    visit.page.get_by_label("rule 2", exact=True).get_by_label("User ids").fill("v")
    visit.page.get_by_role("button", name="Save", exact=True).click()
    expect(visit.page.get_by_text("was changed successfully")).to_be_visible()
    assert stored().rules == [RULES[1], {"type": "users", "userIds": ["v"], "percentage": 50}, digits]


def test_rules__saved_untouched__stay_byte_for_byte(visit: Visit) -> None:
    exact = [{"type": "attribute", "conditions": [{"attribute": "id", "operator": "equals", "value": 2**63 + 1}]}]
    flag = flag_in_production(rules=exact)
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    expect(visit.page.get_by_text("can only be edited as JSON")).to_be_visible()
    visit.page.fill("#id_description", "With a number beyond JavaScript's")
    visit.page.get_by_role("button", name="Save", exact=True).click()
    expect(visit.page.get_by_text("was changed successfully")).to_be_visible()
    assert stored().rules == exact


def test_rules__refused__stand_as_typed_with_each_error_at_its_field(visit: Visit) -> None:
    page = visit.page
    visit.open("/admin/flags/flag/add/")
    page.fill("#id_key", "new-checkout")
    page.get_by_role("button", name="Add rule").click()
    page.get_by_label("Percentage", exact=True).fill("120")
    page.get_by_role("button", name="Add rule").click()
    second = page.get_by_label("rule 2", exact=True)
    second.get_by_label("Who").select_option("attribute")
    page.get_by_role("button", name="Save", exact=True).click()
    first = page.get_by_label("rule 1", exact=True)
    expect(first.get_by_label("Percentage", exact=True)).to_have_value("120")
    expect(first.get_by_role("alert")).to_have_text("Must be a number from 0 to 100.")
    expect(second.locator('[data-path=".conditions[0].attribute"]').get_by_role("alert")).to_have_text(
        "Must not be empty."
    )
    expect(page.locator("#id_rules_error li:visible")).to_have_count(0)


def test_rules__as_json__go_back_and_forth(visit: Visit) -> None:
    page = visit.page
    flag = flag_in_production(rules=RULES)
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    page.get_by_role("button", name="Edit as JSON").click()
    assert json.loads(page.input_value("textarea[name=rules]")) == RULES
    page.fill("textarea[name=rules]", json.dumps(RULES[:1]))
    page.get_by_role("button", name="Edit as cards").click()
    expect(page.locator(".hy-editor-card")).to_have_count(1)
    page.get_by_role("button", name="Edit as JSON").click()
    page.fill("textarea[name=rules]", "[{")
    page.get_by_role("button", name="Edit as cards").click()
    expect(page.get_by_text("can only be edited as JSON")).to_be_visible()


@pytest.mark.parametrize("visit", [False], indirect=True, ids=["without script"])
def test_rules__without_scripts__are_edited_as_text(visit: Visit) -> None:
    flag = flag_in_production(rules=RULES)
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    area = visit.page.locator("textarea[name=rules]")
    expect(area).to_be_visible()
    area.fill(json.dumps(RULES[:1]))
    visit.page.get_by_role("button", name="Save", exact=True).click()
    expect(visit.page.get_by_text("was changed successfully")).to_be_visible()
    assert stored().rules == RULES[:1]


def test_experiment__from_draft_to_results(visit: Visit) -> None:
    page = visit.page
    visit.open("/admin/experiments/experiment/add/?all=true")
    page.fill("#id_key", "button-colour")
    variants = page.locator('[data-editor-of="variants"]')
    variants.get_by_label("Key").nth(0).fill("blue")
    variants.get_by_label("Key").nth(1).fill("green")
    page.get_by_role("button", name="Add metric").click()
    page.get_by_label("Metric", exact=True).fill("purchase")
    page.get_by_role("button", name="Save and continue editing").click()
    page.get_by_role("link", name="Start").click()
    expect(page.get_by_text("Users are assigned to variants from now on: blue 50 % · green 50 %")).to_be_visible()
    page.get_by_role("button", name="Start the experiment").click()
    expect(page.get_by_text("button-colour is running.")).to_be_visible()
    at = timezone.now() + timedelta(seconds=1)
    exposed = {"experimentId": "button-colour", "variant": "green"}
    record([NewEvent(new_id(), user, "see", at, at, exposed) for user in "abc"], Environment.objects.default())
    record([NewEvent(new_id(), "a", "purchase", at, at, {})], Environment.objects.default())
    page.reload()
    row = page.get_by_label("Results", exact=True).get_by_role("row", name=re.compile("green"))
    expect(row).to_contain_text("33.33 %")
    page.get_by_role("link", name="Stop").click()
    page.get_by_role("button", name="Stop the experiment").click()
    expect(page.get_by_text("button-colour is stopped.")).to_be_visible()
    made = Experiment.objects.get()
    assert (made.status, made.variant_keys, made.metrics) == ("stopped", ["blue", "green"], ["purchase"])


def test_key__made__is_seen_once(visit: Visit) -> None:
    page = visit.page
    visit.open("/admin/config/apikey/add/")
    page.fill("#id_name", "Web shop")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#secret")).to_have_text(re.compile("^hyd_c_.{30,}"))
    secret = page.locator("#secret").inner_text()
    assert secret not in page.url
    page.get_by_role("link", name="I have copied the key").click()
    expect(page.get_by_text("Web shop")).to_be_visible()
    assert secret not in page.content()


def test_environment__switched__is_what_one_edits_from_then_on(visit: Visit) -> None:
    flag_in_production(enabled=True)
    page = visit.page
    visit.open("/admin/flags/flag/")
    page.get_by_title("The environment you view and change").click()
    page.get_by_role("button", name="Staging").click()
    switch = page.get_by_role("switch", name="new-checkout in Staging")
    expect(switch).to_have_attribute("aria-checked", "false")
    switch.click()
    expect(page.get_by_text("new-checkout is now on in Staging.")).to_be_visible()
    assert stored(environment="staging").enabled is True


def test_flag__saved_from_a_tab_of_the_other_environment__is_filled_in_after_switching_back(visit: Visit) -> None:
    flag = flag_in_production(enabled=True)
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    other = visit.page.context.new_page()
    other.goto(visit.root + "/admin/")
    other.get_by_title("The environment you view and change").click()
    other.get_by_role("button", name="Staging").click()
    expect(other.get_by_text("in Staging").first).to_be_visible()
    visit.page.fill("#id_description", "Meant for production")
    visit.page.get_by_role("button", name="Save", exact=True).click()
    expect(visit.page.get_by_text("You opened this page in Production and have switched to Staging")).to_be_visible()
    assert complaints(visit.page) == []
    visit.page.get_by_role("button", name="Switch back to Production").click()
    expect(visit.page.locator("#id_description")).to_have_value("Meant for production")
    assert stored().description == ""
    visit.page.get_by_role("button", name="Save", exact=True).click()
    expect(visit.page.get_by_text("was changed successfully")).to_be_visible()
    assert stored().description == "Meant for production"


PAGES = (
    "",
    "flags/flag/",
    "flags/flag/add/",
    "flags/segment/",
    "flags/segment/add/",
    "experiments/experiment/",
    "experiments/experiment/add/?all=true",
    "experiments/metric/",
    "experiments/metric/add/",
    "events/event/",
    "config/change/",
    "config/environment/",
    "config/environment/add/",
    "config/apikey/",
    "config/apikey/add/",
    "auth/user/",
    "auth/user/add/",
    "auth/group/",
    "auth/group/add/",
    "password_change/",
)


def test_pages__every_one__comes_from_this_host_and_runs_without_errors(visit: Visit) -> None:
    for path in PAGES:
        visit.open(f"/admin/{path}")
        expect(visit.page.locator("#content")).to_be_visible()
    assert len(visit.hosts) == 1


def test_page__on_a_telephone__does_not_scroll_sideways(visit: Visit) -> None:
    flag = flag_in_production(rules=RULES)
    visit.page.set_viewport_size({"width": 390, "height": 844})
    pages = [f"flags/flag/{flag.pk}/{page}/" for page in ("change", "try_it", "history", "archive")]
    others = [
        "flags/segment/add/",
        "experiments/metric/",
        "experiments/metric/add/",
        "experiments/experiment/add/?all=true",
    ]
    for path in ("", "flags/flag/", *pages, *others, "events/event/", "config/change/"):
        visit.open(f"/admin/{path}")
        wide = visit.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, path
