"""A page of results that follows new data in a real browser."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from experiments.exposures.recording import assign
from tests.browser.conftest import Visit
from tests.factories import EventFactory, ExperimentFactory

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]


def test_results__after_new_data__are_new_and_keep_the_focus_and_the_place(visit: Visit) -> None:
    page, now = visit.page, timezone.now()
    experiment = ExperimentFactory(started_at=now)
    assign(experiment.pk, "u1", "green", now, {})
    page.clock.install()
    visit.open(f"/admin/experiments/experiment/{experiment.pk}/results/")
    results = page.get_by_role("region", name="Results", exact=True)
    expect(results).to_contain_text("1 user")
    page.set_viewport_size({"width": 1280, "height": 400})
    link = page.locator("section.hy-results summary").first
    link.focus()
    link.scroll_into_view_if_needed()
    place = link.bounding_box()
    assert place
    assign(experiment.pk, "u2", "control", now, {})
    EventFactory(name="purchase", user_id="u2", timestamp=timezone.now())
    with page.expect_response("**/results/changed/**"):
        page.clock.run_for(31_000)
    expect(results).to_contain_text("2 users")
    expect(page.locator("section.hy-results summary").first).to_be_focused()
    now_at = page.locator("section.hy-results summary").first.bounding_box()
    assert now_at
    assert now_at["y"] == pytest.approx(place["y"], abs=2)
