"""Metrics in a real browser: the form shows what goes with the type, and experiments choose among what is defined."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from config.models import Environment
from experiments.metrics.changes import create_metric, get_metric
from experiments.models import Experiment
from tests.browser.conftest import Visit
from tests.conftest import ACTOR, NOON
from tests.factories import EventFactory, ExperimentFactory

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

ADD = "/admin/experiments/metric/add/"


def save(visit: Visit) -> None:
    visit.page.get_by_role("button", name="Save", exact=True).click()


def test_metric__form__shows_what_goes_with_the_type_and_sends_no_more(visit: Visit) -> None:
    page = visit.page
    visit.open(ADD)
    expect(page.locator("#id_window_hours")).to_be_visible()
    for hidden in ("property", "currency", "denominator_event", "from_day", "cap_value"):
        expect(page.locator(f"#id_{hidden}")).to_be_hidden()
    page.fill("#id_key", "back")
    page.fill("#id_event", "visit")
    page.select_option("#id_type", "revenue")
    page.fill("#id_currency", "EUR")
    page.fill("#id_window_hours", "24")
    page.select_option("#id_type", "retention")
    expect(page.locator("#id_currency")).to_be_hidden()
    page.fill("#id_from_day", "7")
    page.fill("#id_to_day", "14")
    save(visit)
    expect(page.get_by_text("was added successfully")).to_be_visible()
    made = get_metric("back")
    assert (made.type, made.currency, made.window_hours, made.from_day, made.to_day) == ("retention", "", None, 7, 14)


def test_metric__refused__says_why_at_the_field_of_its_type(visit: Visit) -> None:
    page = visit.page
    visit.open(ADD)
    page.fill("#id_key", "share")
    page.fill("#id_event", "click")
    page.select_option("#id_type", "ratio")
    page.fill("#id_denominator_event", "view")
    page.fill("#id_denominator_property", "revenue")
    save(visit)
    expect(page.locator("#id_denominator_currency_error")).to_contain_text("Is required for revenue")
    expect(page.locator("#id_denominator_currency")).to_be_visible()
    expect(page.locator("#id_from_day")).to_be_hidden()


def test_metric__conditions__suggest_the_properties_of_the_event(visit: Visit) -> None:
    EventFactory(name="purchase", timestamp=timezone.now(), properties={"country": "CH", "revenue": 5})
    page = visit.page
    visit.open(ADD)
    page.fill("#id_key", "swiss")
    page.fill("#id_event", "purchse")
    page.get_by_label("Description").focus()
    warning = page.get_by_text("The event purchse was never received in Production.")
    expect(warning).to_be_visible()
    page.fill("#id_event", "purchase")
    page.get_by_label("Description").focus()
    expect(warning).to_be_hidden()
    assert page.locator("#hy-seen-events option").evaluate_all("all => all.map((each) => each.value)") == ["purchase"]
    page.get_by_role("button", name="Add condition").first.click()
    condition = page.get_by_label("condition 1", exact=True)
    name = condition.get_by_label("Property", exact=True)
    suggested = page.locator(f"#{name.get_attribute('list')} option")
    assert suggested.evaluate_all("all => all.map((each) => each.label)") == ["country (text)", "revenue (number)"]
    name.fill("country")
    condition.get_by_label("Operator", exact=True).select_option("in")
    condition.get_by_label("Values, one a line").fill("CH\nDE")
    save(visit)
    expect(page.get_by_text("was added successfully")).to_be_visible()
    assert get_metric("swiss").where == [{"property": "country", "operator": "in", "value": ["CH", "DE"]}]


def test_metric__funnel__is_made_of_steps_with_conditions_and_a_margin(visit: Visit) -> None:
    page = visit.page
    visit.open(ADD)
    expect(page.locator("#id_margin")).to_be_hidden()
    page.fill("#id_key", "checkout")
    page.select_option("#id_role", "guardrail")
    page.fill("#id_margin", "2,5")
    page.select_option("#id_type", "funnel")
    expect(page.locator("#id_event")).to_be_hidden()
    for number, event in enumerate(("view", "buy"), start=1):
        page.get_by_role("button", name="Add step").click()
        page.get_by_label(f"step {number}", exact=True).get_by_label("Event", exact=True).fill(event)
    second = page.get_by_label("step 2", exact=True)
    second.get_by_role("button", name="Add a condition").click()
    save(visit)
    expect(second.get_by_text("Must not be empty.")).to_be_visible()
    second.get_by_label("Property", exact=True).fill("items")
    second.get_by_label("Operator", exact=True).select_option("greaterThan")
    second.get_by_label("Value", exact=True).fill("1")
    save(visit)
    expect(page.get_by_text("was added successfully")).to_be_visible()
    made, where = get_metric("checkout"), [{"property": "items", "operator": "greaterThan", "value": 1}]
    assert made.steps == [{"event": "view"}, {"event": "buy", "where": where}]
    assert (made.event, made.margin) == ("view", 0.025)


def test_experiment__metrics__say_what_they_compute_and_may_have_any_name(visit: Visit) -> None:
    create_metric(key="spent", type="revenue", event="purchase", currency="EUR", actor=ACTOR, now=NOON)
    page = visit.page
    visit.open("/admin/experiments/experiment/add/?all=true")
    page.fill("#id_key", "button")
    for number, (name, words) in enumerate(
        [("spent", "Revenue in EUR of purchase per user"), ("sign up", "no metric has this name")], start=1
    ):
        page.get_by_role("button", name="Add metric").click()
        card = page.get_by_label(f"metric {number}", exact=True)
        card.get_by_label("Metric", exact=True).fill(name)
        expect(card).to_contain_text(words)
    assert page.locator("#hy-metric-names option").evaluate_all("all => all.map((each) => each.value)") == ["spent"]
    save(visit)
    expect(page.get_by_text("was added successfully")).to_be_visible()
    assert Experiment.objects.get().metrics == ["spent", "sign up"]


@pytest.mark.parametrize("width", [1300, 400])
def test_pages__of_the_longest_names__do_not_scroll_sideways(visit: Visit, production: Environment, width: int) -> None:
    metric = create_metric(key="k" * 100, type="count", event="e" * 200, actor=ACTOR, now=NOON)
    draft = ExperimentFactory(key="d" * 100, metrics=["m" * 200, metric.key])
    running = ExperimentFactory(key="r" * 100, metrics=["m" * 200, metric.key], running=True)
    visit.page.set_viewport_size({"width": width, "height": 900})
    pages: list[tuple[str, Any]] = [("metric_change", metric), ("metric_delete", metric), ("experiment_change", draft)]
    for page, shown in [*pages, ("experiment_change", running), ("experiment_results", running)]:
        visit.open(reverse(f"admin:experiments_{page}", args=[shown.pk]))
        wide = visit.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, (page, shown.key)
