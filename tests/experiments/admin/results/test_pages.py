"""The results page, its files and its explanations: who may open them, what they show, and with how many queries."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.urls import reverse

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.admin.results.pages import Explanation, ExplanationStep, build_explanation
from experiments.metrics.changes import create_metric
from experiments.metrics.definition import Quantity
from experiments.models import Experiment
from tests.admin import messages_of, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.admin.results.made import CONVERSION, REVENUE
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db


def address(experiment: Experiment, page: str = "results", *more: Any) -> str:
    return reverse(f"admin:experiments_experiment_{page}", args=[experiment.pk, *more])


def report(experiment: Experiment, user: str, variant: str, *names: str, **attributes: Any) -> None:
    """A user who is exposed, and does something an hour later."""
    at = NOON + timedelta(minutes=1)
    exposed = {"experimentId": experiment.key, "variant": variant, **attributes}
    later = at + timedelta(hours=1)
    done = [NewEvent(new_id(), user, name, later, later, {}) for name in names]
    record([NewEvent(new_id(), user, "seen", at, at, exposed), *done], experiment.environment)


@pytest.fixture
def running() -> Experiment:
    """Four users in each variant; one and two of them bought something."""
    experiment: Experiment = ExperimentFactory(key="button", running=True)
    for variant, buyers in (("control", 1), ("green", 2)):
        for number in range(4):
            bought = ["purchase"] if number < buyers else []
            report(experiment, f"{variant}-{number}", variant, *bought, country="DE" if number % 2 else "FR")
    return experiment


def test_results__of_users_and_events__are_reported_in_words(running: Experiment) -> None:
    page = sign_in().get(address(running))
    text = text_of(page)
    assert "Keep running" in text
    assert "8 users since 31 Jan 2026" in text
    assert "purchase Primary Goal More is better Share of users with purchase after exposure." in text
    assert "control control 4 25.00 %" in text
    assert "green 4 50.00 %" in text
    assert 'aria-label="How green is computed"' in page.content.decode()
    assert "Day by day green lift over the control" in text


@pytest.mark.django_db(transaction=True)
def test_results__of_ten_metrics__take_few_queries(django_assert_max_num_queries: Any) -> None:
    metrics = [f"metric-{number}" for number in range(10)]
    variants = [{"key": f"variant-{number}", "weight": 1} for number in range(10)]
    experiment = ExperimentFactory(running=True, variants=variants, metrics=metrics)
    for number in range(30):
        report(experiment, f"user-{number}", f"variant-{number % 10}", *metrics[: number % 12])
    client = sign_in()
    client.get(address(experiment))  # the first look counts all events
    with django_assert_max_num_queries(28):
        response = client.get(address(experiment))
    assert [len(card.rows) for card in response.context["panel"].cards] == len(metrics) * [10]


def test_results__without_users__say_what_is_missing() -> None:
    text = text_of(sign_in().get(address(ExperimentFactory(running=True))))
    assert "Keep running" in text
    assert "0 users since" in text
    assert "For one look alone" in text


def test_results__without_metrics__are_users_alone() -> None:
    experiment = ExperimentFactory(running=True, metrics=[])
    report(experiment, "ada", "green")
    text = text_of(sign_in().get(address(experiment)))
    assert "1 user since" in text
    assert "The experiment has no metrics" in text


def test_results__of_a_draft__are_none_yet() -> None:
    text = text_of(sign_in().get(address(ExperimentFactory(key="draft"))))
    assert "draft has not started, so there are no results yet." in text
    assert "Control" not in text


def test_results__of_a_stopped_experiment__say_since_when(production: Environment) -> None:
    experiment = ExperimentFactory(stopped=True)
    assert "from 31 Jan 2026 to 31 Jan 2026" in text_of(sign_in().get(address(experiment)))


def test_results__that_are_frozen__are_final() -> None:
    experiment = ExperimentFactory(stopped=True)
    client = sign_in()
    client.get(address(experiment))
    Experiment.objects.filter(pk=experiment.pk).update(frozen_at=NOON + timedelta(days=2))
    assert "final: later events do not change them" in text_of(client.get(address(experiment)))


def test_results__with_another_control__compare_with_that(running: Experiment) -> None:
    response = sign_in().get(address(running), {"control": "green", "correction": "benjamini-hochberg"})
    assert "green control 4 50.00 %" in text_of(response)
    [card] = response.context["panel"].cards
    assert [row.key for row in card.treatments] == ["control"]


def test_results__broken_down__have_a_table_by_value(running: Experiment) -> None:
    response = sign_in().get(address(running), {"breakdown": "country"})
    assert "By country green: the effect is not shown to differ" in text_of(response)
    assert "<option selected>country</option>" in response.content.decode()
    [card] = response.context["panel"].cards
    assert sorted(group.label for group in card.slices.groups) == ["DE", "FR"]


def test_results__with_an_audit__tell_what_takes_longer_to_find_out(running: Experiment) -> None:
    assert "Assignment mismatches" not in text_of(sign_in().get(address(running)))
    text = text_of(sign_in(username="bob").get(address(running), {"audit": "true"}))
    assert "Events before exposure: none" in text
    assert re.search(r"Assignment mismatches: \d+ of \d+ exposures: \d+ reported by clients or imported", text)
    assert "Exposures outside the run: none" in text


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"control": "red"}, "control: Must be a variant of the experiment: control, green."),
        ({"breakdown": "plan"}, "breakdown: Must be an attribute of its users: country."),
        ({"breakdown": "a\0b"}, "breakdown: Must be an attribute of its users: country."),
        ({"breakdown": "x" * 5_000}, "breakdown: Must be an attribute of its users: country."),
        ({"correction": "none"}, "correction: Must be a correction: holm, benjamini-hochberg."),
    ],
)
def test_results__by_what_there_is_not__say_what_there_is(
    running: Experiment, choice: dict[str, str], words: str
) -> None:
    response = sign_in().get(address(running), choice)
    assert messages_of(response) == [words]
    assert "control control 4 25.00 %" in text_of(response)


def test_results__by_default__have_the_course_of_the_first_goal() -> None:
    guardrail = {"key": "errors", "type": "count", "event": "error", "role": "guardrail"}
    create_metric(**guardrail, actor=ACTOR, now=NOON)
    experiment = ExperimentFactory(running=True, metrics=["errors", "purchase", "visit"])
    report(experiment, "ada", "control")
    client = sign_in()

    def drawn(**chosen: str) -> list[str]:
        cards = client.get(address(experiment), chosen).context["panel"].cards
        return [card.definition.key for card in cards if card.days]

    assert drawn() == ["purchase"]
    assert drawn(daily="visit") == ["visit"]
    assert drawn(daily="nothing") == ["purchase"]


def test_results__as_files__are_those_of_the_api(running: Experiment, api: Any) -> None:
    client = sign_in()
    table = client.get(address(running, "results_csv"), {"control": "green"})
    assert table["Content-Disposition"] == 'attachment; filename="button.csv"'
    rows = list(csv.DictReader(io.StringIO(table.content.decode())))
    assert [(row["metric"], row["variant"], row["value"]) for row in rows] == [
        ("purchase", "control", "0.25"),
        ("purchase", "green", "0.5"),
    ]
    document = client.get(address(running, "results_json")).json()
    assert {**document, "asOf": None} == {**api.get("/v1/experiments/button/results").json()["data"], "asOf": None}


@pytest.mark.parametrize("page", ["results_csv", "results_json"])
@pytest.mark.parametrize("choice", [{"control": "nope"}, {"correction": "none"}, {"breakdown": "a\0b"}])
def test_results__as_files_by_what_there_is_not__are_not_found(
    running: Experiment, page: str, choice: dict[str, str]
) -> None:
    client = sign_in()
    assert client.get(address(running, page), choice).status_code == 404


@pytest.mark.parametrize(
    ("asked_for", "control"),
    [({"control": "green", "breakdown": "country"}, "green"), ({"control": "nope"}, "control")],
)
def test_results__links_to_files__have_what_the_page_shows(
    running: Experiment, asked_for: dict[str, str], control: str
) -> None:
    client = sign_in()
    links = re.findall(r'href="([^"]+)" download', client.get(address(running), asked_for).content.decode())
    table, document, *plots = (client.get(unescape(link)) for link in links)
    expected = 3 if "breakdown" in asked_for else 2
    assert [plot["Content-Type"] for plot in plots] == expected * ["image/svg+xml"]
    assert table.status_code == 200
    assert document.json()["control"] == control
    assert ("breakdown" in document.json()) == ("breakdown" in asked_for)


def test_explanation__of_a_variant__leads_from_events_to_the_figure(running: Experiment) -> None:
    text = text_of(sign_in().get(address(running, "explanation", 0), {"variant": "green"}))
    assert "purchase in green" in text
    assert "Events by users who were exposed to the variant. 2 2" in text
    assert "Exposed users 4 Users with such an event 2 Share of exposed users 50.00 %" in text


def test_explanation__of_a_draft__counts_nothing() -> None:
    text = text_of(sign_in().get(address(ExperimentFactory(), "explanation", 0)))
    assert "purchase in control" in text
    assert "Share of exposed users \u2013" in text


@pytest.mark.parametrize(("place", "variant"), [(1, "green"), (0, "red")])
def test_explanation__of_what_there_is_not__is_not_found(running: Experiment, place: int, variant: str) -> None:
    assert sign_in().get(address(running, "explanation", place), {"variant": variant}).status_code == 404


@pytest.mark.parametrize("page", [("results",), ("results_csv",), ("results_json",), ("explanation", 0)])
class TestPages:
    def test_page__for_who_may_look__is_shown(self, running: Experiment, page: tuple[Any, ...]) -> None:
        assert sign_in("experiments.view_experiment").get(address(running, *page)).status_code == 200

    def test_page__for_others__is_forbidden(self, running: Experiment, page: tuple[Any, ...]) -> None:
        assert sign_in("flags.view_flag").get(address(running, *page)).status_code == 403

    def test_page__of_another_environment__is_not_found(self, running: Experiment, page: tuple[Any, ...]) -> None:
        client = sign_in()
        client.post(reverse("admin:switch_environment"), {"environment": "staging"})
        assert client.get(address(running, *page)).status_code == 302


STEPS = [{"name": "events_of_the_name", "description": "Events named purchase.", "rows": 1_500, "users": 1_200}]
NONE = {"cap": None, "cappedUsers": 0, "denominatorSteps": None, "denominatorSum": None}


def explain(definition: Any, **document: Any) -> Explanation:
    return build_explanation(definition, {"users": 10_000, "steps": STEPS, **NONE, **document})


def test_explanation__of_a_share__ends_in_its_value() -> None:
    explanation = explain(CONVERSION, sum=1_134.0, value=0.1134)
    assert explanation.steps == [ExplanationStep("Events named purchase.", "1,500", "1,200")]
    assert explanation.denominator == []
    assert explanation.sums == [
        ("Exposed users", "10,000"),
        ("Users with such an event", "1,134"),
        ("Share of exposed users", "11.34 %"),
    ]


def test_explanation__with_a_cap__counts_the_users_above_it() -> None:
    explanation = explain(REVENUE, cap=312.5, cappedUsers=12, sum=4_500.0, value=0.45)
    assert explanation.words.endswith("capped at the 99th percentile (312.50)")
    assert ("Users above the cap of 312.50", "12") in explanation.sums
    assert explanation.sums[-2:] == [("Sum over all users", "4,500"), ("Sum divided by exposed users", "0.4500")]


def test_explanation__of_a_ratio__has_two_lists_of_steps() -> None:
    ratio = replace(REVENUE, type="ratio", denominator=Quantity("visit"), cap_percentile=None)
    explanation = explain(ratio, denominatorSteps=STEPS, denominatorSum=0.0, sum=4_500.0, value=None)
    assert explanation.denominator == explanation.steps
    assert explanation.sums[1:] == [
        ("Numerator, over all users", "4,500"),
        ("Denominator, over all users", "0"),
        ("Numerator divided by denominator", "\u2013"),
    ]
