"""The results in GET /v1/experiments/<key>: which users and events count, from when until when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from config.timestamps import format_timestamp
from experiments.models import Exposure
from tests.answers import data
from tests.conftest import NOON
from tests.experiments.calls import assign, report, track
from tests.factories import ExperimentFactory

LATER = datetime(
    2030, 1, 31, 12, tzinfo=UTC
)  # later than the creation of the database, because time must not go backwards


def at(moment: datetime) -> Any:
    return time_machine.travel(moment, tick=False)


def results(client: Any, key: str = "e") -> dict[str, tuple[int, float]]:
    answer = data(client.get(f"/v1/experiments/{key}"))["results"]
    assert all(list(result) == ["conversion", "sampleSize"] for result in answer.values())
    return {variant: (result["sampleSize"], result["conversion"]) for variant, result in answer.items()}


def moment(seconds: float) -> str:
    return format_timestamp(NOON + timedelta(seconds=seconds))


@pytest.mark.parametrize("by", ["id", "key"])
def test_report__by_id_or_key__is_an_exposure(api, by):
    experiment = ExperimentFactory(key="e", running=True)
    report(api, "u", "green", experiment=str(experiment.pk) if by == "id" else "e")
    assert results(api) == {"control": (0, 0), "green": (1, 0)}


@pytest.mark.parametrize(
    "event",
    [
        {"event": "purchase"},
        {"variant": "blue"},
        {"experiment": "other"},
        {"timestamp": moment(-1)},
        {"timestamp": "2020-01-01"},
        {"properties": {"experimentId": "e"}},
        {"properties": {"variant": "green"}},
    ],
)
def test_report__metric_unknown_variant_other_experiment_or_before_the_start__is_no_exposure(api, event):
    ExperimentFactory(key="e", running=True)
    report(api, "u", event.pop("variant", "green"), **event)
    assert results(api) == {"control": (0, 0), "green": (0, 0)}


def test_report__in_the_second_of_the_start__is_an_exposure(api):
    ExperimentFactory(key="e", started_at=NOON + timedelta(microseconds=900_000))
    report(api, "u", "green", timestamp="2026-01-31T12:00:00Z")
    assert results(api)["green"] == (1, 0)


def test_report__after_the_stop__is_no_exposure(api):
    ExperimentFactory(key="e", stopped=True)
    report(api, "in time", "green", timestamp=moment(3600))
    report(api, "late", "green", timestamp=moment(3601))
    assert results(api)["green"] == (1, 0)


def test_report__second_variant__the_earliest_stays_whatever_the_order(api):
    ExperimentFactory(key="e", running=True)
    report(api, "u", "green", timestamp=moment(20))
    report(api, "u", "control", timestamp=moment(10))
    report(api, "u", "green", timestamp=moment(30))
    assert results(api) == {"control": (1, 0), "green": (0, 0)}
    assert Exposure.objects.get().is_in_several_variants


@pytest.mark.parametrize(
    ("seconds", "conversion"), [(59, 0), (60, 1), (60.4, 1), (61, 1), (3600, 1), (3600.5, 0), (3601, 0)]
)
def test_results__conversion_before_at_and_after_the_exposure_and_the_stop__counts_within(api, seconds, conversion):
    ExperimentFactory(key="e", stopped=True)
    report(api, "u", "green", timestamp=moment(60.5))
    track(api, "u", timestamp=moment(seconds))
    assert results(api)["green"] == (1, conversion)


@pytest.mark.parametrize("names", [{}, {"properties": {"experimentId": "e"}}, {"properties": {"revenue": 5}}])
def test_results__conversion_that_names_this_experiment_or_none__counts(api, names):
    ExperimentFactory(key="e", running=True)
    report(api, "u", "green", timestamp=moment(1))
    track(api, "u", timestamp=moment(2), **names)
    assert results(api)["green"] == (1, 1)


def test_results__conversion_that_names_another_experiment__counts_for_that_one_only(api):
    for key in ("e", "other"):
        ExperimentFactory(key=key, running=True)
        report(api, "u", "green", experiment=key, timestamp=moment(1))
    track(api, "u", timestamp=moment(2), properties={"experimentId": "other"})
    assert results(api, "e")["green"] == (1, 0)
    assert results(api, "other")["green"] == (1, 1)


def test_results__timestamps_in_the_future__count_as_their_receipt(api):
    future = "2999-12-31T23:59:59Z"
    with at(LATER):
        ExperimentFactory(key="e", running=True)
        report(api, "u", "green", timestamp=future)
        track(api, "u", timestamp=future)
        assert results(api)["green"] == (1, 1)
    with at(LATER + timedelta(minutes=1)):
        data(api.post("/v1/experiments/e/stop"))
        assert results(api)["green"] == (1, 1)
    with at(LATER + timedelta(minutes=2)):
        report(api, "v", "green", timestamp=future)
        assert results(api)["green"] == (1, 1)


def test_results__only_the_first_metric__is_reported(api):
    ExperimentFactory(key="e", running=True, metrics=["signup", "purchase"])
    report(api, "u", "green", timestamp=moment(1))
    track(api, "u", timestamp=moment(2))
    assert results(api)["green"] == (1, 0)
    track(api, "u", "signup", timestamp=moment(2))
    track(api, "u", "signup", timestamp=moment(3))
    assert results(api)["green"] == (1, 1)


def test_results__some_of_many__is_their_share(api):
    ExperimentFactory(key="e", running=True)
    for user in range(8):
        report(api, f"user-{user}", "green", timestamp=moment(1))
    for user in (1, 4, 6):
        track(api, f"user-{user}", timestamp=moment(5))
    track(api, "never exposed", timestamp=moment(5))
    assert results(api) == {"control": (0, 0), "green": (8, 0.375)}


def test_results__no_metrics__have_a_conversion_of_0(api):
    ExperimentFactory(key="e", running=True, metrics=[])
    report(api, "u", "green", timestamp=moment(1))
    track(api, "u", timestamp=moment(2))
    assert results(api) == {"control": (0, 0), "green": (1, 0)}


def test_results__what_was_acknowledged_before__is_in_them(api):
    ExperimentFactory(key="e", running=True)
    for count in range(1, 4):
        variant = assign(api, f"user-{count}")
        track(api, f"user-{count}")
        sample, conversion = results(api)[variant]
        assert conversion == 1
        assert sum(size for size, _ in results(api).values()) == count
        assert sample >= 1


def test_results__events_of_another_environment__do_not_count(api, staging_api):
    ExperimentFactory(key="e", running=True)
    report(api, "u", "green", timestamp=moment(1))
    report(staging_api, "v", "green", timestamp=moment(1))
    track(staging_api, "u", timestamp=moment(2))
    assert results(api)["green"] == (1, 0)
