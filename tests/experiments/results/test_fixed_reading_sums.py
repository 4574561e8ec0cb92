"""The one reading of a fixed analysis."""

from __future__ import annotations

import math
from concurrent.futures import Future
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from config.models import Environment
from events.removal import erase_user
from experiments.exposures.recording import assign
from experiments.metrics.definition import Definition, Quantity
from experiments.models import AnalysisMethod, Experiment, Exposure, ResultState, Status
from experiments.models.phases import phase_as_json
from experiments.results import caps
from experiments.results.fixed_reading import FixedReading, find_caps, find_instant, fixed_reading, sums_until_stop
from experiments.results.refresh import bring_up_to_date
from experiments.results.sums import EXPOSURE, SumsAsOf
from experiments.results.values import as_if_stopped
from tests.conftest import NOON
from tests.experiments.results.histories import DEFINITIONS, History, make_experiment
from tests.experiments.results.series_by_hand import by_label, caps_by_hand, near, series_by_hand, stopped_at
from tests.factories import EventFactory
from tests.threads import SECONDS, Threads, database_for_threads

pytestmark = pytest.mark.django_db

HOUR, DAY, MICROSECOND = timedelta(hours=1), timedelta(days=1), timedelta(microseconds=1)


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """An experiment with a fixed plan of 3 users in control and 2 in green, mature after a day."""
    return plan(make_experiment(production, Definition("bought", 1, "conversion", Quantity("buy"), window=DAY)))


def plan(experiment: Experiment, size: int = 5) -> Experiment:
    experiment.analysis = AnalysisMethod.FIXED
    experiment.registration = {"plannedSampleSize": size, "minimumDays": 0}
    variants = [{"key": "control", "weight": 60}, {"key": "green", "weight": 40}]
    experiment.phases = [{**phase_as_json(experiment, NOON), "variants": variants}]
    experiment.save()
    return experiment


def expose(experiment: Experiment, **hours: float) -> None:
    """Expose users this many hours after NOON; the first letter of a user says which variant."""
    for user, after in hours.items():
        variant = "control" if user.startswith("c") else "green"
        assign(experiment.pk, user, variant, NOON + after * HOUR)


def buy(user: str, at: datetime) -> None:
    EventFactory(user_id=user, name="buy", timestamp=at, received_at=at)


def read(experiment: Experiment, at: datetime) -> FixedReading | None:
    bring_up_to_date(experiment, at)
    return fixed_reading(experiment, at)


def users_and_buyers(sums: SumsAsOf) -> dict[str, tuple[int, int, int]]:
    """Return the exposed, the mature and the buying users of each variant."""
    totals = sums.by_phase[1]
    return {
        variant: (
            totals[EXPOSURE][variant].users,
            sums.mature[DAY][1].get(variant, 0),
            totals[0][variant].positive if variant in totals.get(0, {}) else 0,
        )
        for variant in totals[EXPOSURE]
    }


def test_fixed_reading__before_the_last_planned_user_is_mature__is_none(experiment: Experiment) -> None:
    expose(experiment, c1=0, c2=1, c3=5, g1=1, g2=2)

    assert read(experiment, NOON + DAY + 4.9 * HOUR) is None
    reading = read(experiment, NOON + DAY + 5 * HOUR)
    assert reading is not None
    assert reading.instant == NOON + DAY + 5 * HOUR


def test_fixed_reading__shortest_run_later_than_the_planned_users__is_as_of_its_end(production: Environment) -> None:
    """Without a window, the last planned user would have had no time at all."""
    experiment = plan(make_experiment(production, Definition("bought", 1, "conversion", Quantity("buy"))))
    experiment.registration = {**(experiment.registration or {}), "minimumDays": 14}
    experiment.save()
    assert experiment.started_at is not None
    end = experiment.started_at + 14 * DAY
    expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2, g3=50)
    buy("g2", NOON + 9 * DAY)

    assert read(experiment, end - HOUR) is None
    reading = read(experiment, end + 9 * DAY)
    assert reading is not None
    assert reading.instant == end
    assert reading.sums.by_phase[1][EXPOSURE]["green"].users == 3
    assert reading.sums.by_phase[1][0]["green"].positive == 1


def test_fixed_reading__planned_users_before_the_shortest_run_is_over__waits_for_it(experiment: Experiment) -> None:
    experiment.registration = {"plannedSampleSize": 5, "minimumDays": 14}
    experiment.save()
    expose(experiment, c1=0, c2=1, c3=5, g1=1, g2=2, c4=12 * 24, g3=13.5 * 24)
    buy("c4", NOON + 12.5 * DAY)

    assert read(experiment, NOON + 14 * DAY - MICROSECOND) is None
    reading = read(experiment, NOON + 20 * DAY)
    assert reading is not None
    assert reading.instant == NOON + 14 * DAY
    assert users_and_buyers(reading.sums) == {"control": (4, 4, 1), "green": (3, 2, 0)}


