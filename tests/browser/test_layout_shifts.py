"""Nothing moves while a page loads. The browser measures no layout shift, in either theme and at either width."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import call_command

from experiments.models import Experiment, Metric
from flags.models import Flag, Segment
from tests.browser.conftest import Visit

pytestmark = [pytest.mark.system, pytest.mark.once, pytest.mark.django_db(transaction=True)]

OBSERVE = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const moved = entry.sources.map(({ node }) => (node ? (node.outerHTML ?? node.textContent).slice(0, 120) : "?"));
    window.shifts.push(`${entry.value.toFixed(4)}: ${moved.join(" | ")}`);
  }
}).observe({ type: "layout-shift", buffered: true });
"""


def addresses() -> Iterator[str]:
    """Return the pages that people open every day."""
    yield from ("../guide/", "", "experiments/experiment/planner/", "experiments/experiment/user/?id=ada")
    for path in ("flags/flag", "flags/segment", "experiments/experiment", "experiments/metric", "events/event"):
        yield f"{path}/"
    yield from ("config/change/", "flags/flag/add/", "experiments/experiment/add/")
    yield f"flags/flag/{Flag.objects.get(key='new-checkout').pk}/change/"
    yield f"flags/segment/{Segment.objects.all()[0].pk}/change/"
    yield f"experiments/metric/{Metric.objects.all()[0].pk}/change/"
    running = Experiment.objects.filter(status="running")[0].pk
    yield from (f"experiments/experiment/{running}/{page}/" for page in ("change", "results"))


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages__while_they_load__move_nothing(visit: Visit, scheme: str, width: int) -> None:
    call_command("demo", "--users", "200", "--events", "2000", stdout=StringIO())
    page = visit.page
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 844})
    page.add_init_script(OBSERVE)
    found: list[str] = []
    for address in addresses():
        visit.open(f"/admin/{address}")
        page.wait_for_load_state("networkidle")
        found += [f"{address}: {shift}" for shift in page.evaluate("window.shifts")]
    assert found == []
