"""GET /v1/planner for a metric: its history from experiments and from events."""

from __future__ import annotations

import math
from typing import Any

import pytest

from experiments.exposures.recording import assign
from experiments.metrics.changes import create_metric
from tests.answers import error
from tests.conftest import ACTOR, NOON
from tests.experiments.planner.asking import DAY, NOW, PATH, ask, expose, refused
from tests.factories import EventFactory, ExperimentFactory

pytestmark = pytest.mark.usefixtures("clock")


def test_metric__that_an_experiment_has_measured__is_known_by_its_control(api: Any) -> None:
    experiment = ExperimentFactory(key="e", running=True)
    expose(experiment, 200, at=NOON)
    for number in (*range(0, 20, 2), 1):
        EventFactory(purchase=True, user_id=f"user-{number}", timestamp=NOON + DAY)
    found = ask(api, metric="purchase")
    assert found["history"] == {
        "experiment": "e",
        "from": "2026-01-31T12:00:00.000000Z",
        "to": "2026-02-10T12:00:00.000000Z",
        "users": 200,
        "usersPerDay": 20,
        "baseline": 0.1,
        "standardDeviation": None,
        "varianceReduction": None,
    }
    assert found["assumptions"]["baseline"] == 0.1
    assert found["assumptions"]["usersPerDay"] == 20
    assert found["fixedHorizon"] == {"usersPerVariant": 57760, "users": 115520, "days": 5776}
    assert found["detectable"] is None


@pytest.mark.parametrize(("users", "known_by"), [(198, "old"), (199, "new")])
def test_metric__of_few_users_in_the_newest_control__is_known_by_the_next_older_experiment(
    api: Any, users: int, known_by: str
) -> None:
    expose(ExperimentFactory(key="old", started_at=NOON), 199, at=NOON)
    expose(ExperimentFactory(key="new", started_at=NOON + DAY), users, at=NOON + DAY)
    EventFactory(purchase=True, user_id="user-0", timestamp=NOON + 2 * DAY)
    assert ask(api, metric="purchase")["history"]["experiment"] == known_by


@pytest.mark.usefixtures("few_suffice")
@pytest.mark.parametrize("buyers", [0, 2])
def test_metric__that_the_newest_experiment_cannot_tell__is_known_by_an_older_one(api: Any, buyers: int) -> None:
    """Where nobody buys, or everybody, there is nothing to plan with."""
    expose(ExperimentFactory(key="old", started_at=NOON), 4, at=NOON)
    newest = ExperimentFactory(key="new", started_at=NOON + DAY)
    for number in range(2):
        assign(newest.pk, f"new-{number}", "control", NOON + DAY)
    for user_id in ("user-0", *(f"new-{number}" for number in range(buyers))):
        EventFactory(purchase=True, user_id=user_id, timestamp=NOON + 2 * DAY)
    found = ask(api, metric="purchase")["history"]
    assert (found["experiment"], found["baseline"]) == ("old", 0.5)


def test_metric__that_no_experiment_can_tell__is_known_by_events(api: Any) -> None:
    assign(ExperimentFactory(key="e", running=True).pk, "user-0", "control", NOON)
    EventFactory(purchase=True, user_id="user-1", timestamp=NOON)
    EventFactory(user_id="user-2", timestamp=NOON)
    found = ask(api, metric="purchase")["history"]
    assert (found["experiment"], found["baseline"]) == (None, 0.5)


@pytest.mark.usefixtures("few_suffice")
def test_metric__what_was_sent__stands_before_what_is_known(api: Any) -> None:
    expose(ExperimentFactory(key="e", running=True), 10, at=NOON)
    EventFactory(purchase=True, user_id="user-0", timestamp=NOON + DAY)
    found = ask(api, metric="purchase", baseline="0.3", usersPerDay="7")
    assert found["history"]["baseline"] == 0.2
    assert (found["assumptions"]["baseline"], found["assumptions"]["usersPerDay"]) == (0.3, 7)


