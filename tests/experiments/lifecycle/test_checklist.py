"""The checklist of an experiment: what makes each check ok, a warning or a problem."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.models import Environment
from experiments.exposures.recording import assign
from experiments.lifecycle.checklist import Check, Level, check_experiment
from experiments.lifecycle.new_phase import open_phase
from experiments.metrics.changes import create_metric, update_metric
from experiments.metrics.definition import definitions_of
from experiments.models import Experiment
from experiments.planner.calibration_outcomes import CalibrationOutcome, store_outcomes
from flags.models import FlagState
from tests.answers import data, error
from tests.conftest import ACTOR, NOON
from tests.factories import EventFactory, ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def find(experiment: Experiment, check: Check, at: Any = NOON) -> tuple[str, str]:
    """Return the status and the message of the only finding of this check."""
    [found] = [finding for finding in check_experiment(experiment, at) if finding.check is check]
    return found.status, found.message


def define(key: str, **values: Any) -> None:
    create_metric(**{"key": key, "type": "conversion", "event": key, "actor": ACTOR, "now": NOON, **values})


def test_checklist__of_any_experiment__has_every_check_in_order() -> None:
    found = check_experiment(ExperimentFactory(metrics=["purchase", "look"]), NOON)
    twice = [Check.METRIC_SEEN, Check.CALIBRATION]
    assert [finding.check for finding in found] == sorted([*Check, *twice], key=list(Check).index)


def test_primary_metric__first_goal__decides() -> None:
    define("errors", role="guardrail")
    assert find(ExperimentFactory(metrics=["errors", "purchase"]), Check.PRIMARY_METRIC) == (
        Level.OK,
        "purchase decides the experiment: it is the first metric that is a goal.",
    )
    status, message = find(ExperimentFactory(metrics=["errors"]), Check.PRIMARY_METRIC)
    assert (status, message.partition(",")[0]) == (Level.PROBLEM, "No metric is a goal")


@pytest.mark.parametrize(
    ("days_ago", "status", "message"),
    [
        (0, Level.OK, "purchase: events in the last 7 days: 2 of purchase."),
        (6, Level.OK, "purchase: events in the last 7 days: 2 of purchase."),
        (8, Level.WARNING, "purchase: no event purchase in the last 7 days; check that it is tracked."),
    ],
)
def test_metric_seen__events_of_the_last_week__count(days_ago: int, status: str, message: str) -> None:
    for _ in range(2):
        EventFactory(purchase=True, timestamp=NOON - days_ago * DAY)
    assert find(ExperimentFactory(), Check.METRIC_SEEN) == (status, message)


def test_metric_seen__ratio__looks_for_both_of_its_events(staging: Environment) -> None:
    nothing = {"property": "", "currency": ""}
    define("price", type="ratio", event="purchase", denominator={"event": "look", **nothing})
    EventFactory(purchase=True)
    EventFactory(name="look", environment=staging)
    assert find(ExperimentFactory(metrics=["price"]), Check.METRIC_SEEN) == (
        Level.PROBLEM,
        "price: no event look was ever received; check the spelling, and that it is tracked.",
    )


@pytest.mark.parametrize(
    ("weights", "status", "message"),
    [
        ((1, 1), Level.OK, "The split is a 50.0 %, b 50.0 %."),
        ((0, 1), Level.PROBLEM, "The control gets no users, so there is nothing to compare: b 100.0 %."),
        ((1, 0), Level.PROBLEM, "Only the control gets users, so there is nothing to compare."),
        ((1, 3, 0), Level.WARNING, "Variants without users: c. The split is a 25.0 %, b 75.0 %."),
    ],
)
def test_weights__of_each_kind__are_reported(weights: tuple[float, ...], status: str, message: str) -> None:
    variants = [{"key": key, "weight": weight} for key, weight in zip("abc", weights, strict=False)]
    assert find(ExperimentFactory(variants=variants), Check.WEIGHTS) == (status, message)


SERVES = {"control": False, "green": True}


@pytest.mark.parametrize(
    ("is_on", "status", "message"),
    [
        (
            True,
            Level.OK,
            "The flag new is on, no other experiment drives it, and it can serve every variant. Users outside the "
            "audience see what the flag serves without it.",
        ),
        (False, Level.PROBLEM, "The flag new is off in production, so nobody sees a variant; turn it on."),
    ],
)
def test_flag__to_be_driven__must_be_on(is_on: bool, status: str, message: str) -> None:
    FlagFactory(key="new", enabled=is_on)
    experiment = ExperimentFactory(flag={"key": "new", "serves": SERVES})
    assert find(experiment, Check.FLAG) == (status, message)


def test_flag__with_rules_around_the_experiment__says_who_reaches_it() -> None:
    half = {"type": "percentage", "percentage": 50}
    FlagFactory(key="new", on=True, rules=[half] * 4)
    experiment = ExperimentFactory(flag={"key": "new", "serves": SERVES, "position": 3})
    status, message = find(experiment, Check.FLAG)
    assert status == Level.OK
    assert message.endswith(
        "Users whom one of the 3 rules before the experiment matches are not in it. "
        "Users outside the audience go on to the rule after it."
    )


@pytest.mark.parametrize("parts", [{}, {"enabled": True}, {"conditions": []}])
@pytest.mark.parametrize(("position", "status"), [(1, Level.OK), (2, Level.PROBLEM)])
def test_flag__whose_earlier_rule_matches_everyone__is_a_problem(
    position: int, status: str, parts: dict[str, object]
) -> None:
    everyone = {"type": "percentage", "percentage": 100}
    rules = [{**everyone, "enabled": False}, {**everyone, **parts}]
    FlagFactory(key="new", on=True, rules=rules)
    experiment = ExperimentFactory(flag={"key": "new", "serves": SERVES, "position": position})
    found = find(experiment, Check.FLAG)
    assert (found[0], "Rule 2 of the flag new matches everyone" in found[1]) == (status, status == Level.PROBLEM)


@pytest.mark.parametrize(("number", "status"), [(199, Level.OK), (200, Level.PROBLEM)])
def test_flag__to_be_driven__must_have_room_for_its_rule(number: int, status: str) -> None:
    FlagFactory(key="button", on=True)
    experiment = ExperimentFactory(flag={"key": "button", "serves": SERVES})
    FlagState.objects.update(rules=[{"type": "percentage", "percentage": 1}] * number)
    found = find(experiment, Check.FLAG)
    full = "flag.key: The flag button has 200 rules, the most that it may have; remove one."
    assert (found[0], found[1] == full) == (status, number == 200)


def test_flag__full_with_the_rule_of_this_very_experiment__is_fine() -> None:
    FlagFactory(key="button", enabled=True, rules=[{"type": "percentage", "percentage": 1}] * 199)
    flag = {"key": "button", "serves": {"control": False, "green": True}}
    assert find(ExperimentFactory(flag=flag, running=True), Check.FLAG)[0] == Level.OK


def test_flag__driven_by_another_experiment__is_a_problem() -> None:
    FlagFactory(key="new", on=True)
    first = ExperimentFactory(key="first", flag={"key": "new", "serves": SERVES}, running=True)
    second = ExperimentFactory(key="second", flag={"key": "new", "serves": SERVES})
    message = "The running experiment first drives the flag new; stop it first."
    assert find(second, Check.FLAG) == (Level.PROBLEM, message)
    assert find(first, Check.FLAG)[0] == Level.OK


def test_flag__that_does_not_have_what_is_served__is_a_problem() -> None:
    FlagFactory(key="new", on=True)
    experiment = ExperimentFactory(flag={"key": "new", "serves": SERVES})
    experiment.flag = {"key": "new", "serves": {"control": "old", "green": True}}
    assert find(experiment, Check.FLAG) == (
        Level.PROBLEM,
        "flag.serves.control: Must be true or false, because the flag has no variants.",
    )
    assert find(ExperimentFactory(), Check.FLAG) == (Level.OK, "The experiment drives no flag.")


def test_group__part_that_another_one_has__is_a_problem() -> None:
    ExperimentFactory(key="first", group={"key": "g", "from": 0, "to": 50}, running=True)
    mine = ExperimentFactory(key="mine", group={"key": "g", "from": 50, "to": 100})
    assert find(mine, Check.GROUP) == (Level.OK, "No other experiment overlaps its share of the group g.")
    mine.group = {"key": "g", "from": 40, "to": 100}
    status, message = find(mine, Check.GROUP)
    assert status == Level.PROBLEM
    assert "belong to the experiment first" in message


def test_common_users__running_ones_outside_of_the_group__are_reported(staging: Environment) -> None:
    mine = ExperimentFactory(key="mine", group={"key": "g", "from": 0, "to": 50})
    assert find(mine, Check.COMMON_USERS) == (Level.OK, "No running experiment can share users with this one.")
    ExperimentFactory(key="sibling", group={"key": "g", "from": 50, "to": 60}, running=True)
    ExperimentFactory(key="elsewhere", environment=staging, running=True)
    ExperimentFactory(key="draft")
    assert find(mine, Check.COMMON_USERS)[1].startswith("No running experiment")
    for number in range(7):
        ExperimentFactory(key=f"free-{number}", running=True)
    message = "Running experiments that may share users: free-0, free-1, free-2, free-3, free-4 and 2 more."
    assert find(mine, Check.COMMON_USERS) == (Level.OK, message)


@pytest.mark.parametrize(
    ("design", "status", "words"),
    [
        ({}, Level.WARNING, "No planned size is set"),
        ({"planned_size": 100}, Level.OK, "100 users are planned, about 10 days (1.4 weeks) at 10 a day."),
        (
            {"planned_size": 100, "percentage": 50},
            Level.OK,
            "100 users are planned, about 20 days (2.9 weeks) at 5 a day.",
        ),
        (
            {"planned_size": 100, "group": {"key": "g", "from": 10, "to": 60}},
            Level.OK,
            "100 users are planned, about 20 days (2.9 weeks) at 5 a day.",
        ),
        (
            {"planned_size": 700},
            Level.WARNING,
            "700 users are planned, about 70 days (10 weeks) at 10 a day: more than 60.",
        ),
    ],
)
def test_planned_size__by_the_users_who_came_lately__takes_days(
    design: dict[str, Any], status: str, words: str
) -> None:
    for number in range(100):
        EventFactory(name="look", user_id=f"user-{number}", timestamp=NOON - (10 - number // 10) * DAY)
    found, message = find(ExperimentFactory(**design), Check.PLANNED_SIZE)
    assert found == status
    assert message.startswith(words)


def test_planned_size__of_a_running_one__is_by_its_own_pace() -> None:
    experiment = ExperimentFactory(planned_size=100, running=True)
    for number in range(20):
        assign(experiment.pk, f"user-{number}", "green", NOON)
    assert find(experiment, Check.PLANNED_SIZE, NOON + 2 * DAY) == (
        Level.OK,
        "100 users are planned, about 10 days (1.4 weeks) at 10 a day.",
    )


@pytest.mark.parametrize(
    ("design", "time", "pace"),
    [
        ({"percentage": 50}, "1 day", 100),
        ({"percentage": 5}, "10 days (1.4 weeks)", 10),
        ({"group": {"key": "g", "from": 0, "to": 25}}, "2 days", 50),
    ],
)
def test_planned_size__by_the_users_of_an_experiment_that_let_in_a_part__reckons_with_all(
    design: dict[str, Any], time: str, pace: int
) -> None:
    metric = {"metrics": ["look"], "running": True}
    before = ExperimentFactory(key="before", percentage=50, group={"key": "h", "from": 0, "to": 50}, **metric)
    for number in range(500):
        assign(before.pk, f"user-{number}", "control", NOON)
        EventFactory(name="look", user_id=f"user-{number}", timestamp=NOON) if number % 2 else None
    experiment = ExperimentFactory(metrics=["look"], planned_size=100, **design)
    message = f"100 users are planned, about {time} at {pace} a day."
    assert find(experiment, Check.PLANNED_SIZE, NOON + 10 * DAY) == (Level.OK, message)


def test_planned_size__of_one_that_lets_in_more_by_now__is_by_the_pace_of_now(production: Environment) -> None:
    experiment = ExperimentFactory(key="e", planned_size=100, percentage=10, running=True)
    for number in range(4):
        assign(experiment.pk, f"user-{number}", "green", NOON)
    who = {"key": "e", "environment": production, "actor": ACTOR, "now": NOON}
    experiment = open_phase(**who, opened_at=NOON + DAY, changes={"percentage": 50}, reason="More.")
    for number in range(2):
        assign(experiment.pk, f"late-{number}", "green", NOON + DAY, phase=2)
    # 6 users in two days of 10 and of 50 %: 3 a day at 30 % on average.
    found = find(experiment, Check.PLANNED_SIZE, NOON + 2 * DAY)
    assert found == (Level.OK, "100 users are planned, about 20 days (2.9 weeks) at 5 a day.")


def test_flag__with_a_prerequisite__is_warned_of_and_a_problem_where_that_is_off() -> None:
    FlagFactory(key="needed", on=True)
    FlagFactory(key="new", on=True, prerequisites=[{"flag": "needed"}])
    experiment = ExperimentFactory(flag={"key": "new", "serves": SERVES})
    status, message = find(experiment, Check.FLAG)
    assert (status, "prerequisites of the flag new (needed) see no variant" in message) == (Level.WARNING, True)
    FlagState.objects.filter(flag__key="needed").update(enabled=False)
    message = "The flag new requires needed, off in production, so nobody sees a variant."
    assert find(experiment, Check.FLAG) == (Level.PROBLEM, message)


def test_planned_size__where_nobody_came_yet__is_unknown() -> None:
    assert find(ExperimentFactory(planned_size=100), Check.PLANNED_SIZE) == (
        Level.UNKNOWN,
        "100 users are planned; the number of users a day is not known yet.",
    )


@pytest.mark.parametrize("planned", [None, 100])
def test_planned_size__where_the_percentage_lets_in_nobody__is_a_problem(planned: int | None) -> None:
    for number in range(100):
        EventFactory(name="look", user_id=f"user-{number}", timestamp=NOON - DAY)
    assert find(ExperimentFactory(planned_size=planned, percentage=0), Check.PLANNED_SIZE) == (
        Level.PROBLEM,
        "The percentage is 0 %, so no users take part; set a percentage above 0.",
    )


def test_calibration__newest_of_the_same_definition__counts(production: Environment, staging: Environment) -> None:
    define("purchase")
    experiment = ExperimentFactory()
    [definition] = definitions_of(experiment)
    unknown = (Level.UNKNOWN, "purchase: its current definition has not been calibrated yet; an operator can do that.")
    assert find(experiment, Check.CALIBRATION) == unknown
    store_outcomes([CalibrationOutcome(definition, 1000, 0.2, is_as_promised=False, rates={})], production, NOON)
    store_outcomes([CalibrationOutcome(definition, 1000, 0.01, is_as_promised=True, rates={})], staging, NOON)
    assert find(experiment, Check.CALIBRATION) == (
        Level.PROBLEM,
        "purchase: false positives in 20.0 % of 1,000 splits on 2026-01-31, which is more than promised.",
    )
    store_outcomes([CalibrationOutcome(definition, 2000, 0.048, is_as_promised=True, rates={})], production, NOON + DAY)
    assert find(experiment, Check.CALIBRATION) == (
        Level.OK,
        "purchase: false positives in 4.8 % of 2,000 splits on 2026-02-01, as promised.",
    )
    update_metric(key="purchase", changes={"window_hours": 24}, actor=ACTOR, now=NOON)
    assert find(experiment, Check.CALIBRATION) == unknown


def test_api__checklist__tells_every_finding(api) -> None:
    experiment = ExperimentFactory(key="e")
    found = data(api.get("/v1/experiments/e/checklist"))
    assert [finding["check"] for finding in found] == [
        str(finding.check) for finding in check_experiment(experiment, NOON)
    ]
    assert found[0] == {
        "check": "primary_metric",
        "status": "ok",
        "message": "purchase decides the experiment: it is the first metric that is a goal.",
    }
    error(api.get("/v1/experiments/nobody/checklist"), 404, "experiment_not_found")
    error(api.get("/v1/experiments/e/checklist?metric=x"), 400, "invalid_parameter")
