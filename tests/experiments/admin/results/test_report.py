"""The printable report, and the plots as SVG files."""

from __future__ import annotations

import html
import re
import xml.dom.minidom
from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from experiments.metrics.changes import create_metric
from experiments.models import Experiment
from tests.admin import messages_of, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.admin.results.test_pages import address, report
from tests.experiments.results.test_outcomes import stopped
from tests.factories import ExperimentFactory
from tests.transactions import rolled_back

pytestmark = pytest.mark.django_db
ODD = '<a href="x">&é'


@pytest.fixture(scope="module")
def running_of_the_module(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Experiment]:
    with rolled_back(django_db_blocker):
        yield _make_running()


@pytest.fixture
def running(running_of_the_module: Experiment) -> Experiment:
    return Experiment.objects.select_related("environment").get(pk=running_of_the_module.pk)


def _make_running() -> Experiment:
    create_metric(key="errors", type="count", event="error", actor=ACTOR, now=NOON)
    made: Experiment = ExperimentFactory(
        key="button",
        running=True,
        metrics=["purchase", ODD, "errors"],
        hypothesis="Green <b>sells</b> more.",
        owner="Shop",
    )
    for variant, buyers in (("control", 10), ("green", 30)):
        for number in range(60):
            bought = ["purchase"] if number < buyers else []
            report(made, f"{variant}-{number}", variant, *bought)
    return made


def test_report__of_results__has_design_verdict_figures_and_method_and_no_navigation(running: Experiment) -> None:
    page = sign_in().get(address(running, "report"))
    text = text_of(page)
    for words in (
        "button Experiment in Production · 120 users since 31 Jan 2026",
        "Keep running",
        "Hypothesis Green <b>sells</b> more. Owner Shop Variants control 50 % · green 50 % Audience everyone",
        "purchase (primary) Share of users with purchase after exposure. Goal; more is better.",
        "green 60 50.00 %",
        "Method Intervals and p-values are always valid",
        "corrected by the method of Holm",
    ):
        assert words in text, words
    body = page.content.decode()
    assert "<b>sells</b>" not in body
    assert ODD not in body
    assert body.count("<svg xmlns") == 2  # the errors have no difference to draw, because there are none
    assert 'aria-label="Menu"' not in body
    assert 'rel="icon"' in body  # without one, browsers ask for /favicon.ico, which is missing


def test_report__of_another_view__says_which(running: Experiment) -> None:
    text = text_of(sign_in().get(f"{address(running, 'report')}?control=green&correction=benjamini-hochberg"))
    assert "All variants are compared with green" in text
    assert "by the method of Benjamini-Hochberg" in text


def test_report__of_a_finished_experiment__is_history() -> None:
    text = text_of(sign_in().get(address(stopped("finished"), "report")))
    assert "Stopped Stopped on 9 Feb 2026" in text
    assert "The verdict was to ship green." in text


def test_report__of_a_draft__leads_to_its_page() -> None:
    draft = ExperimentFactory(key="draft")
    response = sign_in().get(address(draft, "report"))
    assert response.url == address(draft, "change")
    assert messages_of(response) == ["draft has not started, so there is nothing to report yet."]


@pytest.mark.parametrize("kind", ["intervals", "days", "ages"])
def test_plot__of_each_kind__is_a_drawing_with_a_name_of_its_own(running: Experiment, kind: str) -> None:
    response = sign_in().get(address(running, "plot", 0, kind))
    assert response["Content-Type"] == "image/svg+xml"
    assert response["Content-Disposition"] == f'attachment; filename="button-purchase-{kind}.svg"'
    [drawing] = xml.dom.minidom.parseString(response.content).getElementsByTagName("svg")[:1]
    assert drawing.getAttribute("aria-label") == "purchase in button"
    text = text_of(response)
    assert "green" in text
    assert "120 users as of" in text


def test_plot__of_a_breakdown__has_a_row_for_each_value(running: Experiment) -> None:
    for number in range(60, 120):
        report(running, f"green-{number}", "green", "purchase", country="DE")
        report(running, f"control-{number}", "control", *["purchase"] * (number % 2), country="DE")
    address_of_plot = address(running, "plot", 0, "breakdown")
    client, query = sign_in(), "?breakdown=country"
    body = client.get(address(running) + query).content.decode()
    [link] = re.findall(f'href="({address_of_plot}[?][^"]*)"', body)
    response = client.get(html.unescape(link))
    assert response["Content-Disposition"] == 'attachment; filename="button-purchase-breakdown.svg"'
    [drawing] = xml.dom.minidom.parseString(response.content).getElementsByTagName("svg")[:1]
    assert drawing.getAttribute("aria-label") == "purchase in button by country"
    for words in ("DE green", "not recorded green"):
        assert words in text_of(response)
    assert client.get(address_of_plot).status_code == 404


def test_plot__that_does_not_exist__is_not_found(running: Experiment) -> None:
    client = sign_in()
    for arguments in ((0, "other"), (7, "intervals"), (2, "intervals")):  # the last one has no difference
        assert client.get(address(running, "plot", *arguments)).status_code == 404
    assert client.get(f"{address(running, 'plot', 0, 'intervals')}?control=none").status_code == 404


def test_results__of_metrics_with_plots__link_to_them_and_to_the_report(running: Experiment) -> None:
    body = sign_in().get(f"{address(running)}?ages=purchase").content.decode()
    for kind in ("intervals", "days", "ages"):
        assert f'href="{address(running, "plot", 0, kind)}' in body
    assert f'href="{address(running, "plot", 2, "intervals")}' not in body
    assert f'href="{address(running, "report")}' in body


@pytest.mark.parametrize("page", ["report", "plot"])
def test_page__without_the_right__is_refused(running: Experiment, page: str) -> None:
    arguments = (0, "intervals") if page == "plot" else ()
    assert sign_in("flags.view_flag").get(address(running, page, *arguments)).status_code == 403
