"""Points in time, in and out."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from config.timestamps import format_timestamp, parse_timestamp


def test_parse__iso_8601__is_that_moment_in_utc() -> None:
    for text, moment in [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31 12:00:00.5+02:00", datetime(2026, 1, 31, 10, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-31T12:00:00,123456789-0530", datetime(2026, 1, 31, 17, 30, 0, 123_456, tzinfo=UTC)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2026-01-31T12:00-05", datetime(2026, 1, 31, 17, tzinfo=UTC)),
        ("2026-01-31t12:00:00z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2016-12-31T23:59:60Z", datetime(2017, 1, 1, tzinfo=UTC)),
        ("2017-01-01T05:29:60.5+05:30", datetime(2017, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
    ]:
        assert parse_timestamp(text) == moment, (text, moment)
        assert parse_timestamp(text).utcoffset() == timedelta(0), (text, moment)


def test_parse__date_as_an_end__is_its_last_instant() -> None:
    assert parse_timestamp("2026-01-31", end_of_day=True) == datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC)


def test_parse__moment_as_an_end__is_itself() -> None:
    assert parse_timestamp("2026-01-31T12:00Z", end_of_day=True) == datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_parse__anything_else__raises_value_error(subtests: pytest.Subtests) -> None:
    for text in [
        "",
        "yesterday",
        "2026-02-30",
        "2026-13-01",
        "2026-01-31T25:00:00Z",
        "2026-01-31T12:00:61Z",
        "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:00+2",
        "2026-01-31T12:00:00+023",
        "2026-01-31T12:00:00+24",
        "9999-12-31T23:59:60Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:00:00+05:99",
        "2026-01-31T12:00:00+99:00",
        "2026-W05-6",
        "20260131",
        "2026-01-31T12",
        "0000-01-01",
        "10000-01-01",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-01:00",
        "٢٠٢٦-01-31",
        "2026-01-31T12:00:00Zulu",
        "1769860800",
    ]:
        with subtests.test(text=text), pytest.raises(ValueError, match=r".+"):
            parse_timestamp(text)


def test_format__any_offset__is_utc_with_microseconds() -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))

    assert format_timestamp(moment) == "2026-01-31T10:00:00.000000Z"
    assert parse_timestamp(format_timestamp(moment)) == moment
