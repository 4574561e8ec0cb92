"""Shipping and stopping while windows are open: what is said about them, and what goes on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from config.errors import DomainError, ValidationFailed
from config.models import Change, Environment
from events.recording import record
from experiments.exposures.assignment import get_variant
from experiments.lifecycle.changes import get_experiment, reopen_experiment, stop_experiment
from experiments.metrics.changes import create_metric
from experiments.models import Experiment, Exposure
from experiments.results.analyse import analyse_experiment
from experiments.results.archive import refresh_results
from tests.admin import messages_of, sign_in, text_of
from tests.answers import data, error
from tests.conftest import ACTOR, NOON
from tests.experiments.lifecycle.shipping import (
    A_DAY_LATER,
    OWN,
    event_at,
    flag_rules,
    record_clear_winner,
    run_experiment,
    step_arguments,
)
from tests.experiments.lifecycle.undos import ADA, START, begin, undo

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
END = A_DAY_LATER + 12 * HOUR
STOP = "/v1/experiments/e/stop"
HERE = {"opened_in": "production"}
CUT_OFF = "purchase: it cuts off the windows of 10 of 310 users"


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """A running experiment with a clear winner. The windows of 10 of its 310 users are open a day after its start."""
    create_metric(key="purchase", type="conversion", event="purchase", window_hours=12, actor=ACTOR, now=NOON - HOUR)
    made = run_experiment(production)
    record_clear_winner(production)
    for variant in ("control", "green"):
        late = [event_at(f"late-{variant}-{n}", "seen", 20 * 60, experimentId="e", variant=variant) for n in range(5)]
        record(late, production)
    return made


def stop(environment: Environment, **values: Any) -> Experiment:
    # The change log goes on today, so that its time is not that of the stop.
    return stop_experiment(**step_arguments(environment, stopped_at=A_DAY_LATER, **values))


def test_ship__windows_are_open__asks_for_a_reason_and_says_how_many(
    experiment: Experiment, production: Environment
) -> None:
    with pytest.raises(ValidationFailed) as refusal:
        stop(production, winner="green")
    assert [detail.message for detail in refusal.value.details] == [f"Give a reason for shipping green: {CUT_OFF}."]

    shipped = stop(production, winner="green", reason="We cannot wait.")
    assert shipped.decision is not None
    assert shipped.decision["overridden"] == ["users_waiting"]
    assert shipped.counts_until is None
    assert shipped.frozen_at is not None


def test_ship__and_go_on_counting__ships_at_once_and_freezes_later(
    experiment: Experiment, production: Environment
) -> None:
    shipped = stop(production, winner="green", keep_counting=True)

    assert (shipped.status, shipped.winner) == ("stopped", "green")
    assert (shipped.stopped_at, shipped.counts_until, shipped.frozen_at) == (A_DAY_LATER, END, None)
    assert flag_rules(production) == [{"type": "percentage", "percentage": 100}, *OWN]
    answer = get_variant(key="e", environment=production, user_id="new", now=A_DAY_LATER + HOUR)
    assert (answer.variant, answer.reason) == ("green", "winner")
    assert not Exposure.objects.filter(user_id="new").exists()

    record([event_at("late-control-0", "purchase", 25 * 60)], production)
    for now in (END, END + 23 * HOUR):
        refresh_results(now)
        assert get_experiment("e", production).frozen_at is None
    refresh_results(END + 24 * HOUR)
    frozen = get_experiment("e", production)
    assert frozen.frozen_at == END + 24 * HOUR
    [control, _] = analyse_experiment(frozen, END + 48 * HOUR).metrics[0].variants
    assert (control.counted_users, control.value, control.cut_off_users) == (155, 31 / 155, 0)


def test_stop__and_go_on_counting__needs_no_winner(experiment: Experiment, production: Environment) -> None:
    stopped = stop(production, keep_counting=True)

    assert (stopped.winner, stopped.counts_until) == ("", END)
    assert flag_rules(production) == OWN


@pytest.mark.parametrize("values", [{}, {"winner": "green"}], ids=["stop", "ship"])
def test_keep_counting__no_metric_has_a_window__is_refused(production: Environment, values: dict[str, Any]) -> None:
    run_experiment(production)
    record_clear_winner(production)
    with pytest.raises(ValidationFailed) as refusal:
        stop(production, keep_counting=True, **values)

    assert [detail.field for detail in refusal.value.details] == ["keepCounting"]
    assert get_experiment("e", production).status == "running"


def test_keep_counting__not_running__is_refused_for_that(experiment: Experiment, production: Environment) -> None:
    stop(production)
    with pytest.raises(DomainError, match="only a running experiment can become stopped"):
        stop(production, keep_counting=True)


def test_undo__of_a_reopening__counts_until_the_same_moment(production: Environment) -> None:
    create_metric(key="purchase", type="conversion", event="purchase", window_hours=12, actor=ACTOR, now=NOON)
    begin(production)
    step: dict[str, Any] = {"key": "e", "environment": production, "actor": ADA}
    stopped = stop_experiment(**step, now=START + HOUR / 60, keep_counting=True)
    assert reopen_experiment(**step, now=START + HOUR / 30).counts_until is None
    undo()

    assert get_experiment("e", production).counts_until == stopped.counts_until == START + HOUR / 60 + 12 * HOUR


# over HTTP


def test_stop__over_http__says_until_when_it_counts(api: Any, production: Environment, experiment: Experiment) -> None:
    assert "countsUntil" not in data(api.get("/v1/experiments/e"))
    stopped = data(api.post(STOP, {"keepCounting": True}))

    known = get_experiment("e", production)
    assert known.stopped_at is not None
    assert known.counts_until == known.stopped_at + 12 * HOUR
    results = data(api.get("/v1/experiments/e/results"))
    assert (results["countsUntil"], results["stoppedAt"]) == (stopped["countsUntil"], stopped["stoppedAt"])
    [change] = Change.objects.filter(kind="experiment").order_by("-revision")[:1]
    assert change.after is not None
    assert change.after["countsUntil"] == stopped["countsUntil"]


@pytest.mark.parametrize(
    ("value", "code"), [("true", "invalid_type"), (1, "invalid_type"), (None, "invalid_type"), (True, "invalid_value")]
)
def test_stop__over_http__names_the_field_of_bad_input(
    api: Any, production: Environment, value: Any, code: str
) -> None:
    run_experiment(production)
    [detail] = error(api.post(STOP, {"keepCounting": value}), 400, "validation_failed")["details"]

    assert (detail["field"], detail["code"]) == ("keepCounting", code)


# in the admin


def page(name: str, experiment: Experiment) -> str:
    return reverse(f"admin:experiments_experiment_{name}", args=[experiment.pk])


@pytest.mark.parametrize("name", ["stop", "ship"])
def test_page__windows_are_open__says_of_how_many_users(experiment: Experiment, name: str) -> None:
    Exposure.objects.filter(user_id__startswith="late").update(exposed_at=timezone.now())
    text = text_of(sign_in().get(page(name, experiment)))

    assert "What happens to windows that are still open?" in text
    assert "purchase: the windows of 10 of 310 users are open." in text
    assert "Go on counting" in text


@pytest.mark.parametrize("name", ["stop", "ship"])
def test_page__no_metric_has_a_window__does_not_ask(production: Environment, name: str) -> None:
    text = text_of(sign_in().get(page(name, run_experiment(production))))

    assert "windows" not in text


@pytest.mark.parametrize(
    ("name", "sent", "done"),
    [
        ("stop", {}, "e is stopped. Open windows go on counting."),
        (
            "ship",
            {"winner": "green"},
            "green is shipped to the audience of the experiment. e is stopped. Open windows go on counting.",
        ),
    ],
    ids=["stop", "ship"],
)
def test_page__go_on_counting__does_so_and_shows_until_when(
    experiment: Experiment, name: str, sent: dict[str, str], done: str
) -> None:
    client = sign_in()
    response = client.post(page(name, experiment), {**HERE, **sent, "keep_counting": "true"})

    assert messages_of(response) == [done]
    stopped = get_experiment("e", experiment.environment)
    assert stopped.counts_until is not None
    assert stopped.frozen_at is None
    assert "windows count until" in text_of(client.get(page("results", experiment)))
    assert "Windows count until" in text_of(client.get(page("change", experiment)))