def test_fixed_reading__stopped_before_the_shortest_run_is_over__never_comes(experiment: Experiment) -> None:
    experiment.registration = {"plannedSampleSize": 5, "minimumDays": 14}
    experiment.status, experiment.stopped_at = Status.STOPPED, NOON + 13 * DAY
    experiment.save()
    expose(experiment, c1=0, c2=1, c3=5, g1=1, g2=2)
    assert find_instant(experiment, NOON + 20 * DAY) is None


@pytest.mark.parametrize("size", [3, 6, 10])
def test_find_instant__users_within_one_second__is_exact(
    production: Environment, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(caps, "MAX_FETCHED", 2)
    experiment = make_experiment(production, Definition("bought", 1, "conversion", Quantity("buy")))
    experiment.analysis, experiment.registration = AnalysisMethod.FIXED, {"plannedSampleSize": size, "minimumDays": 0}
    experiment.variants, experiment.phases = [{"key": "green", "weight": 1}], []
    experiment.save()
    microseconds = [0, 1, 2, 10, 10, 10, 400_000, 999_998, 999_999, 1_000_000]
    for number in Random(size).sample(range(10), 10):
        assign(experiment.pk, f"g{number}", "green", NOON + microseconds[number] * MICROSECOND)
    at = NOON + HOUR
    bring_up_to_date(experiment, at)
    assert find_instant(experiment, at) == NOON + microseconds[size - 1] * MICROSECOND


def test_fixed_reading__read_late__is_as_of_the_instant(experiment: Experiment) -> None:
    expose(experiment, c1=0, c2=1, c3=2, c4=3, g1=1, g2=2, g3=40)
    buy("c2", NOON + 3 * HOUR)
    buy("c4", NOON + 4 * HOUR)
    buy("g2", NOON + DAY + 3 * HOUR)

    reading = read(experiment, NOON + 9 * DAY)
    assert reading is not None
    assert reading.instant == NOON + DAY + 2 * HOUR
    assert users_and_buyers(reading.sums) == {"control": (4, 3, 1), "green": (2, 2, 0)}


def test_fixed_reading__after_a_day__does_not_change(experiment: Experiment, production: Environment) -> None:
    expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2)
    read(experiment, NOON + 2 * DAY)
    final = read(experiment, NOON + 3 * DAY)
    buy("g1", NOON + 2 * HOUR)
    erase_user("c3", production)
    ResultState.objects.update(watermark="", stopped_at=None, archive=None)  # as reopening does

    assert final is not None
    assert read(experiment, NOON + 4 * DAY) == final


def test_fixed_reading__late_events_of_the_next_day__count(experiment: Experiment) -> None:
    expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2)
    first = read(experiment, NOON + 2 * DAY)
    buy("g1", NOON + 2 * HOUR)
    second = read(experiment, NOON + 2 * DAY + HOUR)
    buy("g2", NOON + 3 * HOUR)
    last = read(experiment, NOON + 9 * DAY)

    found = [users_and_buyers(reading.sums)["green"][2] for reading in (first, second, last) if reading]
    assert found == [0, 1, 2]
    assert [reading.open_until for reading in (first, second, last) if reading] == [NOON + 3 * DAY] * 2 + [None]


def test_fixed_reading__late_users_of_the_next_day__move_the_instant(experiment: Experiment) -> None:
    expose(experiment, c1=0, c2=1, c3=9, g1=1, g2=2)
    assert read(experiment, NOON + 2 * DAY) is not None
    expose(experiment, c4=3)
    reading = read(experiment, NOON + 2 * DAY + HOUR)

    assert reading is not None
    assert reading.instant == NOON + DAY + 3 * HOUR


@pytest.mark.django_db(transaction=True)  # what a transaction has written itself is always new to it
def test_fixed_reading__later_events__are_not_looked_at(experiment: Experiment, monkeypatch: Any) -> None:
    expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2)
    first = read(experiment, NOON + 2 * DAY)
    buy("g1", NOON + 2 * DAY)
    monkeypatch.setattr("experiments.results.fixed_reading.compute_changes", None)

    assert read(experiment, NOON + 2 * DAY + HOUR) == first


