"""The hours and days of time zones: as people there read them off their clocks and calendars."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import groupby, pairwise
from typing import Any
from zoneinfo import ZoneInfo
from zoneinfo._zoneinfo import ZoneInfo as ReadableZoneInfo  # type: ignore[import-not-found]

from events.counts.intervals import Interval, Intervals, Run, intervals, zone_names
from events.counts.storage import QUARTER, quarter_of, start_of

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def shown(series: Intervals, zone: str) -> list[str]:
    """Return the local starts, as the API shows them, and the end of the last interval."""
    return [start_of(at).astimezone(ZoneInfo(zone)).isoformat() for at in (*series.starts, series.end)]


def test_days__between_two_moments__are_those_that_hold_them() -> None:
    for zone, first, last, expected in [
        ("UTC", "2026-01-31T00:00:00+00:00", "2026-01-31T23:59:59.999999+00:00", ["2026-01-31", "2026-02-01"]),
        ("UTC", "2026-01-31T23:59:59+00:00", "2026-02-01T00:00:00+00:00", ["2026-01-31", "2026-02-01", "2026-02-02"]),
        ("Europe/Zurich", "2026-03-28T22:59:00+00:00", "2026-03-28T22:59:00+00:00", ["2026-03-28", "2026-03-29"]),
        ("Europe/Zurich", "2026-03-28T23:00:00+00:00", "2026-03-29T21:59:00+00:00", ["2026-03-29", "2026-03-30"]),
        ("Asia/Kathmandu", "2026-01-31T18:15:00+00:00", "2026-01-31T18:15:00+00:00", ["2026-02-01", "2026-02-02"]),
        ("Pacific/Chatham", "2026-01-31T10:14:00+00:00", "2026-01-31T10:15:00+00:00", ["2026-01-31", "2026-02-02"]),
        # Clocks that leave out midnight, a date that was left out, and an hour that is both before
        # and after midnight.
        ("America/Sao_Paulo", "2018-11-04T12:00:00+00:00", "2018-11-04T12:00:00+00:00", ["2018-11-04", "2018-11-05"]),
        ("Pacific/Apia", "2011-12-29T12:00:00+00:00", "2011-12-30T12:00:00+00:00", ["2011-12-29", "2012-01-01"]),
        ("America/Havana", "2026-11-01T04:30:00+00:00", "2026-11-01T05:30:00+00:00", ["2026-11-01", "2026-11-02"]),
    ]:
        series = intervals(Interval.DAY, ZoneInfo(zone), moment(first), moment(last))
        dates = [text[:10] for text in shown(series, zone)]
        assert (dates[0], dates[-1]) == (expected[0], expected[-1]), (zone, first)


def test_days__where_clocks_change__are_as_long_as_they_were() -> None:
    for zone, day, hours in [
        ("Europe/Zurich", "2026-03-29", 23),
        ("Europe/Zurich", "2026-10-25", 25),
        ("Europe/Zurich", "2026-01-31", 24),
        ("America/Havana", "2026-11-01", 25),
        ("America/Sao_Paulo", "2018-11-04", 23),
        ("America/Sao_Paulo", "2018-02-17", 25),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("Australia/Lord_Howe", "2026-10-04", 23.5),
        ("America/St_Johns", "2008-11-01", 25),
        ("Pacific/Apia", "2011-12-31", 24),
    ]:
        noon = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
        series = intervals(Interval.DAY, ZoneInfo(zone), noon, noon)
        assert len(series.starts) == 1, (zone, day)
        assert (series.end - series.starts[0]) * QUARTER == hours * HOUR, (zone, day)


def test_hours__where_clocks_change__are_those_of_the_clocks() -> None:
    for zone, first, expected in [
        (
            "Europe/Zurich",
            "2026-03-29T00:30:00+00:00",
            ["2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"],
        ),
        (
            "Europe/Zurich",
            "2026-10-25T00:30:00+00:00",
            ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"],
        ),
        (
            "Asia/Kathmandu",
            "2026-01-31T00:14:00+00:00",
            ["2026-01-31T05:00:00+05:45", "2026-01-31T06:00:00+05:45", "2026-01-31T07:00:00+05:45"],
        ),
        (  # half an hour twice
            "Australia/Lord_Howe",
            "2026-04-04T14:30:00+00:00",
            ["2026-04-05T01:00:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T02:00:00+10:30"],
        ),
        (  # half an hour that is left out
            "Australia/Lord_Howe",
            "2026-10-03T15:00:00+00:00",
            ["2026-10-04T01:00:00+10:30", "2026-10-04T02:30:00+11:00", "2026-10-04T03:00:00+11:00"],
        ),
    ]:
        second = moment(first) + HOUR - (timedelta(minutes=30) if zone == "Australia/Lord_Howe" else timedelta())
        assert shown(intervals(Interval.HOUR, ZoneInfo(zone), moment(first), second), zone) == expected, (zone, first)


def test_runs__year_with_two_changes_of_clocks__are_five() -> None:
    series = intervals(
        Interval.DAY, ZoneInfo("Europe/Zurich"), moment("2026-01-01T12:00+01:00"), moment("2026-12-31T12:00+01:00")
    )
    assert len(series.starts) == 365
    assert [(run.index, run.length) for run in series.runs] == [(0, 96), (87, 92), (88, 96), (297, 100), (298, 96)]
    assert series.runs[1] == Run(87, quarter_of(moment("2026-03-29T00:00+01:00")), 92)


def test_runs__hours__are_one_however_often_clocks_change_by_whole_hours() -> None:
    first = moment("2026-01-01T12:00+01:00")
    series = intervals(Interval.HOUR, ZoneInfo("Europe/Zurich"), first, first + 365 * DAY)
    assert series.runs == [Run(0, quarter_of(first), 4)]


def test_intervals__of_the_first_and_last_year__are_there() -> None:
    for interval in Interval:
        for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"]:
            for year in [1980, 9998]:
                first, last = datetime(year, 1, 1, tzinfo=UTC), datetime(year, 12, 31, 23, 59, tzinfo=UTC)
                series = intervals(interval, ZoneInfo(zone), first, last)
                assert start_of(series.starts[0]) <= first, (interval, zone, year)
                assert start_of(series.end) > last, (interval, zone, year)


def test_zone_names__are_those_of_the_database_of_time_zones() -> None:
    assert {"UTC", "Europe/Zurich", "America/Argentina/Buenos_Aires", "Etc/GMT+12"} <= zone_names()
    assert not {"", "Europe", "europe/zurich", "localtime", "posix/UTC", "right/UTC", "../UTC"} & zone_names()


# --- every change of clocks since 1980, in every zone ----------------------------------------------------------------


def changes_of(name: str) -> list[datetime]:
    """Return the changes of clocks of a zone, up to where its file continues with a rule."""
    moments = [datetime.fromtimestamp(at, UTC) for at in ReadableZoneInfo(name)._trans_utc]
    zone = ZoneInfo(name)
    return [
        at
        for at in moments
        if at.year >= 1980
        and at.astimezone(zone).utcoffset() != (at - timedelta(seconds=1)).astimezone(zone).utcoffset()
    ]


def kinds_of_changes() -> dict[Any, tuple[str, datetime]]:
    """One of each kind. Which hours and dates there are is no matter of the month or year."""
    kinds: dict[Any, tuple[str, datetime]] = {}
    for name in sorted(zone_names()):
        zone = ZoneInfo(name)
        for at in changes_of(name):
            before, after = (at - timedelta(seconds=1)).astimezone(zone), at.astimezone(zone)
            kinds.setdefault((at.time(), before.utcoffset(), after.utcoffset()), (name, at))
    return kinds


def local(quarter: int, zone: ZoneInfo) -> datetime:
    """Return the offset at the end of a quarter, because some zones changed clocks a minute after
    its start.
    """
    return (start_of(quarter + 1) - timedelta(seconds=1)).astimezone(zone)


def first_of_each(quarters: range, keys: dict[int, Any]) -> list[int]:
    return [next(same) for _, same in groupby(quarters, key=keys.__getitem__)]


def test_intervals__around_every_change_of_clocks__are_local_hours_and_dates() -> None:
    kinds = kinds_of_changes()
    assert len(kinds) > 200
    for name, at in kinds.values():
        zone = ZoneInfo(name)
        clocks = {
            quarter: local(quarter, zone) for quarter in range(quarter_of(at - 28 * HOUR), quarter_of(at + 28 * HOUR))
        }
        dates = {quarter: clock.date() for quarter, clock in clocks.items()}
        hours = {quarter: (clock.hour, clock.utcoffset()) for quarter, clock in clocks.items()}
        for interval, keys in ((Interval.DAY, dates), (Interval.HOUR, hours)):
            series = intervals(interval, zone, at - HOUR, at + HOUR)
            expected = first_of_each(range(series.starts[0], series.end), keys)
            if (name, at.date(), interval) == ("Antarctica/Casey", date(2010, 3, 4), Interval.DAY):
                del expected[1:]  # the one time that a date had begun, was left again for its last hour, and went on
            assert series.starts == expected, (name, interval, at)
            assert series.starts[0] <= quarter_of(at - HOUR)
            assert keys[series.starts[0]] == keys[quarter_of(at - HOUR)]
            assert series.starts[-1] <= quarter_of(at + HOUR) < series.end
            assert starts_of(series.runs, len(series.starts)) == series.starts


def test_changes_of_clocks__of_any_zone__are_more_than_a_day_apart() -> None:
    gaps = [after - before for name in zone_names() for before, after in pairwise(changes_of(name))]
    assert len(gaps) > 1000
    assert min(gaps) > DAY


def starts_of(runs: list[Run], number: int) -> list[int]:
    ends = [*(run.index for run in runs[1:]), number]
    return [run.start + at * run.length for run, end in zip(runs, ends, strict=True) for at in range(end - run.index)]
