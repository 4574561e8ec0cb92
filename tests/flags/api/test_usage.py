"""GET /v1/flags/<key>/usage, as a client sees it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine

from config.models import Environment, Scope
from flags.models import LastUse, Usage
from tests.answers import data, error
from tests.conftest import NOON
from tests.factories import FlagFactory

START = NOON + timedelta(days=1000)  # after the environments of the database were made
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
PATH = "/v1/flags/f/usage"


@pytest.fixture(autouse=True)
def _clock() -> Any:
    with time_machine.travel(START + 30 * DAY, tick=False):
        yield


@pytest.fixture
def flag(production: Environment) -> Any:
    return FlagFactory(key="f", on=True, now=START)


def count(environment: Environment, at: datetime, *, flag: str = "f", **counts: int) -> None:
    for outcome, number in counts.items():
        which = {"environment": environment, "flag_key": flag, "outcome": outcome}
        Usage.objects.create(**which, hour=at, count=number)
        LastUse.objects.update_or_create(**which, defaults={"hour": at})


def series(usage: Any) -> list[tuple[str, dict[str, int]]]:
    return [(interval["at"], interval["counts"]) for interval in usage["series"]]


@pytest.mark.usefixtures("flag")
def test_usage__without_parameters__is_that_of_seven_days_by_hour(api: Any, production: Environment) -> None:
    now = START + 30 * DAY
    count(production, now - 7 * DAY - HOUR, on=100)
    count(production, now - 7 * DAY, on=1)
    count(production, now - HOUR, on=2, off=6)
    count(production, now, on=3)
    assert data(api.get(PATH)) == {
        "flag": "f",
        "environment": "production",
        "from": "2028-11-19T12:00:00.000000Z",
        "to": "2028-11-26T12:00:00.000000Z",
        "interval": "hour",
        "total": 12,
        "lastEvaluatedAt": "2028-11-26T12:00:00.000000Z",
        "outcomes": [{"outcome": "off", "count": 6, "share": 0.5}, {"outcome": "on", "count": 6, "share": 0.5}],
        "series": [
            {"at": "2028-11-19T12:00:00.000000Z", "counts": {"on": 1}},
            {"at": "2028-11-26T11:00:00.000000Z", "counts": {"off": 6, "on": 2}},
            {"at": "2028-11-26T12:00:00.000000Z", "counts": {"on": 3}},
        ],
    }


@pytest.mark.usefixtures("flag")
def test_usage__by_day__adds_up_the_hours_of_each_day_of_utc(api: Any, production: Environment) -> None:
    midnight = START + DAY / 2
    for at in (midnight - HOUR, midnight, midnight + 23 * HOUR, midnight + DAY):
        count(production, at, on=1)
    usage = data(api.get(PATH, {"interval": "day", "from": "2028-10-27", "to": "2028-10-29"}))
    assert series(usage) == [
        ("2028-10-27T00:00:00.000000Z", {"on": 1}),
        ("2028-10-28T00:00:00.000000Z", {"on": 2}),
        ("2028-10-29T00:00:00.000000Z", {"on": 1}),
    ]
    assert (usage["from"], usage["to"]) == ("2028-10-27T00:00:00.000000Z", "2028-10-29T23:59:59.999999Z")


@pytest.mark.usefixtures("flag")
def test_usage__period__has_the_hours_that_it_touches(
    subtests: pytest.Subtests, api: Any, production: Environment
) -> None:
    for hour in range(8, 14):
        count(production, START.replace(month=11, day=1, hour=hour), on=1)
    for start, end, hours in [
        ("2028-11-01T10:00:00Z", "2028-11-01T12:00:00Z", [10, 11, 12]),
        ("2028-11-01T10:59:59Z", "2028-11-01T11:59:59Z", [10, 11]),
        ("2028-11-01T12:00:00+02:00", "2028-11-01T12:00:00 02:00", [10]),
    ]:
        with subtests.test(start=start, end=end):
            usage = data(api.get(f"{PATH}?from={start}&to={end}"))
            assert [at for at, _ in series(usage)] == [f"2028-11-01T{hour}:00:00.000000Z" for hour in hours]
            assert usage["lastEvaluatedAt"] == "2028-11-01T13:00:00.000000Z"


@pytest.mark.usefixtures("flag")
def test_usage__nothing_counted__is_nothing(api: Any) -> None:
    usage = data(api.get(PATH))
    assert (usage["total"], usage["lastEvaluatedAt"], usage["outcomes"], usage["series"]) == (0, None, [], [])


@pytest.mark.usefixtures("flag")
def test_usage__of_other_flags_and_environments__is_not_in_it(
    api: Any, staging_api: Any, production: Environment, staging: Environment
) -> None:
    count(production, START + 29 * DAY, on=1)
    count(production, START + 29 * DAY, flag="other", on=10)
    count(staging, START + 29 * DAY, on=100)
    assert (data(api.get(PATH))["total"], data(staging_api.get(PATH))["total"]) == (1, 100)


def test_usage__flag_that_was_made_anew__begins_with_nothing(api: Any, production: Environment) -> None:
    FlagFactory(key="f", now=START + 29 * DAY + HOUR / 2)
    for hours in (-1, 0, 1):
        count(production, START + 29 * DAY + hours * HOUR, on=1)
    assert data(api.get(PATH))["total"] == 2  # of its first hour nobody knows which flag it was


def test_usage__flag_that_was_deleted_and_made_anew_at_once__begins_with_nothing(
    api: Any, production: Environment
) -> None:
    FlagFactory(key="f", now=START)
    count(production, START + 30 * DAY, on=7)
    assert data(api.get(PATH))["total"] == 7
    assert api.delete("/v1/flags/f").status_code == 204
    data(api.post("/v1/flags", {"key": "f"}), 201)
    usage = data(api.get(PATH))
    assert (usage["total"], usage["lastEvaluatedAt"]) == (0, None)


def test_usage__last_evaluated__is_not_that_of_an_earlier_flag(api: Any, production: Environment) -> None:
    FlagFactory(key="f", now=START + 29 * DAY)
    count(production, START + 28 * DAY, on=1)
    assert data(api.get(PATH))["lastEvaluatedAt"] is None


@pytest.mark.usefixtures("flag")
def test_usage__archived_flag__is_reported(api: Any, production: Environment) -> None:
    count(production, START + 29 * DAY, on=1)
    data(api.post("/v1/flags/f/archive"))
    assert data(api.get(PATH))["total"] == 1


def test_usage__unknown_flag__is_not_found(subtests: pytest.Subtests, api: Any) -> None:
    for key in ["nope", "no such key", "ü"]:
        with subtests.test(key=key):
            error(api.get(f"/v1/flags/{key}/usage"), 404, "flag_not_found")


@pytest.mark.usefixtures("flag")
def test_usage__parameters_that_make_no_period__are_refused(subtests: pytest.Subtests, api: Any) -> None:
    for query, field, code in [
        ("interval=week", "interval", "invalid_value"),
        ("interval=", "interval", "out_of_range"),
        ("interval=day&interval=day", "interval", "duplicate"),
        ("from=yesterday", "from", "invalid_value"),
        ("to=2028-02-30", "to", "invalid_value"),
        ("from=2028-11-02T00:00:00Z&to=2028-11-01T00:00:00Z", "from", "out_of_range"),
        ("from=2028-07-29T11:59:59Z&to=2028-10-27T12:00:00Z", "from", "out_of_range"),
        ("from=0001-01-01", "from", "out_of_range"),
        ("from=9999-12-31T00:00:00Z", "from", "out_of_range"),
        ("limit=1", "limit", "unknown_field"),
    ]:
        with subtests.test(query=query, field=field):
            failure = error(api.get(f"{PATH}?{query}"), 400, "invalid_parameter")
            assert [(detail["field"], detail["code"]) for detail in failure["details"]] == [(field, code)]


@pytest.mark.usefixtures("flag")
def test_usage__period_at_the_ends_of_time__is_answered(subtests: pytest.Subtests, api: Any) -> None:
    for query in [
        "to=0001-01-01T00:00:00Z", "to=0001-01-01T00:30:00Z&interval=day", "to=9999-12-31",
        "from=2028-07-29T12:00:00Z&to=2028-10-27T12:00:00Z",
    ]:  # fmt: skip
        with subtests.test(query=query):
            assert data(api.get(f"{PATH}?{query}"))["total"] == 0


@pytest.mark.usefixtures("flag")
def test_usage__key_of_scope_client__is_refused(client_of: Any) -> None:
    error(client_of(Scope.CLIENT).get(PATH), 403, "forbidden")


@pytest.mark.usefixtures("flag")
def test_usage__however_much__asks_four_questions(
    api: Any, production: Environment, django_assert_max_num_queries: Any
) -> None:
    data(api.get(PATH))
    for at in range(50):
        count(production, START + 25 * DAY + at * HOUR, on=1, off=2)
    with django_assert_max_num_queries(4):  # the flag, its tags, the counts, the last hour
        data(api.get(PATH))
