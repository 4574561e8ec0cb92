"""The planner in the admin: who finds it, what it asks, and what it says."""

from __future__ import annotations

import html
import re
import xml.dom.minidom
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
import time_machine

from config.models import Environment
from experiments.exposures.recording import assign
from experiments.metrics.changes import create_metric
from tests.admin import AdminClient, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.factories import EventFactory, ExperimentFactory

PAGE = "/admin/experiments/experiment/planner/"
DAY = timedelta(days=1)


@pytest.fixture
def reader(db: None) -> AdminClient:
    return sign_in("experiments.view_experiment")


def errors(response: Any) -> dict[str, list[str]]:
    return {name: list(found) for name, found in response.context["form"].errors.items()}


def test_planner__those_who_may_look_at_experiments__find_it_in_the_sidebar(reader: AdminClient) -> None:
    assert f'href="{PAGE}"' in reader.get("/admin/").content.decode()
    assert reader.get(PAGE).status_code == 200


def test_planner__opened__is_what_the_sidebar_marks_and_not_the_list_above_it(reader: AdminClient) -> None:
    response = reader.get(PAGE)
    links = [link for group in response.context["sidebar_navigation"] for link in group["items"]]
    assert [link["title"] for link in links if link["active"]] == ["Planner"]
    listed = reader.get("/admin/experiments/experiment/").context["sidebar_navigation"]
    assert [link["title"] for group in listed for link in group["items"] if link["active"]] == ["Experiments"]


@pytest.mark.django_db
def test_planner__others__neither_find_nor_open_it() -> None:
    other = sign_in("flags.view_flag")
    assert PAGE not in other.get("/admin/").content.decode()
    assert other.get(PAGE).status_code == 403


def test_planner__opened__asks_and_blames_nobody(reader: AdminClient) -> None:
    response = reader.get(PAGE)
    assert "Enter a metric" in text_of(response)
    assert response.context["form"]["mde"].value() == "5 %"
    assert not errors(response)


def test_planner__rate__says_what_it_takes_by_either_test(reader: AdminClient) -> None:
    text = text_of(reader.get(PAGE, {"mde": "0.05", "baseline": "0.1", "users_per_day": "5000"}))
    assert "To detect an increase of 5 %, from 10 % to 10.5 % of users" in text
    assert "0 100,000 200,000" in text  # the users of all variants, below the curves
    assert "Check at any time 29 days (4.1 weeks) 143,588 users 71,794 in each of 2 variants" in text
    assert "Check once, at the end 24 days (3.4 weeks) 115,520 users 57,760 in each of 2 variants" in text
    assert "a day;" not in text


def test_planner__metric_without_history__asks_for_the_baseline_in_the_words_of_the_api(reader: AdminClient) -> None:
    [message_of_field] = errors(reader.get(PAGE, {"mde": "0.05", "metric": "zzz"}))["baseline"]
    assert message_of_field.startswith("The metric has no past data. Add the")


def test_planner__weights__says_what_the_smallest_variant_needs(reader: AdminClient) -> None:
    ExperimentFactory(key="e", variants=[{"key": "a", "weight": 90}, {"key": "b", "weight": 10}])
    text = text_of(reader.get(PAGE, {"mde": "0.05", "baseline": "0.1", "experiment": "e"}))
    assert "326,435 users 32,644 in the smallest of 2 variants" in text


def test_planner__users_who_hardly_differ__draws_what_there_is(reader: AdminClient) -> None:
    sent = {"mde": "0.05", "type": "mean", "baseline": "1e12", "standard_deviation": "1e-9"}
    assert "4 users 2 in each of 2 variants" in text_of(reader.get(PAGE, sent))


def test_planner__nobody_knows_how_many_come_a_day__says_users_first(reader: AdminClient) -> None:
    text = text_of(reader.get(PAGE, {"mde": "-0.05", "baseline": "20", "standard_deviation": "45", "type": "mean"}))
    assert "To detect a decrease of 5 %, from 20 to 19" in text
    assert "Check once, at the end 63,578 users 31,789 in each of 2 variants" in text


SHARES = {"mde": "0.05", "baseline": "0.1", "power": "0.9", "alpha": "0.1", "variance_reduction": "0.3"}
TYPED = {
    "mde": "5",
    "baseline": "10 %",
    "power": "90",
    "alpha": "10%",
    "variance_reduction": "30,0",
    "in_percent": "true",
}


