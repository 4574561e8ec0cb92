"""GET /v1/events/counts, as a client sees it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from config.models import Environment
from events.counts.queries import MAX_NAMES
from events.recording import NewEvent, new_id, record
from tests.answers import data, error
from tests.conftest import NOON

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
PATH = "/v1/events/counts"


@pytest.fixture(autouse=True)
def _clock() -> Iterator[None]:
    with time_machine.travel(NOON, tick=False):
        yield


def happen(environment: Environment, name: str, *moments: datetime | str) -> None:
    """Store an event of this name at each moment."""
    when = [datetime.fromisoformat(each) if isinstance(each, str) else each for each in moments]
    record([NewEvent(new_id(), "u", name, each.astimezone(UTC), NOON, {}) for each in when], environment)


def series(found: Any) -> list[tuple[str, dict[str, int]]]:
    return [(each["local"], each["counts"]) for each in found["series"]]


def test_counts__without_parameters__are_those_of_the_days_of_utc_for_thirty_days(
    api: Any, production: Environment
) -> None:
    happen(production, "buy", NOON - 30 * DAY - 12 * HOUR, NOON)
    happen(production, "see", NOON, NOON - 12 * HOUR, NOON - 12 * HOUR - timedelta(microseconds=1))
    happen(production, "old", NOON - 30 * DAY - 13 * HOUR)
    happen(production, "to come", NOON + 12 * HOUR)
    found = data(api.get(PATH))
    days = found.pop("series")
    assert found == {
        "environment": "production",
        "interval": "day",
        "timeZone": "UTC",
        "from": "2026-01-01T00:00:00.000000Z",
        "to": "2026-02-01T00:00:00.000000Z",
        "total": 5,
        "events": [{"event": "see", "count": 3}, {"event": "buy", "count": 2}],
    }
    assert len(days) == 31
    assert days[0] == {"at": "2026-01-01T00:00:00.000000Z", "local": "2026-01-01T00:00:00+00:00", "counts": {"buy": 1}}
    assert days[29:] == [
        {"at": "2026-01-30T00:00:00.000000Z", "local": "2026-01-30T00:00:00+00:00", "counts": {"see": 1}},
        {"at": "2026-01-31T00:00:00.000000Z", "local": "2026-01-31T00:00:00+00:00", "counts": {"see": 2, "buy": 1}},
    ]
    assert all(each["counts"] == {} for each in days[1:29])


def test_counts__by_hour__are_those_of_48_hours(api: Any, production: Environment) -> None:
    happen(production, "see", NOON, NOON + HOUR - timedelta(microseconds=1), NOON - 48 * HOUR, NOON + HOUR)
    found = data(api.get(PATH, {"interval": "hour"}))
    assert (found["from"], found["to"]) == ("2026-01-29T12:00:00.000000Z", "2026-01-31T13:00:00.000000Z")
    assert len(found["series"]) == 49
    assert [each for each in series(found) if each[1]] == [
        ("2026-01-29T12:00:00+00:00", {"see": 1}),
        ("2026-01-31T12:00:00+00:00", {"see": 2}),
    ]


def test_counts__days_of_a_zone_where_clocks_change__are_its_dates(api: Any, production: Environment) -> None:
    happen(production, "a", "2026-03-28T23:59:59+01:00")
    happen(production, "b", "2026-03-29T00:00:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T23:59:59+02:00")
    happen(production, "c", "2026-03-30T00:00:00+02:00")
    found = data(api.get(PATH, {"timeZone": "Europe/Zurich", "from": "2026-03-28", "to": "2026-03-30"}))
    assert (found["from"], found["to"]) == ("2026-03-27T23:00:00.000000Z", "2026-03-30T22:00:00.000000Z")
    assert series(found) == [
        ("2026-03-28T00:00:00+01:00", {"a": 1}),
        ("2026-03-29T00:00:00+01:00", {"b": 3}),
        ("2026-03-30T00:00:00+02:00", {"c": 1}),
    ]


def test_counts__hours_of_a_zone_where_clocks_go_back__have_the_repeated_one_twice(
    api: Any, production: Environment
) -> None:
    happen(production, "summer", "2026-10-25T02:59:59+02:00")
    happen(production, "winter", "2026-10-25T02:00:00+01:00")
    query = {"timeZone": "Europe/Zurich", "interval": "hour", "from": "2026-10-25", "to": "2026-10-25"}
    found = data(api.get(PATH, query))
    assert len(found["series"]) == 25
    assert [each["at"] for each in found["series"][2:4]] == [
        "2026-10-25T00:00:00.000000Z",
        "2026-10-25T01:00:00.000000Z",
    ]
    assert series(found)[2:4] == [
        ("2026-10-25T02:00:00+02:00", {"summer": 1}),
        ("2026-10-25T02:00:00+01:00", {"winter": 1}),
    ]


def test_counts__period__has_the_days_that_it_touches_and_dates_are_local(subtests: pytest.Subtests, api: Any) -> None:
    for start, end, days in [
        ("2026-01-10", "2026-01-10", ["2026-01-10"]),
        ("2026-01-10T04:59:59Z", "2026-01-10T05:00:00Z", ["2026-01-09", "2026-01-10"]),
        ("2026-01-10T00:00:00-05:00", "2026-01-10T23:59:59.999999-05:00", ["2026-01-10"]),
        ("2026-01-10T05:00:00", "2026-01-11T04:59:59 00:00", ["2026-01-10"]),
    ]:
        with subtests.test(start=start, end=end):
            found = data(api.get(f"{PATH}?timeZone=America/New_York&from={start}&to={end}"))
            assert [local[:10] for local, _ in series(found)] == days


def test_counts__of_a_date_where_clocks_change_about_midnight__have_all_of_it_and_no_more(
    subtests: pytest.Subtests, api: Any
) -> None:
    for zone, date, at, until in [
        ("America/Nuuk", "2025-03-29", "2025-03-29T02:00:00.000000Z", "2025-03-30T01:00:00.000000Z"),  # has no 23:00
        ("America/Nuuk", "2025-10-25", "2025-10-25T01:00:00.000000Z", "2025-10-26T02:00:00.000000Z"),  # has it twice
        ("Asia/Beirut", "2025-03-30", "2025-03-29T22:00:00.000000Z", "2025-03-30T21:00:00.000000Z"),  # has no 0:00
        ("Asia/Beirut", "2025-10-25", "2025-10-24T21:00:00.000000Z", "2025-10-25T22:00:00.000000Z"),  # has 23:00 twice
        ("Atlantic/Azores", "2025-10-26", "2025-10-26T00:00:00.000000Z", "2025-10-27T01:00:00.000000Z"),  # 0:00 twice
    ]:
        for interval in ["day", "hour"]:
            with subtests.test(zone=zone, date=date, interval=interval):
                found = data(api.get(PATH, {"timeZone": zone, "interval": interval, "from": date, "to": date}))
                assert (found["from"], found["to"]) == (at, until)
                assert {local[:10] for local, _ in series(found)} == {date}


def test_counts__of_one_name__are_those_alone(api: Any, production: Environment) -> None:
    happen(production, "see", NOON, NOON)
    happen(production, "buy", NOON)
    found = data(api.get(PATH, {"event": "see", "from": "2026-01-31"}))
    assert (found["total"], found["events"]) == (2, [{"event": "see", "count": 2}])
    assert series(found) == [("2026-01-31T00:00:00+00:00", {"see": 2})]
    assert data(api.get(PATH, {"event": "se"}))["total"] == 0


def test_counts__of_other_environments__are_not_in_it(
    api: Any, staging_api: Any, production: Environment, staging: Environment
) -> None:
    happen(production, "see", NOON)
    happen(staging, "see", NOON, NOON)
    assert [data(each.get(PATH))["total"] for each in (api, staging_api)] == [1, 2]


def test_counts__nothing_happened__is_every_interval_empty(api: Any) -> None:
    found = data(api.get(PATH, {"from": "2026-01-30"}))
    assert (found["total"], found["events"]) == (0, [])
    assert series(found) == [("2026-01-30T00:00:00+00:00", {}), ("2026-01-31T00:00:00+00:00", {})]
    assert "other" not in found
    assert all("other" not in each for each in found["series"])


def test_counts__as_many_names_as_are_reported__have_no_other(api: Any, production: Environment) -> None:
    for at in range(MAX_NAMES):
        happen(production, f"name {at}", NOON)
    found = data(api.get(PATH, {"from": "2026-01-30"}))
    assert (found["total"], len(found["events"])) == (MAX_NAMES, MAX_NAMES)
    assert "other" not in found


def test_counts__more_names_than_are_reported__are_summed_up_beside_the_most_frequent(
    api: Any, production: Environment
) -> None:
    happen(production, "other", *[NOON] * 5)  # a name that is as good as any
    for at in range(MAX_NAMES - 1):
        happen(production, f"name {at:03}", NOON, NOON - DAY)
    for at in range(3):
        happen(production, f"rare {at}", NOON)
    found = data(api.get(PATH, {"from": "2026-01-29"}))
    assert (found["total"], found["other"], len(found["events"])) == (5 + 2 * (MAX_NAMES - 1) + 3, 3, MAX_NAMES)
    assert found["events"][:2] == [{"event": "other", "count": 5}, {"event": "name 000", "count": 2}]
    assert [each["other"] for each in found["series"]] == [0, 0, 3]
    assert found["series"][2]["counts"]["other"] == 5
    assert sum(found["series"][1]["counts"].values()) == MAX_NAMES - 1


def test_counts__name_that_is_reported_because_of_another_day__is_reported_by_name_everywhere(
    api: Any, production: Environment
) -> None:
    for at in range(MAX_NAMES + 1):
        happen(production, f"name {at:03}", NOON, NOON)
    happen(production, f"name {MAX_NAMES}", NOON - DAY)
    found = data(api.get(PATH, {"from": "2026-01-30"}))
    assert found["series"][0]["counts"] == {f"name {MAX_NAMES}": 1}
    assert found["other"] == 2


def test_counts__bad_parameter__is_refused_by_name(subtests: pytest.Subtests, api: Any) -> None:
    for query, field, code in [
        ("interval=week", "interval", "invalid_value"),
        ("timeZone=Europe/Atlantis", "timeZone", "invalid_value"),
        ("timeZone=europe/zurich", "timeZone", "invalid_value"),
        ("timeZone=Europe", "timeZone", "invalid_value"),
        ("timeZone=../../etc/passwd", "timeZone", "invalid_value"),
        ("timeZone=/etc/localtime", "timeZone", "invalid_value"),
        ("timeZone=%00", "timeZone", "invalid_value"),
        ("timeZone=%2B01:00", "timeZone", "invalid_value"),
        (f"timeZone={'x' * 201}", "timeZone", "too_long"),
        ("timeZone=", "timeZone", "out_of_range"),
        ("event=", "event", "out_of_range"),
        (f"event={'x' * 201}", "event", "too_long"),
        ("event=a%00b", "event", "invalid_value"),
        ("event=%ff", "event", "invalid_value"),
        ("event=a&event=b", "event", "duplicate"),
        ("from=yesterday", "from", "invalid_value"),
        ("from=2026-02-30", "from", "invalid_value"),
        ("from=1979-12-31", "from", "out_of_range"),
        ("from=0001-01-01", "from", "out_of_range"),
        ("to=1979-12-31T23:59:59.999999Z", "to", "out_of_range"),
        ("to=9999-12-31", "to", "out_of_range"),
        ("from=2026-02-01", "from", "out_of_range"),
        ("from=2026-01-10&to=2026-01-09", "from", "out_of_range"),
        ("from=2026-01-01&to=2028-09-27", "from", "out_of_range"),
        ("interval=hour&from=2025-12-20T20:59:59Z", "from", "out_of_range"),
        ("from=1980-01-01&to=9998-12-31", "from", "out_of_range"),
        ("userId=u", "userId", "unknown_field"),
    ]:
        with subtests.test(query=query, field=field):
            [detail] = error(api.get(f"{PATH}?{query}"), 400, "invalid_parameter")["details"]
            assert (detail["field"], detail["code"]) == (field, code)


def test_counts__as_long_and_as_far_as_can_be__are_answered(subtests: pytest.Subtests, api: Any) -> None:
    for query, number in [
        ("from=2026-01-01&to=2028-09-26", 1000),
        ("timeZone=Europe/Zurich&from=2026-01-01&to=2028-09-26", 1000),
        ("interval=hour&from=2025-12-20T21:00:00Z", 1000),
        ("to=1980-01-01", 1),
        ("to=1980-01-10", 10),
        ("from=9998-12-31&to=9998-12-31&timeZone=Pacific/Kiritimati", 1),
        ("from=1980-01-01&to=1980-01-01&timeZone=Pacific/Auckland&interval=hour", 24),
    ]:
        with subtests.test(query=query, number=number):
            assert len(data(api.get(f"{PATH}?{query}"))["series"]) == number


def test_counts__a_body__is_refused(api: Any) -> None:
    response = api.generic("GET", PATH, b'{"event": "see"}', content_type="application/json")
    assert error(response, 400, "validation_failed")["details"][0]["field"] == "event"


def test_counts__any_number_of_events_and_intervals__are_one_query(
    api: Any, production: Environment, django_assert_max_num_queries: Any
) -> None:
    api.get(PATH)
    for at in range(40):
        happen(production, f"name {at}", NOON - at * DAY, NOON - at * HOUR)
    with django_assert_max_num_queries(1):
        api.get(PATH, {"from": "2024-06-01", "timeZone": "Europe/Zurich"})