@pytest.mark.usefixtures("few_suffice")
def test_metric__of_several_experiments__is_known_by_the_newest_that_has_users(api: Any) -> None:
    for key, at, users in (("old", NOON, 4), ("new", NOON + DAY, 6), ("empty", NOON + 2 * DAY, 0)):
        expose(ExperimentFactory(key=key, started_at=at), users, at=at)
    EventFactory(purchase=True, user_id="user-0", timestamp=NOON + 3 * DAY)
    assert ask(api, metric="purchase")["history"]["experiment"] == "new"


def test_metric__of_another_meaning_now__is_not_known_by_the_old_one(api: Any) -> None:
    expose(ExperimentFactory(key="e", running=True), 4, at=NOON)
    EventFactory(purchase=True, user_id="user-0", timestamp=NOON + DAY)
    create_metric(key="purchase", type="count", event="purchase", actor=ACTOR, now=NOON)
    EventFactory(purchase=True, user_id="user-0", timestamp=NOON + 2 * DAY)
    EventFactory(user_id="user-9", timestamp=NOON + 2 * DAY)
    found = ask(api, metric="purchase")
    assert found["history"]["experiment"] is None
    assert found["assumptions"]["type"] == "mean"


def test_metric__that_nobody_has_measured__is_known_by_the_users_who_came_lately(api: Any) -> None:
    for number in range(40):
        EventFactory(user_id=f"user-{number}", timestamp=NOON)
        if number < 10:
            EventFactory(purchase=True, user_id=f"user-{number}", timestamp=NOON + DAY)
    EventFactory(purchase=True, user_id="long-ago", timestamp=NOW - 29 * DAY)
    EventFactory(purchase=True, user_id="user-39", timestamp=NOW - 29 * DAY)
    assert ask(api, metric="purchase")["history"] == {
        "experiment": None,
        "from": "2026-01-31T12:00:00.000000Z",
        "to": "2026-02-10T12:00:00.000000Z",
        "users": 40,
        "usersPerDay": 4,
        "baseline": 0.25,
        "standardDeviation": None,
        "varianceReduction": None,
    }


def test_metric__of_other_environments__is_not_known(staging_api: Any) -> None:
    expose(ExperimentFactory(key="e", running=True), 10, at=NOON)
    EventFactory(purchase=True, user_id="user-0", timestamp=NOON + DAY)
    details = error(staging_api.get(PATH, {"mde": 0.1, "metric": "purchase"}), 400, "invalid_parameter")["details"]
    assert [detail["field"] for detail in details] == ["baseline"]


@pytest.mark.parametrize("metric", ["purchase", "zzz"])
def test_metric__that_nobody_did__leaves_the_baseline_to_the_caller(api: Any, metric: str) -> None:
    assign(ExperimentFactory(key="e", metrics=[metric], running=True).pk, "user-0", "control", NOON)
    EventFactory(user_id="user-0", timestamp=NOON)
    sent = {"mde": "0.05", "metric": metric}
    [detail] = error(api.get(PATH, sent), 400, "invalid_parameter")["details"]
    assert (detail["field"], detail["code"]) == ("baseline", "required")
    assert detail["message"].startswith("The metric has no past data. Add")
    found = ask(api, metric=metric, baseline="0.1")
    assert (found["history"]["baseline"], found["history"]["users"]) == (None, 1)