def test_planner__numbers_in_percent__mean_what_shares_mean_in_other_addresses(reader: AdminClient) -> None:
    by_shares, by_percent = (reader.get(PAGE, sent) for sent in (SHARES, TYPED))
    assert by_shares.context["panel"] == by_percent.context["panel"]
    shown = {name: by_shares.context["form"][name].value() for name in SHARES}
    assert shown == {"mde": "5 %", "baseline": "0.1", "power": "90 %", "alpha": "10 %", "variance_reduction": "30 %"}
    assert by_percent.context["form"]["variance_reduction"].value() == "30,0"


def test_planner__share_typed_into_the_form__is_refused_because_it_could_be_a_percentage(reader: AdminClient) -> None:
    typed = {**TYPED, "mde": "0.05", "power": "1,234.5"}
    assert errors(reader.get(PAGE, typed)) == {
        "mde": ["Could mean 0.05 % or 5 %. Write one of them, with the percent sign."],
        "power": ["Write 1234.5, without a mark between thousands."],
    }


@pytest.mark.parametrize(
    ("typed", "field", "message"),
    [
        ({"baseline": ""}, "baseline", "Add the value of the control"),
        ({"baseline": "2"}, "baseline", "Must be above 0 and below 1"),
        ({"baseline": "much"}, "baseline", "Must be a number"),
        ({"mde": ""}, "mde", "Add the smallest effect to find, such as 5 %."),
        ({"mde": "15"}, "mde", "Must be from 0.01 %"),
        ({"mde": "9.5", "baseline": "0.2"}, "mde", "Must leave the rate below 1: send less than 4, which is 400 %"),
        ({"mde": "0"}, "mde", "Must be from 0.01 % to 1,000 %; for a fall, below 0 % and above -100 %."),
        ({"type": "mean"}, "standard_deviation", "There is no past data. Add the standard deviation"),
        ({"standard_deviation": "1"}, "standard_deviation", "Must be left out"),
        ({"variants": "2.5"}, "variants", "Must be a whole number"),
        ({"variants": "51"}, "variants", "Must be from 2 to 50."),
        ({"users_per_day": "-1"}, "users_per_day", "Must be from 0.01"),
        ({"power": "2"}, "power", "Must be from 50 % to 99.99 %."),
        ({"alpha": "2"}, "alpha", "Must be from 0.0001 % to 20 %."),
        ({"tuning_sample_size": "1"}, "tuning_sample_size", "Must be 100 to"),
        ({"variance_reduction": "1"}, "variance_reduction", "Must be from 0 % to 99 %."),
        ({"type": "share"}, "type", "Select a valid choice"),
        (
            {"experiment": "nobody"},
            "experiment",
            "No experiment in this environment has the key 'nobody'; send another key",
        ),
        ({"experiment": "\0"}, "experiment", ""),
        ({"metric": "\0"}, "metric", ""),
    ],
)
def test_planner__bad_input__is_reported_at_its_field(
    reader: AdminClient, typed: dict[str, str], field: str, message: str
) -> None:
    response = reader.get(PAGE, {"mde": "0.05", "baseline": "0.1", **typed})
    assert response.status_code == 200
    [message_of_field] = errors(response)[field]
    assert message_of_field.startswith(message)
    assert "panel" not in response.context


def test_planner__bad_input_among_what_is_folded__opens_it(reader: AdminClient) -> None:
    opened = '<details class="hy-fold" open>'
    assert opened in reader.get(PAGE, {"mde": "0.05", "baseline": "0.1", "power": "2"}).content.decode()
    assert opened not in reader.get(PAGE, {"mde": "0.05", "baseline": "0.1"}).content.decode()


@time_machine.travel(NOON + 5 * DAY, tick=False)
def test_planner__metric_and_experiment__says_what_is_known_and_what_it_finds_by_each_day(reader: AdminClient) -> None:
    experiment = ExperimentFactory(key="checkout", running=True)
    for number in range(200):
        assign(experiment.pk, f"user-{number}", ("control", "green")[number % 2], NOON)
        if number % 5 == 0:
            EventFactory(purchase=True, user_id=f"user-{number}", timestamp=NOON + DAY)
    response = reader.get(PAGE, {"mde": "0.05", "experiment": "checkout"})
    text = text_of(response)
    assert "Based on checkout, 31 Jan 2026 to 5 Feb 2026: 200 users, 40 a day; the control has 20 %." in text
    assert "31 Jan 2026 200" in text
    assert "6 Feb 2026 forecast 240" in text
    assert len(response.context["panel"].by_days.days) == 6 + 28


