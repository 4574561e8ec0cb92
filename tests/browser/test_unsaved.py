"""Forms that come back with input that is not saved warn before somebody leaves them, in a real browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.sessions.models import Session
from django.urls import reverse
from playwright.sync_api import Dialog, Page, expect

from tests.browser.conftest import Visit
from tests.browser.flags import flag_in_production, stored
from tests.browser.test_conflicts import edit_with_somebody
from tests.browser.test_kept_input import sign_in_again
from tests.factories import ExperimentFactory

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]


def save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()


def warnings_of(page: Page) -> list[str]:
    """Stay on the page at each warning from now on. Return the list that gets their types."""
    seen: list[str] = []

    def answer(dialog: Dialog) -> None:
        seen.append(dialog.type)
        dialog.dismiss()

    page.on("dialog", answer)
    return seen


def refused(visit: Visit) -> None:
    visit.page.get_by_label("rule 1", exact=True).get_by_label("Percentage", exact=True).fill("101")
    save(visit.page)
    expect(visit.page.get_by_text("Please correct the errors below.")).to_be_visible()


def filled_again(visit: Visit) -> None:
    Session.objects.all().delete()
    save(visit.page)
    sign_in_again(visit.page)


def cancelled(visit: Visit) -> None:
    visit.page.get_by_label("Enabled").check(force=True)
    save(visit.page)
    visit.page.get_by_role("button", name="Cancel").click()
    expect(visit.page.get_by_text("You cancelled, so nothing was changed.")).to_be_visible()
    expect(visit.page.get_by_text("Please correct")).to_have_count(0)


@pytest.mark.parametrize("send", [refused, filled_again, cancelled])
def test_form__that_came_back__warns_before_it_is_left(visit: Visit, send: Callable[[Visit], None]) -> None:
    page, flag = visit.page, flag_in_production(rules=[{"type": "percentage", "percentage": 25}])
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    page.fill("#id_description", "Typed for ten minutes")
    send(visit)
    here, seen = page.url, warnings_of(page)
    page.get_by_role("link", name="History", exact=True).first.click()
    expect(page.locator("#id_description")).to_have_value("Typed for ten minutes")
    assert (seen, page.url) == (["beforeunload"], here)


def test_form__that_came_back__is_saved_without_a_warning(visit: Visit) -> None:
    page, flag = visit.page, flag_in_production()
    visit.open(f"/admin/flags/flag/{flag.pk}/change/")
    page.fill("#id_description", "Typed for ten minutes")
    filled_again(visit)
    seen = warnings_of(page)
    save(page)
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    assert (seen, stored().description) == ([], "Typed for ten minutes")


def test_conflict__left__warns_unless_theirs_is_taken(visit: Visit) -> None:
    page = visit.page
    edit_with_somebody(visit)
    seen = warnings_of(page)
    page.get_by_role("link", name="History", exact=True).first.click()
    assert seen == ["beforeunload"]
    page.get_by_role("link", name="Take theirs").click()
    expect(page.locator("#id_description")).to_have_value("Theirs")
    assert seen == ["beforeunload"]


def test_comment__session_ended__is_in_its_form_again_and_warns(visit: Visit) -> None:
    page, experiment = visit.page, ExperimentFactory(key="e", running=True)
    visit.open(reverse("admin:experiments_experiment_results", args=[experiment.pk]))
    page.get_by_label("Your comment").fill("Why is it so?")
    Session.objects.all().delete()
    page.get_by_role("button", name="Comment", exact=True).click()
    sign_in_again(page)
    expect(page.get_by_label("Your comment")).to_have_value("Why is it so?")
    seen = warnings_of(page)
    page.get_by_role("button", name="Comment", exact=True).click()
    expect(page.get_by_text("Your comment is saved.")).to_be_visible()
    assert seen == []
    assert experiment.comments.get().text == "Why is it so?"
