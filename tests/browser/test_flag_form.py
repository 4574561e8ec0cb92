"""The folded parts of a flag's form, trying a flag, and going back, in a real browser."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Locator, expect

from config.models import Environment
from flags.admin import known_flags
from flags.changes.flag_changes import update_flag
from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production, stored
from tests.conftest import ACTOR, NOON

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

COLOURS = [{"key": "blue", "value": "Buy now"}, {"key": "grey", "value": "Buy"}]


def variant(visit: Visit, number: int) -> Locator:
    return visit.page.get_by_label(f"variant {number}", exact=True)


def test_flag__that_is_only_on_or_off__shows_no_more_than_that(visit: Visit) -> None:
    visit.open("/admin/flags/flag/add/")
    expect(visit.page.get_by_label("Value type")).to_be_hidden()
    visit.page.locator("summary", has_text="Values").click()
    expect(visit.page.get_by_label("Value type")).to_be_visible()
    expect(visit.page.get_by_role("button", name="Add variant")).to_be_hidden()
    expect(visit.page.get_by_label("Variant when off")).to_be_hidden()


@pytest.mark.parametrize(
    ("value_type", "typed", "values"),
    [
        ("string", ["Buy now", "Buy"], ["Buy now", "Buy"]),
        ("number", ["1", "2.5"], [1, 2.5]),
        ("object", ['{"size": [1, "a"]}', "{}"], [{"size": [1, "a"]}, {}]),
    ],
)
def test_values__of_each_type__are_typed_as_what_they_are(
    visit: Visit, value_type: str, typed: list[str], values: list[object]
) -> None:
    page = visit.page
    visit.open("/admin/flags/flag/add/")
    page.fill("#id_key", "new-checkout")
    page.locator("summary", has_text="Values").click()
    page.get_by_label("Value type").select_option(value_type)
    for number, text in enumerate(typed, start=1):
        page.get_by_role("button", name="Add variant").click()
        variant(visit, number).get_by_label("Key").fill(f"v{number}")
        variant(visit, number).get_by_label("Value").fill(text)
    page.get_by_label("Variant when on").select_option("v2")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    made = stored()
    assert [variant["value"] for variant in made.variants] == values
    assert (made.type, made.default_variant, made.off_variant) == (value_type, "v2", "v2")


def test_values__refused__unfold_with_each_error_at_its_field(visit: Visit) -> None:
    page = visit.page
    visit.open("/admin/flags/flag/add/")
    page.fill("#id_key", "new-checkout")
    page.locator("summary", has_text="Values").click()
    page.get_by_label("Value type").select_option("object")
    page.get_by_role("button", name="Add variant").click()
    variant(visit, 1).get_by_label("Key").fill("a b")
    variant(visit, 1).get_by_label("Value").fill('{"size": ')
    page.get_by_role("button", name="Save", exact=True).click()
    expect(variant(visit, 1).locator('[data-path=".key"]').get_by_role("alert")).to_contain_text("1 to 100 letters")
    expect(variant(visit, 1).locator('[data-path=".value"]').get_by_role("alert")).to_be_visible()
    expect(variant(visit, 1).get_by_label("Value")).to_have_value('{"size": ')


def test_prerequisite__is_chosen_with_the_variants_that_will_do(visit: Visit) -> None:
    flag_in_production(key="payments", type="string", variants=COLOURS)
    flag = flag_in_production()
    page = visit.page
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    page.locator("summary", has_text="Prerequisites").click()
    page.get_by_role("button", name="Add prerequisite").click()
    card = page.get_by_label("prerequisite 1", exact=True)
    card.get_by_label("Flag").select_option("payments")
    card.get_by_label("Requirement").select_option("some")
    card.get_by_label("grey").check()
    card.get_by_label("blue").uncheck()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    assert stored().prerequisites == [{"flag": "payments", "variants": ["grey"]}]


def test_prerequisite__among_many_flags__is_typed_and_known_once_it_is_complete(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_flags, "MAX_IN_A_PAGE", 1)
    flag_in_production(key="payments", type="string", variants=COLOURS)
    flag_in_production(key="payments-new")
    flag, page = flag_in_production(), visit.page
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    page.locator("summary", has_text="Prerequisites").click()
    page.get_by_role("button", name="Add prerequisite").click()
    card = page.get_by_label("prerequisite 1", exact=True)
    card.get_by_label("Flag").press_sequentially("payments")
    expect(page.locator("datalist option")).to_have_count(2)
    card.get_by_label("Requirement").select_option("some")
    card.get_by_label("grey").check()
    card.get_by_label("blue").uncheck()
    page.get_by_role("button", name="Save and continue").click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    assert stored().prerequisites == [{"flag": "payments", "variants": ["grey"]}]
    page.locator("summary", has_text="Prerequisites").click()
    expect(card.get_by_label("blue")).not_to_be_checked()  # a variant that only the server knows


def test_try__a_user__shows_the_decision_and_every_rule(visit: Visit) -> None:
    is_pro = {"attribute": "plan", "operator": "equals", "value": "pro"}
    rules = [{"type": "users", "userIds": ["ada"]}, {"type": "attribute", "name": "Payers", "conditions": [is_pro]}]
    flag = flag_in_production(enabled=True, rules=rules)
    page = visit.page
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    page.get_by_role("link", name="Try it").click()
    page.fill("#id_user_id", "lin")
    expect(page.get_by_label("Attribute", exact=True)).to_have_value("plan")
    page.get_by_label("Value", exact=True).fill("pro")
    page.get_by_role("button", name="Add an attribute").click()
    page.get_by_label("Attribute", exact=True).nth(1).fill("age")
    page.get_by_label("Value", exact=True).nth(1).fill("42")
    page.get_by_role("button", name="Try it").click()
    trace = page.get_by_label("Result")
    expect(trace).to_contain_text("Rule 2 is the first that matches this user.")
    expect(trace.locator(".hy-trace-rule").nth(1)).to_contain_text("Payers decides")
    expect(trace.get_by_role("img", name="no")).to_have_count(1)
    page.get_by_role("button", name="As JSON").click()
    assert json.loads(page.input_value("#id_attributes")) == {"plan": "pro", "age": 42}


@pytest.mark.parametrize("visit", [False], indirect=True, ids=["without script"])
def test_try__without_scripts__takes_attributes_as_text(visit: Visit) -> None:
    rules = [{"type": "attribute", "conditions": [{"attribute": "plan", "operator": "exists"}]}]
    flag = flag_in_production(enabled=True, rules=rules)
    visit.open(f"/admin/flags/flag/{flag.pk}/try_it/")
    visit.page.fill("#id_user_id", "lin")
    visit.page.fill("#id_attributes", '{"plan": "pro"}')
    visit.page.get_by_role("button", name="Try it").click()
    expect(visit.page.get_by_label("Result")).to_contain_text("Rule 1 is the first")


def test_revert__from_the_history__brings_back_what_was(visit: Visit) -> None:
    flag = flag_in_production(description="First")
    edit = {"description": "Second", "rules": [{"type": "percentage", "percentage": 5}]}
    production = Environment.objects.get(key="production")
    update_flag(key=flag.key, environment=production, changes=edit, actor=ACTOR, now=NOON)
    page = visit.page
    visit.open(f"/admin/flags/flag/{flag.pk}/history/")
    page.get_by_role("link", name="Revert to this").click()
    expect(page.get_by_text("Change the description from “Second” to “First”")).to_be_visible()
    page.get_by_label("Reason").fill("It was better")
    page.get_by_role("button", name="Revert").click()
    expect(page.get_by_text("is reverted to revision")).to_be_visible()
    assert (stored().description, stored().rules) == ("First", [])


def test_flags__selected_in_the_list__are_switched_together(visit: Visit) -> None:
    flag_in_production(key="one")
    flag_in_production(key="two")
    page = visit.page
    visit.open("/admin/flags/flag/")
    for box in page.locator("input.action-select").all():
        box.check()
    page.locator("select[name=action]").select_option("production:on")
    page.get_by_role("button", name="Run").click()
    page.get_by_label("Type Production to confirm").fill("Production")
    page.get_by_role("button", name="Switch on").click()
    expect(page.get_by_text("2 flags are now on in Production.")).to_be_visible()
    assert stored("one").enabled is stored("two").enabled is True


def test_flag__archived__is_found_again_and_restored(visit: Visit) -> None:
    flag = flag_in_production()
    page = visit.page
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    page.get_by_role("link", name="Archive").click()
    page.get_by_role("button", name="Archive the flag").click()
    expect(page.get_by_text("new-checkout is archived.")).to_be_visible()
    visit.open("/admin/flags/flag/")
    expect(page.get_by_role("link", name="new-checkout")).to_have_count(0)
    page.get_by_role("link", name="Archived").click()
    page.get_by_role("link", name="new-checkout").click()
    page.get_by_role("link", name="Restore").click()
    page.get_by_role("button", name="Restore the flag").click()
    expect(page.get_by_text("new-checkout is restored.")).to_be_visible()
    assert stored().archived_at is None