def test_fixed_reading__user_erased_on_the_next_day__is_no_longer_in_it(
    experiment: Experiment, production: Environment
) -> None:
    expose(experiment, c1=0, c2=1, c3=2, c4=3, g1=1, g2=2)
    first = read(experiment, NOON + 2 * DAY)
    erase_user("c1", production)
    second = read(experiment, NOON + 2 * DAY)

    assert [users_and_buyers(reading.sums)["control"][0] for reading in (first, second) if reading] == [4, 3]


def test_fixed_reading__stored__is_what_was_computed(production: Environment) -> None:
    experiment = plan(make_experiment(production, *DEFINITIONS), size=8)
    expose(experiment, **{f"{letter}{number}": 30 * number for letter in "cg" for number in range(5)})
    history = History(experiment, Random(1))
    for _ in range(30):
        history.chance.choice([history.record, history.assign, history.report])()
    at = NOON + 30 * DAY
    reading = read(experiment, at)

    assert reading is not None
    assert reading.instant == find_instant(experiment, at)
    stopped = as_if_stopped(experiment, reading.instant)
    assert reading.sums == sums_until_stop(stopped, find_caps(stopped))
    caps = caps_by_hand(stopped_at(experiment, reading.instant))
    assert reading.caps == pytest.approx({index: cap for index, cap in caps.items() if cap < math.inf})
    days = {day: by_label(sums.by_phase, sums.mature) for day, sums in reading.days()}
    assert near(days) == near(series_by_hand(experiment, reading.instant, caps))


def test_fixed_reading__stopped_before__is_none(experiment: Experiment) -> None:
    expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2)
    experiment.status, experiment.stopped_at = "stopped", NOON + DAY
    experiment.save()

    assert read(experiment, NOON + 9 * DAY) is None


def test_fixed_reading__quantile__is_as_of_the_instant_for_ever(production: Environment) -> None:
    quantile = Definition("price", 1, "quantile", Quantity("buy", "price"), quantile=0.5)
    experiment = plan(make_experiment(production, Definition("bought", 1, "conversion", Quantity("buy")), quantile))
    expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2, g3=9)
    for user, price in (("c1", 3), ("g1", 5), ("g2", 7), ("g3", 1)):
        EventFactory(user_id=user, name="buy", timestamp=NOON + 2 * HOUR, properties={"price": price})
    EventFactory(user_id="g1", name="buy", timestamp=NOON + 3 * HOUR, properties={"price": 1})
    read(experiment, NOON + DAY)
    first = read(experiment, NOON + 2 * DAY)
    EventFactory(user_id="g2", name="buy", timestamp=NOON + HOUR, properties={"price": 1})
    second = read(experiment, NOON + 2 * DAY)

    assert first is not None
    assert first == second
    found = first.quantiles_over([1, 2])[1]  # a second phase would have begun later
    assert {key: (each.n, each.events, each.value) for key, each in found.items()} == {
        "control": (3, 1, 3),
        "green": (2, 2, 6),  # 5 is spread over 4 to 6, because another price is 3
    }


def test_fixed_reading__stop_dated_back_before_it__is_none(experiment: Experiment) -> None:
    expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2)
    assert read(experiment, NOON + 9 * DAY) is not None
    experiment.status, experiment.stopped_at = "stopped", NOON + DAY
    experiment.save()

    assert read(experiment, NOON + 9 * DAY) is None


@pytest.mark.parametrize("change", [{"analysis": AnalysisMethod.SEQUENTIAL}, {"registration": {}}])
def test_fixed_reading__without_a_fixed_plan__is_none(experiment: Experiment, change: dict[str, Any]) -> None:
    expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2)
    Experiment.objects.filter(pk=experiment.pk).update(**change)
    experiment.refresh_from_db()

    assert read(experiment, NOON + 9 * DAY) is None


@pytest.mark.django_db(transaction=True)
def test_fixed_reading__many_readers_and_writers__is_the_same_for_all(tmp_path: Path, transactional_db: None) -> None:
    threads = Threads()
    with database_for_threads(tmp_path):
        experiment = plan(
            make_experiment(Environment.objects.get(key="production"), *DEFINITIONS[:1])
        )  # mature at once
        expose(experiment, c1=0, c2=1, c3=2, g1=1, g2=2)
        read(experiment, NOON + DAY)
        readers: list[Future[Any]] = []
        for number in range(6):
            buy("c1", NOON + number * HOUR / 10)
            readers.append(threads.start(fixed_reading, experiment, NOON + 2 * DAY))
        readings = [reader.result(SECONDS) for reader in readers]
        threads.join()

        assert readings[0] is not None
        assert all(reading == readings[0] for reading in readings)
        assert Exposure.objects.count() == 5
