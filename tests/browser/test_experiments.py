"""An experiment in a real browser: the editors of its audience, and the page that ships a winner."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from config.models import Environment
from experiments.lifecycle.changes import get_experiment
from flags.admin import known_flags
from tests.browser.conftest import Visit
from tests.experiments.lifecycle.shipping import record_clear_winner, run_experiment
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

PAGES = "/admin/experiments/experiment"


@pytest.fixture
def production(transactional_db: None) -> Environment:
    return Environment.objects.get(key="production")


def test_draft__audience_and_flag__are_edited_without_writing_json(visit: Visit, production: Environment) -> None:
    variants = [{"key": "old", "value": "a"}, {"key": "new", "value": "b"}]
    FlagFactory(key="text", type="string", variants=variants)
    ExperimentFactory(key="first", group={"key": "checkout", "from": 0, "to": 60})
    draft, page = ExperimentFactory(key="e"), visit.page
    visit.open(f"{PAGES}/{draft.pk}/change/")

    page.get_by_role("combobox", name="Group", exact=True).fill("checkout")
    expect(page.get_by_text("Free ranges: 60 to 100 %.")).to_be_visible()
    page.get_by_label("From, in percent").fill("60")
    page.get_by_role("button", name="Add condition").click()
    page.get_by_label("Attribute").fill("plan")
    page.get_by_label("Value", exact=True).fill("pro")
    page.get_by_role("button", name="Add a tester").click()
    page.get_by_label("User id").fill("qa-1")
    expect(page.get_by_role("link", name="Show the page of qa-1")).to_have_attribute(
        "href", re.compile(r"/user/\?id=qa-1$")
    )
    page.get_by_role("combobox", name="Variant", exact=True).select_option("green")
    page.get_by_role("combobox", name="Flag", exact=True).select_option("text")
    page.get_by_label("Key").nth(1).fill("blue")  # a variant that is renamed after the flag was chosen
    page.get_by_label("Key").nth(1).blur()
    expect(page.get_by_label("What the flag serves for blue")).to_have_value("new")
    page.get_by_role("combobox", name="Variant", exact=True).select_option("blue")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_load_state()

    experiment = get_experiment("e", production)
    assert experiment.group == {"key": "checkout", "from": 60, "to": 100}
    assert [(condition["attribute"], condition["value"]) for condition in experiment.conditions] == [("plan", "pro")]
    assert experiment.forced_variants == {"qa-1": "blue"}
    assert experiment.flag == {"key": "text", "serves": {"control": "old", "blue": "new"}}


def test_draft__flag_among_many__is_typed_and_serves_its_own_variants(
    visit: Visit, production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_flags, "MAX_IN_A_PAGE", 1)
    variants = [{"key": "old", "value": "a"}, {"key": "new", "value": "b"}]
    FlagFactory(key="text", type="string", variants=variants)
    FlagFactory(key="text-2")
    draft, page = ExperimentFactory(key="e"), visit.page
    visit.open(f"{PAGES}/{draft.pk}/change/")
    flag = page.get_by_role("combobox", name="Flag", exact=True)
    served = page.get_by_label("What the flag serves for green")
    flag.press_sequentially("tex")
    expect(page.locator('datalist option[value="text"]')).to_be_attached()
    # An answer that comes after something was chosen changes nothing of it.
    late: list[Route] = []
    page.route(lambda url: url.endswith("?text=text"), lambda route: late.append(route))
    flag.press_sequentially("t")
    expect(served).to_have_value("new")
    served.select_option("old")
    with page.expect_request_finished(lambda request: request.url.endswith("?text=text")):
        late[0].continue_()
    page.unroute_all()
    expect(page.locator("datalist option")).to_have_count(2)
    page.get_by_role("button", name="Save and continue").click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    assert get_experiment("e", production).flag == {"key": "text", "serves": {"control": "old", "green": "old"}}
    expect(page.get_by_label("What the flag serves for green").get_by_role("option")).to_have_text(["old", "new"])


def test_metrics__of_a_running_experiment__are_added_after_those_that_it_has(
    visit: Visit, production: Environment
) -> None:
    experiment, page = ExperimentFactory(key="e", metrics=["purchase"], running=True), visit.page
    visit.open(f"{PAGES}/{experiment.pk}/change/")
    expect(page.get_by_role("button", name="Remove metric 1")).to_have_count(0)

    page.get_by_role("button", name="Add metric").click()
    page.get_by_label("Metric", exact=True).fill("sign_up")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text("sign_up post hoc")).to_be_visible()
    assert get_experiment("e", production).metrics == ["purchase", "sign_up"]


@pytest.mark.parametrize("visit", [True, False], indirect=True, ids=["script", "no script"])
def test_ship__against_the_verdict__asks_for_the_reason(visit: Visit, production: Environment) -> None:
    experiment, page = run_experiment(production), visit.page
    record_clear_winner(production)
    visit.open(f"{PAGES}/{experiment.pk}/change/")
    page.get_by_role("link", name="Ship").click()
    expect(page.locator("input[value=green]")).to_be_checked()
    expect(page.get_by_text("there are objections against this choice")).to_be_hidden()

    page.locator("input[value=everyone]").check()
    expect(page.get_by_text("it removes rule 2 of the flag (20 % of everyone).")).to_be_visible()
    page.locator("input[value=audience]").check()

    page.locator("input[value=control]").check()
    page.get_by_role("button", name="Ship the winner").click()
    expect(page.get_by_text("Give a reason for shipping control")).to_be_visible()
    expect(page.locator("input[value=control]")).to_be_checked()
    page.locator("#id_reason").fill("Support cannot cope.")
    page.get_by_role("button", name="Ship the winner").click()
    expect(page.get_by_text("control is shipped to the audience of the experiment. e is stopped.")).to_be_visible()

    page.get_by_role("link", name="Reopen").click()
    page.get_by_role("button", name="Reopen the experiment").click()
    expect(page.get_by_text("e is running again.")).to_be_visible()


def test_guided__from_a_hypothesis_to_the_start__by_keyboard(visit: Visit, production: Environment) -> None:
    FlagFactory(key="checkout", on=True)
    page = visit.page
    visit.open("/admin/")
    page.get_by_role("link", name="New experiment").press("Enter")
    page.get_by_label("Key").fill("button")
    page.get_by_label("Hypothesis").fill("Green sells more.")
    page.get_by_label("Key").press("Enter")  # saves and continues, as the button does
    expect(page.get_by_role("heading", name="Flag and audience of button")).to_be_visible()
    page.get_by_role("combobox", name="Flag", exact=True).select_option("checkout")
    expect(page.get_by_label("What the flag serves for treatment")).to_have_value("true")
    page.get_by_role("button", name="Save and continue").press("Enter")
    badge = page.locator(".hy-number-badge").first.bounding_box()
    assert badge
    assert badge["width"] >= badge["height"]  # a circle
    page.get_by_label("Key").nth(1).fill("green")
    page.get_by_label("Key").nth(1).press("Tab")
    expect(page.get_by_label("What the flag serves for green")).to_be_visible()
    page.get_by_role("button", name="Save and continue").press("Enter")
    page.get_by_role("button", name="Add metric").press("Enter")
    page.get_by_label("Metric", exact=True).fill("purchase")
    page.get_by_role("button", name="Save and go back").press("Enter")
    expect(page.get_by_role("heading", name="Variants of button")).to_be_visible()
    page.get_by_role("navigation", name="Steps").get_by_role("link", name="Plan").press("Enter")
    page.get_by_label("Planned sample size").fill("2000")
    page.get_by_role("button", name="Save and continue").press("Enter")
    page.get_by_role("button", name="Start the experiment").press("Enter")
    expect(page.get_by_text("button is running.")).to_be_visible()
    experiment = get_experiment("button", production)
    assert experiment.flag == {"key": "checkout", "serves": {"control": False, "green": True}}
    assert (experiment.metrics, experiment.planned_size) == (["purchase"], 2000)
