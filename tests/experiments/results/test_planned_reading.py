"""The readings of a sequential analysis at its planned size."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from config.models import Environment
from events.removal import erase_user
from experiments.exposures.recording import assign
from experiments.metrics.definition import Definition, Quantity
from experiments.models import Experiment, ResultState
from experiments.models.phases import phase_as_json
from experiments.results.archive import freeze, refresh_results
from experiments.results.fixed_reading import find_caps, sums_until_stop
from experiments.results.planned_reading import PlannedReading, planned_readings
from experiments.results.refresh import bring_up_to_date
from experiments.results.sums import EXPOSURE, ExactSums
from experiments.results.values import as_if_stopped
from tests.conftest import NOON
from tests.experiments.results.histories import DEFINITIONS, History, make_experiment
from tests.factories import EventFactory

pytestmark = pytest.mark.django_db

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
BOUGHT = Definition("bought", 1, "conversion", Quantity("buy"), window=DAY)


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """An experiment with a plan of 3 users in control and 2 in green, who are mature after a day."""
    return plan(make_experiment(production, BOUGHT))


def plan(experiment: Experiment, size: int = 5, *splits: tuple[int, int]) -> Experiment:
    """Plan a size. Each split begins a phase; users are assigned to the phases by hand."""
    experiment.registration = {**(experiment.registration or {}), "plannedSampleSize": size, "minimumDays": 0}
    experiment.phases = [
        {
            **phase_as_json(experiment, NOON),
            "variants": [{"key": "control", "weight": control}, {"key": "green", "weight": green}],
        }
        for control, green in splits or [(60, 40)]
    ]
    experiment.save()
    return experiment


def expose(experiment: Experiment, **hours: float) -> None:
    """Expose users this many hours after NOON; the first letter of a user says which variant."""
    for user, after in hours.items():
        assign(experiment.pk, user, "control" if user.startswith("c") else "green", NOON + after * HOUR)


def buy(user: str, at: datetime, **properties: Any) -> None:
    EventFactory(user_id=user, name="buy", timestamp=at, received_at=at, properties=properties)


def read(experiment: Experiment, at: datetime) -> list[PlannedReading]:
    bring_up_to_date(experiment, at)
    return list(planned_readings(experiment, at))


def read_one(experiment: Experiment, at: datetime) -> PlannedReading:
    [reading] = read(experiment, at)
    return reading


def users_and_buyers(planned: PlannedReading) -> dict[str, tuple[int, int]]:
    totals = planned.reading.sums.by_phase[1]
    return {
        variant: (sums.users, totals[0][variant].positive if variant in totals.get(0, {}) else 0)
        for variant, sums in totals[EXPOSURE].items()
    }


def test_reading__before_the_last_planned_user_is_mature__is_none(experiment: Experiment) -> None:
    expose(experiment, c1=0, c2=1, c3=5, g1=1, g2=2)
    assert read(experiment, NOON + DAY + 4.9 * HOUR) == []
    planned = read_one(experiment, NOON + DAY + 5 * HOUR)
    assert (planned.variant, planned.span, planned.reading.instant) == ("green", DAY, NOON + DAY + 5 * HOUR)


def test_reading__of_both_variants_together__does_not_wait_for_each(experiment: Experiment) -> None:
    expose(experiment, c1=0, c2=1, c3=2, c4=3, g1=4, g2=9)
    assert read_one(experiment, NOON + 9 * DAY).reading.instant == NOON + DAY + 4 * HOUR


def test_reading__read_late__is_as_of_the_second_of_the_last_planned_user(experiment: Experiment) -> None:
    second = NOON + 2 * HOUR
    expose(experiment, c1=0, c2=1, c3=1, g1=1)
    for number, microseconds in enumerate((0, 400_000, 999_999, 1_000_000)):
        assign(experiment.pk, f"g9{number}", "green", second + timedelta(microseconds=microseconds))
    buy("c2", NOON + 3 * HOUR)
    buy("g90", second + DAY - timedelta(seconds=1))
    buy("g91", second + DAY)  # after its window

    planned = read_one(experiment, NOON + 9 * DAY)
    assert planned.reading.instant == second + DAY
    assert users_and_buyers(planned) == {"control": (3, 1), "green": (4, 1)}


def test_reading__whether_or_not_somebody_looked__is_the_same(experiment: Experiment, production: Environment) -> None:
    expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2)
    buy("c2", NOON + 3 * HOUR)
    early = read_one(experiment, NOON + DAY + 2 * HOUR)
    expose(experiment, c4=50, g3=51)
    buy("c4", NOON + 60 * HOUR)
    ResultState.objects.update(reading=None)
    late = read_one(experiment, NOON + 9 * DAY)
    assert replace(late.reading, open_until=None) == replace(early.reading, open_until=None)


def test_reading__late_events__count_for_one_day(experiment: Experiment) -> None:
    expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2)
    found = [read_one(experiment, NOON + 2 * DAY)]
    for user, at in (("g1", 2 * DAY + HOUR), ("g2", 9 * DAY), ("c1", 10 * DAY)):
        buy(user, NOON + 3 * HOUR)
        found.append(read_one(experiment, NOON + at))
    assert [users_and_buyers(planned) for planned in found] == [
        {"control": (3, 0), "green": (2, buyers)} for buyers in (0, 1, 2, 2)
    ]
    assert [planned.reading.open_until for planned in found] == [NOON + 3 * DAY] * 2 + [None] * 2


def test_reading__late_users_of_the_next_day__move_the_instant(experiment: Experiment) -> None:
    expose(experiment, c1=0, c2=1, c3=9, g1=1, g2=2)
    assert read_one(experiment, NOON + 2 * DAY).reading.instant == NOON + DAY + 9 * HOUR
    expose(experiment, c4=3)
    assert read_one(experiment, NOON + 2 * DAY + HOUR).reading.instant == NOON + DAY + 3 * HOUR


def test_reading__user_erased__leaves_an_open_reading_but_no_final_one(
    experiment: Experiment, production: Environment
) -> None:
    expose(experiment, c1=0, c2=1, c3=2, c4=3, g1=1, g2=2, g3=3)
    read(experiment, NOON + 2 * DAY)
    erase_user("c1", production)
    open_one = read_one(experiment, NOON + 2 * DAY)
    assert users_and_buyers(open_one)["control"][0] == 3
    final = read_one(experiment, NOON + 9 * DAY)
    erase_user("c2", production)
    assert read_one(experiment, NOON + 10 * DAY) == final


def test_reading__weights_changed_since__is_as_of_the_planned_information(production: Environment) -> None:
    """20 users were planned at 90:10. Users at 50:50 tell 2.8 times as much, so 8 of them are enough."""
    experiment = plan(make_experiment(production, BOUGHT), 20, (90, 10), (50, 50))
    for number in range(12):
        user, variant = f"{number}", ("control", "green")[number % 2]
        assign(experiment.pk, user, variant, NOON + number * HOUR)
    experiment.exposures.update(phase=2)
    planned = read_one(experiment, NOON + 9 * DAY)
    assert planned.reading.instant == NOON + DAY + 7 * HOUR


def test_reading__each_treatment_and_window__has_its_own(production: Environment) -> None:
    longer = Definition("later", 1, "count", Quantity("buy"), window=3 * DAY)
    guardrail = Definition("refunds", 1, "count", Quantity("buy"), window=2 * DAY, is_guardrail=True)
    experiment = plan(make_experiment(production, BOUGHT, longer, guardrail))
    variants = [{"key": key, "weight": 1} for key in ("control", "green", "red")]
    experiment.variants = variants
    experiment.phases = [{**experiment.phases[0], "variants": variants}]
    experiment.registration = {**(experiment.registration or {}), "plannedSampleSize": 6}
    experiment.save()
    expose(experiment, c1=0, c2=1, g1=2, g2=3)
    for number in (4, 5):
        assign(experiment.pk, f"r{number}", "red", NOON + number * HOUR)
    found = {(each.variant, each.span): each.reading.instant for each in read(experiment, NOON + 9 * DAY)}
    assert found == {
        ("green", DAY): NOON + DAY + 3 * HOUR,
        ("green", 3 * DAY): NOON + 3 * DAY + 3 * HOUR,
        ("red", DAY): NOON + DAY + 5 * HOUR,
        ("red", 3 * DAY): NOON + 3 * DAY + 5 * HOUR,
    }


@pytest.mark.parametrize("seed", range(3))
def test_reading__sums__are_those_of_the_events_until_then(production: Environment, seed: int) -> None:
    experiment = plan(make_experiment(production, *DEFINITIONS), size=6)
    expose(experiment, **{f"{letter}{number}": 30 * number for letter in "cg" for number in range(5)})
    history = History(experiment, Random(seed))
    for _ in range(30):
        history.chance.choice([history.record, history.assign, history.report])()
    readings = read(experiment, NOON + 40 * DAY)
    windows = {definition.span for definition in DEFINITIONS if definition.span}
    assert {each.span for each in readings} == windows
    for each in readings:
        stopped = as_if_stopped(experiment, each.reading.instant)
        expected = sums_until_stop(stopped, find_caps(stopped))
        assert each.reading.sums.mature[each.span] == expected.mature[each.span]
        for phase, by_metric in each.reading.sums.by_phase.items():
            for number, by_variant in by_metric.items():
                if number == EXPOSURE or DEFINITIONS[number].quantile is not None:
                    continue
                assert DEFINITIONS[number].span == each.span
                of_events = expected.by_phase[phase].get(number, {})
                for variant, sums in by_variant.items():
                    same = of_events.get(variant, ExactSums())  # the stored ones also count later events
                    assert (sums.value, sums.value_squared, sums.positive) == (
                        same.value,
                        same.value_squared,
                        same.positive,
                    )


def test_reading__cap_at_a_percentile__is_that_of_the_users_mature_at_midnight(production: Environment) -> None:
    spent = Definition("spent", 1, "revenue", Quantity("buy", "revenue", "EUR"), window=12 * HOUR, cap_percentile=50)
    experiment = plan(make_experiment(production, spent))
    expose(experiment, c1=-6, c2=-5, c3=-4, g1=5, g2=6)
    for user, hours, revenue in (("c1", -3, 10), ("c2", -3, 20), ("c3", -3, 30), ("g1", 7, 500), ("g2", 8, 600)):
        buy(user, NOON + hours * HOUR, revenue=revenue, currency="EUR")
    planned = read_one(experiment, NOON + 9 * DAY)
    assert planned.reading.caps == {0: 20}
    sums = planned.reading.sums.by_phase[1][0]
    assert {variant: of_variant.value for variant, of_variant in sums.items()} == {"control": 50, "green": 40}


def test_reading__quantile__is_as_of_the_instant(production: Environment) -> None:
    price = Definition("price", 1, "quantile", Quantity("buy", "price"), window=DAY, quantile=0.5)
    experiment = plan(make_experiment(production, price))
    expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2, g3=9)
    for user, amount in (("c1", 3), ("g1", 5), ("g2", 7), ("g3", 1)):
        buy(user, NOON + 10 * HOUR, price=amount)
    found = read_one(experiment, NOON + 9 * DAY).reading.quantiles_over([1])[0]
    assert {key: (each.n, each.events) for key, each in found.items()} == {"control": (3, 1), "green": (2, 2)}


@pytest.mark.parametrize("registration", [{"plannedSampleSize": None}, {"analysis": "fixed"}, {"plannedSampleSize": 6}])
def test_reading__without_a_plan_or_its_users__is_none(experiment: Experiment, registration: dict[str, Any]) -> None:
    experiment.registration = {**(experiment.registration or {}), **registration}
    experiment.save()
    expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2)
    assert read(experiment, NOON + 9 * DAY) == []


def test_reading__stop_before_it__is_none(experiment: Experiment) -> None:
    expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2)
    assert read(experiment, NOON + 9 * DAY)
    experiment.status, experiment.stopped_at = "stopped", NOON + DAY
    experiment.save()
    assert read(experiment, NOON + 9 * DAY) == []


def test_reading__periodic_task__stores_it_without_a_reader(experiment: Experiment) -> None:
    expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2)
    refresh_results(NOON + 2 * DAY)
    assert ResultState.objects.get().reading is not None


def test_reading__frozen__stays(experiment: Experiment) -> None:
    expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2)
    experiment.status, experiment.stopped_at = "stopped", NOON + 2 * DAY
    experiment.save()
    first = read_one(experiment, NOON + 2 * DAY)
    freeze(experiment, NOON + 9 * DAY)
    experiment.refresh_from_db()
    assert experiment.frozen_at is not None
    planned = read_one(experiment, NOON + 10 * DAY)
    assert users_and_buyers(planned) == users_and_buyers(first)
    ResultState.objects.update(reading=None)
    assert users_and_buyers(read_one(experiment, NOON + 10 * DAY)) == users_and_buyers(first)