@pytest.mark.usefixtures("few_suffice")
@pytest.mark.parametrize(
    ("columns", "baseline", "deviation"),
    [
        ({"type": "revenue", "event": "buy", "currency": "EUR"}, 10.0, math.sqrt(600 / 3)),
        ({"type": "revenue", "event": "buy", "currency": "EUR", "cap_value": 15.0}, 6.25, math.sqrt(168.75 / 3)),
        ({"type": "count", "event": "buy"}, 0.75, math.sqrt(2.75 / 3)),
        # R = 40 / 5, and the sum of (y - R d)² is (30 - 16)² + (10 - 8)² + 8² + 8²
        (
            {
                "type": "ratio",
                "event": "buy",
                "property": "revenue",
                "currency": "EUR",
                "denominator": {"event": "view"},
            },
            8.0,
            math.sqrt((14**2 + 2**2 + 8**2 + 8**2) / 3) / 1.25,
        ),
    ],
)
def test_metric__mean__is_known_with_its_spread_alike_from_experiments_and_events(
    api: Any, columns: dict[str, Any], baseline: float, deviation: float
) -> None:
    create_metric(key="m", actor=ACTOR, now=NOON, **columns)
    for user_id, views, amounts in (("a", 2, (10, 20)), ("b", 1, (10,)), ("c", 1, ()), ("d", 1, ())):
        for _ in range(views):
            EventFactory(name="view", user_id=user_id, timestamp=NOON)
        for amount in amounts:
            spent = {"revenue": amount, "currency": "EUR"}
            EventFactory(name="buy", user_id=user_id, timestamp=NOON + DAY, properties=spent)
    of_events = ask(api, metric="m")
    experiment = ExperimentFactory(key="e", metrics=["m"], running=True)
    for user_id in "abcd":
        assign(experiment.pk, user_id, "control", NOON)
    of_experiment = ask(api, metric="m")
    assert (of_events["history"]["experiment"], of_experiment["history"]["experiment"]) == (None, "e")
    for found in (of_events, of_experiment):
        assert found["assumptions"]["type"] == "mean"
        assert found["history"]["users"] == 4
        assert found["history"]["baseline"] == pytest.approx(baseline)
        assert found["history"]["standardDeviation"] == pytest.approx(deviation)


def test_metric__type_that_it_is_not__is_refused(api: Any) -> None:
    assert refused(api, metric="purchase", type="mean", standardDeviation="1")[:2] == ("type", "invalid_value")


@pytest.mark.usefixtures("few_suffice")
def test_metric__with_a_window__is_known_by_the_users_whose_window_is_over(api: Any) -> None:
    """Half of those who came first bought; nobody of the others has had the time."""
    create_metric(key="soon", type="conversion", event="purchase", window_hours=48, actor=ACTOR, now=NOON)
    experiment = ExperimentFactory(key="e", metrics=["soon"], running=True)
    expose(experiment, 20, at=NOON)
    expose(experiment, 20, at=NOW - DAY, first=20)
    for number in (*range(0, 10, 2), *range(20, 24, 2)):
        EventFactory(purchase=True, user_id=f"user-{number}", timestamp=NOW if number >= 20 else NOON + DAY)
    found = ask(api, experiment="e")["history"]
    assert (found["baseline"], found["users"], found["usersPerDay"]) == (0.5, 40, 4)


def test_metric__quantile__takes_its_baseline_from_an_experiment(api: Any) -> None:
    create_metric(key="slow", type="quantile", event="page", property="ms", quantile=0.5, actor=ACTOR, now=NOON)
    expose(ExperimentFactory(key="e", running=True, metrics=["slow"]), 200, at=NOON)
    for number in range(0, 200, 2):
        EventFactory(name="page", user_id=f"user-{number}", timestamp=NOON + DAY, properties={"ms": number})
    history = ask(api, metric="slow")["history"]
    assert (history["experiment"], history["users"]) == ("e", 200)
    assert history["baseline"] == pytest.approx(98, abs=2)


def test_metric__quantile__has_no_baseline_in_events(api: Any) -> None:
    create_metric(key="slow", type="quantile", event="page", property="ms", quantile=0.9, actor=ACTOR, now=NOON)
    EventFactory(name="page", user_id="u", timestamp=NOON, properties={"ms": 5})
    sent = {"metric": "slow", "baseline": "300", "standardDeviation": "900"}
    answer = ask(api, **sent)
    assert (answer["history"]["baseline"], answer["history"]["users"]) == (None, 1)