def test_planner__environment__is_the_one_that_the_reader_works_in(reader: AdminClient, staging: Environment) -> None:
    ExperimentFactory(key="of-staging", environment=staging)
    sent = {"mde": "0.05", "baseline": "0.1", "experiment": "of-staging"}
    assert errors(reader.get(PAGE, sent))
    reader.post("/admin/config/environment/switch/", {"environment": "staging"})
    assert not errors(reader.get(PAGE, sent))


def test_planner__opened__offers_the_metrics_and_experiments_there_are(reader: AdminClient) -> None:
    create_metric(key="spent", type="revenue", event="purchase", currency="EUR", actor=ACTOR, now=NOON)
    ExperimentFactory(key="checkout")
    page = reader.get(PAGE).content.decode()
    assert '<option value="spent">' in page
    assert '<option value="checkout">' in page


def test_planner__plain_rate__takes_seven_queries(reader: AdminClient, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(7):  # session, user, two for permissions, environments, metrics, experiments
        reader.get(PAGE, {"mde": "0.05", "baseline": "0.1"})


@time_machine.travel(NOON + 5 * DAY, tick=False)
def test_planner__experiment_with_guardrails__says_when_they_are_safe(reader: AdminClient) -> None:
    for key, margin in (("errors", {"margin": 0.2}), ("refunds", {"margin_absolute": 1e-9}), ("crashes", {})):
        create_metric(key=key, type="conversion", event=key, role="guardrail", actor=ACTOR, now=NOON, **margin)
    experiment = ExperimentFactory(key="e", metrics=["purchase", "errors", "refunds", "crashes"], running=True)
    for number in range(200):
        assign(experiment.pk, f"user-{number}", ("control", "green")[number % 2], NOON)
        if number % 4 == 0:
            for name in ("errors", "refunds"):
                EventFactory(name=name, user_id=f"user-{number}", timestamp=NOON + DAY)
    text = text_of(reader.get(PAGE, {"mde": "0.05", "baseline": "0.1", "experiment": "e"}))
    assert "Until the guardrails are shown safe" in text
    # 322.77 a variant by statsmodels' TTestIndPower, one-sided at 0.025, with d = 0.2 / √((1 + 0.8²) / 2), less z²/4.
    assert "errors 20 % 1,361 users 644 users" in text
    assert "refunds 1e-09 too many too many crashes 10 % no past data no past data" in text


def test_planner__window_and_reduction__are_said(reader: AdminClient) -> None:
    create_metric(key="back", type="retention", event="visit", from_day=7, to_day=14, actor=ACTOR, now=NOON)
    sent = {"mde": "0.05", "baseline": "0.1", "metric": "back", "users_per_day": "5000", "variance_reduction": "0.3"}
    text = text_of(reader.get(PAGE, sent))
    assert "CUPED is expected to remove 30 % of the variance." in text
    assert "The days include 14 days at the end, until the windows of the last users are over." in text


def test_planner__no_effect__is_the_smallest_effect_of_the_experiment(reader: AdminClient) -> None:
    ExperimentFactory(key="e", minimum_effect=0.08)
    text = text_of(reader.get(PAGE, {"mde": "", "baseline": "0.1", "experiment": "e"}))
    assert "To detect an increase of 8 % in purchase, from 10 % to 10.8 % of users" in text


# --- the charts as files ---------------------------------------------------------------------------------------------


RATE = {"mde": "0.05", "baseline": "0.1", "users_per_day": "5000"}


def test_chart__of_a_plan__is_a_drawing_to_download(reader: AdminClient) -> None:
    body = reader.get(PAGE, RATE).content.decode()
    [link] = re.findall(r'href="([^"]+[.]svg[^"]*)" download', body)
    response = reader.get(html.unescape(link))
    assert response["Content-Type"] == "image/svg+xml"
    assert response["Content-Disposition"] == 'attachment; filename="plan-users.svg"'
    [drawing] = xml.dom.minidom.parseString(response.content).getElementsByTagName("svg")[:1]
    assert drawing.getAttribute("aria-label") == "Smallest detectable effect by users of all variants"
    assert "To detect an increase of 5 %, from 10 % to 10.5 % of users" in text_of(response)


@time_machine.travel(NOON + 5 * DAY, tick=False)
def test_chart__by_day__is_there_for_a_running_experiment(reader: AdminClient) -> None:
    experiment = ExperimentFactory(key="checkout", running=True)
    for number in range(200):
        assign(experiment.pk, f"user-{number}", ("control", "green")[number % 2], NOON)
        if number % 5 == 0:
            EventFactory(purchase=True, user_id=f"user-{number}", timestamp=NOON + DAY)
    query = {"mde": "0.05", "experiment": "checkout"}
    assert f"{PAGE}days.svg" in reader.get(PAGE, query).content.decode()
    response = reader.get(f"{PAGE}days.svg", query)
    [drawing] = xml.dom.minidom.parseString(response.content).getElementsByTagName("svg")[:1]
    assert drawing.getAttribute("aria-label") == "Smallest detectable effect by day"
    assert "31 Jan 2026 5 Mar 2026" in text_of(response)


@pytest.mark.parametrize(("kind", "query"), [("other", RATE), ("days", RATE), ("users", {}), ("users", {"mde": "x"})])
def test_chart__that_does_not_exist__is_not_found(reader: AdminClient, kind: str, query: dict[str, str]) -> None:
    assert reader.get(f"{PAGE}{kind}.svg", query).status_code == 404


@pytest.mark.django_db
def test_chart__without_the_right__is_refused() -> None:
    assert sign_in("flags.view_flag").get(f"{PAGE}users.svg", RATE).status_code == 403


# --- a draft that takes over a plan ----------------------------------------------------------------------------------


@pytest.mark.django_db
def test_use_this_plan__of_a_draft__writes_size_effect_and_analysis() -> None:
    experiment = ExperimentFactory(key="e")
    client = sign_in("experiments.view_experiment", "experiments.change_experiment")
    body = client.get(PAGE, {**RATE, "experiment": "e", "mde": "-0.05"}).content.decode()
    links = [html.unescape(link) for link in re.findall(r'href="([^"]+/use_plan/[^"]+)"', body)]
    assert [link.split("/")[-2] for link in links] == ["sequential", "fixed"]
    for link, size in zip(
        links, (experiment_size(client, "alwaysValid"), experiment_size(client, "fixed")), strict=True
    ):
        assert f"The planned size becomes {size:,} users" in text_of(client.get(link))
        response = client.post(link, {"opened_in": "production", "reason": "As planned."})
        assert response.status_code == 302
        experiment.refresh_from_db()
        assert (experiment.planned_size, experiment.minimum_effect) == (size, 0.05)
    assert experiment.analysis == "fixed"


def experiment_size(client: AdminClient, test: str) -> int:
    """The size that the page of the planner shows for a test."""
    panel = client.get(PAGE, {**RATE, "experiment": "e", "mde": "-0.05"}).context["panel"]
    answer = panel.always_valid if test == "alwaysValid" else panel.fixed_horizon
    return int(answer.users.removesuffix(" users").replace(",", ""))


@pytest.mark.django_db
def test_use_this_plan__without_the_right_or_of_a_running_one__is_not_offered() -> None:
    draft, running = ExperimentFactory(key="e"), ExperimentFactory(key="r", running=True)
    reader = sign_in("experiments.view_experiment")
    assert "use_plan" not in reader.get(PAGE, {**RATE, "experiment": "e"}).content.decode()
    address = f"/admin/experiments/experiment/{{}}/use_plan/{{}}/?{urlencode(RATE)}"
    assert reader.get(address.format(draft.pk, "fixed")).status_code == 403
    writer = sign_in("experiments.view_experiment", "experiments.change_experiment", username="eve")
    assert "use_plan" not in writer.get(PAGE, {**RATE, "experiment": "r"}).content.decode()
    assert writer.post(address.format(running.pk, "fixed")).status_code == 403
    assert writer.get(address.format(draft.pk, "often")).status_code == 404
    draft.refresh_from_db()
    assert draft.planned_size is None
