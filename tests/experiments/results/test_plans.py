"""Results of metrics with conditions, of funnels and of distinct values; and plans that bind the verdict."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from config.models import Environment
from config.timestamps import format_timestamp
from events.recording import NewEvent, new_id, record
from experiments.metrics.changes import create_metric
from experiments.models import Experiment
from tests.admin import sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.admin.results.test_pages import address
from tests.experiments.results.asking import ask
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
USERS = 60


def open_shop(environment: Environment, metrics: dict[str, Any], **design: Any) -> None:
    for key, values in metrics.items():
        create_metric(key=key, actor=ACTOR, now=NOON, **values)
    usual = {"lookback_days": 0, "minimum_days": 0, "metrics": list(metrics)}
    ExperimentFactory(key="shop", environment=environment, running=True, **{**usual, **design})


def expose(environment: Environment, number: int = USERS, *, day: int = 0) -> None:
    """Expose users to the two variants in turns."""
    reports = [{"experimentId": "shop", "variant": variant} for variant in ("control", "green")]
    at = NOON + day * DAY
    record(
        [NewEvent(new_id(), f"{day}-{user}", "exposed", at, at, reports[user % 2]) for user in range(number)],
        environment,
    )


def do(environment: Environment, user: int, name: str, minutes: int, *, day: int = 0, **properties: Any) -> None:
    at = NOON + day * DAY + timedelta(minutes=minutes)
    record([NewEvent(new_id(), f"{day}-{user}", name, at, at, properties)], environment)


def test_funnel__in_results__has_the_users_of_each_step(api: Any, production: Environment) -> None:
    steps = [{"event": "look"}, {"event": "basket"}, {"event": "pay"}]
    open_shop(production, {"way": {"type": "funnel", "steps": steps}})
    expose(production)
    for user, names in ((0, ["look", "basket", "pay"]), (2, ["look", "pay", "basket"]), (4, ["look"]), (6, ["pay"])):
        for minute, name in enumerate(names, 1):
            do(production, user, name, minute)
    with time_machine.travel(NOON + DAY, tick=False):
        control, green = ask(api)["metrics"][0]["variants"]
    assert [(step["event"], step["users"]) for step in control["steps"]] == [("look", 3), ("basket", 2), ("pay", 1)]
    assert [step["share"] for step in control["steps"]] == pytest.approx([3 / 30, 2 / 30, 1 / 30])
    assert control["value"] == pytest.approx(1 / 30)
    assert [step["users"] for step in green["steps"]] == [0, 0, 0]


def test_funnel__variant_without_users__has_no_users_in_each_step(api: Any, production: Environment) -> None:
    open_shop(production, {"way": {"type": "funnel", "steps": [{"event": "look"}, {"event": "pay"}]}})
    record([NewEvent(new_id(), "u", "exposed", NOON, NOON, {"experimentId": "shop", "variant": "green"})], production)
    do(production, 0, "look", 1)
    control, green = ask(api)["metrics"][0]["variants"]
    assert [(step["users"], step["share"]) for step in control["steps"]] == [(0, None), (0, None)]
    assert [(step["users"], step["share"]) for step in green["steps"]] == [(0, 0), (0, 0)]
    page = text_of(sign_in().get(address(Experiment.objects.get())))
    assert "1. look" in page


def test_conditions_and_distinct_values__in_results__count_what_meets_them(api: Any, production: Environment) -> None:
    where = [{"property": "plan", "operator": "equals", "value": "pro"}]
    metrics = {
        "pro": {"type": "conversion", "event": "look", "where": where},
        "pages": {"type": "distinct", "event": "look", "property": "page"},
    }
    open_shop(production, metrics)
    expose(production)
    for user, plan, page in ((0, "pro", "a"), (0, "free", "b"), (2, "free", "a"), (2, "free", "a")):
        do(production, user, "look", 5, plan=plan, page=page)
    with time_machine.travel(NOON + DAY, tick=False):
        pro, pages = (metric["variants"][0] for metric in ask(api)["metrics"])
    assert (pro["value"], pages["value"]) == (pytest.approx(1 / 30), pytest.approx(3 / 30))


def test_breakdown__each_metric_and_treatment__has_a_test_of_interaction(api: Any, production: Environment) -> None:
    open_shop(production, {"look": {"type": "conversion", "event": "look"}})
    reports = [{"experimentId": "shop", "variant": variant} for variant in ("control", "green")]
    events = []
    for user in range(400):
        country = ("CH", "DE")[user // 2 % 2]
        report = {**reports[user % 2], "country": country}
        events.append(NewEvent(new_id(), f"{user}", "exposed", NOON, NOON, report))
        often = 2 if country == "CH" and user % 2 else 8  # the effect is in CH alone
        if user // 4 % often == 0:
            events.append(NewEvent(new_id(), f"{user}", "look", NOON, NOON, {}))
    record(events, production)
    [interaction] = ask(api, breakdown="country")["breakdown"]["interactions"]
    assert (interaction["metric"], interaction["variant"], interaction["reason"]) == ("look", "green", None)
    assert interaction["pValue"] < 0.001


# --- plans -----------------------------------------------------------------------------------------------------------

LOOK = {"look": {"type": "conversion", "event": "look"}}


def reasons(answer: Any) -> list[str]:
    return [reason["code"] for reason in answer["verdict"]["reasons"]]


def looks(environment: Environment, control: int, green: int, *, day: int = 0) -> None:
    for variant, number in enumerate((control, green)):
        for at in range(number):
            do(environment, 2 * at + variant, "look", 5, day=day)


def test_verdict__before_the_shortest_run__is_not_to_ship(api: Any, production: Environment) -> None:
    open_shop(production, LOOK, minimum_days=3)
    expose(production, 300)
    looks(production, 20, 120)
    with time_machine.travel(NOON + 2 * DAY, tick=False):
        early = ask(api)
    with time_machine.travel(NOON + 3 * DAY, tick=False):
        late = ask(api)
    assert (early["verdict"]["decision"], late["verdict"]["decision"]) == ("keep_running", "ship")
    assert "shortest_run" in reasons(early)
    assert early["plan"]["shortestRunEndsAt"] == format_timestamp(NOON + 3 * DAY)


def test_verdict__planned_size_without_an_effect_of_interest__is_no_difference(
    api: Any, production: Environment
) -> None:
    open_shop(production, LOOK, planned_size=300, minimum_effect=2.0)
    expose(production, 300)
    looks(production, 75, 75)
    answer = ask(api)
    assert (answer["verdict"]["decision"], reasons(answer)[-1]) == ("no_difference", "planned_size")
    assert (answer["plan"]["plannedSampleSize"], answer["plan"]["minimumEffect"]) == (300, 2.0)


def test_fixed_analysis__until_and_from_its_planned_size__is_read_once(api: Any, production: Environment) -> None:
    open_shop(production, LOOK, planned_size=240, analysis="fixed")
    expose(production, 200)
    looks(production, 20, 60)
    with time_machine.travel(NOON + DAY, tick=False):
        before = ask(api)
    assert (before["verdict"]["decision"], before["plan"]["readAt"]) == ("keep_running", None)
    expose(production, 40, day=1)
    with time_machine.travel(NOON + 2 * DAY, tick=False):
        read = ask(api)
    comparison = read["metrics"][0]["variants"][1]["comparison"]
    assert (read["verdict"]["decision"], comparison["decidedBy"]) == ("ship", "fixedHorizon")
    assert comparison["difference"]["fixedHorizon"]["pValue"] < 0.001
    assert read["plan"]["readAt"] == format_timestamp(NOON + DAY)
    expose(production, 40, day=3)
    looks(production, 20, 0, day=3)
    with time_machine.travel(NOON + 5 * DAY, tick=False):
        later = ask(api)
    assert (later["metrics"], later["verdict"]) == (read["metrics"], read["verdict"])
    assert later["users"] == 280
