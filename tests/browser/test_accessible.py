"""Every page is accessible: axe finds nothing on it, in light and in dark, and its landmarks work by keyboard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.core.management import call_command
from playwright.sync_api import Browser, Page, expect

from config.models import ApiKey, Delivery, Environment, Webhook
from config.webhooks.changes import create_webhook
from config.webhooks.outbox import queue_test
from experiments.models import Experiment, Metric
from flags.models import Flag, Segment
from tests.browser.conftest import Visit
from tests.conftest import ACTOR, NOON

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

LISTS = (
    "flags/flag",
    "flags/segment",
    "experiments/experiment",
    "experiments/metric",
    "events/event",
    "config/change",
    "config/environment",
    "config/apikey",
    "auth/user",
    "auth/group",
)
Rules = Mapping[str, Mapping[str, bool]]

OF_OTHERS: Rules = {
    # The theme's scrolling areas all have one name.
    "landmark-unique": {"enabled": False},
}
OF_DOCS: Rules = {**OF_OTHERS, "region": {"enabled": False}, "heading-order": {"enabled": False}}
"""Swagger UI and Redoc put their introduction outside of landmarks, and leave out levels of headings."""
NOT_OURS = [[".help-tooltip"], ["[data-section-id^='tag/']:not([data-section-id^='tag/Flags'])"]]
"""Django's own choosers of rights have labels that say nothing to a screen reader. Redoc shows all operations alike, so
those of one tag are enough.
"""


def addresses() -> Iterator[str]:
    yield from (
        "",
        "password_change/",
        "experiments/experiment/planner/",
        "experiments/experiment/portfolio/",
        "experiments/experiment/user/?id=ada",
    )
    for path in LISTS:
        yield f"{path}/"
    for path in ("flags/flag", "flags/segment", "experiments/experiment", "experiments/metric", "config/apikey"):
        yield f"{path}/add/"
    flag, segment = Flag.objects.get(key="new-checkout").pk, Segment.objects.all()[0].pk
    for page in ("change", "history", "try_it", "promote", "archive", "delete"):
        yield f"flags/flag/{flag}/{page}/"
    yield f"flags/segment/{segment}/change/"
    for experiment in Experiment.objects.all():
        yield f"experiments/experiment/{experiment.pk}/change/"
    draft = Experiment.objects.filter(status="draft")[0].pk
    for step in ("hypothesis", "audience", "variants", "metrics", "plan"):
        yield f"experiments/experiment/{draft}/steps/{step}/"
    yield f"experiments/experiment/{draft}/start/"
    running = Experiment.objects.filter(status="running")[0].pk
    for page in ("results", "report", "users", "stop", "ship", "history"):
        yield f"experiments/experiment/{running}/{page}/"
    yield f"experiments/metric/{Metric.objects.all()[0].pk}/change/"
    yield f"config/environment/{Environment.objects.all()[0].pk}/change/"
    yield "auth/user/1/change/"
    yield "flags/killswitch/"
    yield "flags/killswitch/add/"
    yield "config/webhook/"
    yield "config/webhook/add/"
    for page in ("change", "history", "test", "pause"):
        yield f"config/webhook/{Webhook.objects.all()[0].pk}/{page}/"
    yield "config/delivery/"
    yield f"config/delivery/{Delivery.objects.all()[0].pk}/change/"
    for key in ApiKey.objects.all()[:1]:
        yield f"config/apikey/{key.pk}/change/"


END_TRANSITIONS = """
for (const moving of document.getAnimations()) if (moving instanceof CSSTransition) moving.finish();
"""
"""axe would judge a colour on its way to another one."""


def complaints(page: Page, rules: Rules, scheme: str = "light") -> list[str]:
    page.evaluate(END_TRANSITIONS)
    options = {"rules": rules} if scheme == "light" else {"runOnly": ["color-contrast"]}  # all else is the same in dark
    found = Axe().run(page, context={"exclude": NOT_OURS}, options=options).response["violations"]
    places = ((each["id"], node) for each in found for node in each["nodes"])
    return [f"{page.url}: {rule}: {node['target']} {node['html'][:200]}" for rule, node in places]


READ_ICONS = """
[...document.querySelectorAll(".material-symbols-outlined")]
  .filter((icon) => icon.textContent.trim() && !icon.closest("[aria-hidden=true], [role=img][aria-label]"))
  .map((icon) => icon.outerHTML);
"""
"""Icons that a screen reader would read out: they are ligatures, such as `expand_more`."""


def names_with_ligatures(page: Page) -> list[str]:
    """Return what a screen reader would say with the name of an icon in it. Other names have no underscores.

    Boxes and images are left out: they contain such a text, but their names are read instead of it.
    """
    icons = set(page.locator(".material-symbols-outlined").all_text_contents())
    ligatures = {icon.strip() for icon in icons if "_" in icon}
    tree = page.locator("body").aria_snapshot()
    said = (line for line in tree.splitlines() if not line.strip().startswith(("- checkbox", "- img")))
    return [line for line in said if any(ligature in line for ligature in ligatures)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages__of_everything__give_axe_nothing_to_complain_about(visit: Visit, scheme: str) -> None:
    call_command("demo", "--users", "200", "--events", "2000", stdout=StringIO())
    webhook, _ = create_webhook(name="chat", url="https://hooks.example.com", actor=ACTOR, at=NOON)
    queue_test(webhook, NOON)
    page = visit.page
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    found: list[str] = []
    for address in addresses():
        visit.open(f"/admin/{address}")
        assert page.get_by_role("main").count() == 1, address
        found += complaints(page, OF_OTHERS, scheme)
        found += [f"{page.url}: {icon}" for icon in (*page.evaluate(READ_ICONS), *names_with_ligatures(page))]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("address", "rules"),
    [
        ("/admin/login/", {}),
        ("/guide", {}),
        ("/guide/tour/flags", {}),
        ("/clients/", {}),
        ("/docs", OF_DOCS),
        ("/redoc", OF_DOCS),
    ],
)
def test_public_page__gives_axe_nothing_to_complain_about(
    browser: Browser, live_server: Any, address: str, rules: Rules, scheme: str
) -> None:
    page = browser.new_page(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(live_server.url + address)
    page.wait_for_load_state("networkidle")
    assert complaints(page, rules, scheme) == []
    page.close()


def test_page__by_keyboard__leads_past_the_menu_and_opens_it(visit: Visit) -> None:
    visit.open("/admin/flags/flag/")
    visit.page.keyboard.press("Tab")
    expect(visit.page.get_by_role("link", name="Skip to the content")).to_be_focused()
    visit.page.keyboard.press("Enter")
    expect(visit.page.get_by_role("main")).to_be_focused()
    menu = visit.page.get_by_role("button", name="Menu")
    expect(menu).to_have_attribute("aria-expanded", "true")
    menu.focus()
    visit.page.keyboard.press("Enter")
    expect(menu).to_have_attribute("aria-expanded", "false")
    expect(visit.page.get_by_role("link", name="Segments")).to_be_hidden()
