"""Remembering whose part of the daily changes is out of date, until somebody reads a series.

Daily changes are stored for the days before one of them, which `AggregateState.series` has as `until`. Nothing that
happens from that day on makes them outdated. `history` corrects the changes of the users that are noted here. Callers
lock the aggregates of the experiment and save their state.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, time
from typing import Any

from config.database.insertion import insert
from experiments.models import AggregateState, DailyChange, SeriesUser, UserTotal

EXPOSURE = "user_id, variant, phase, exposed_at, is_in_several_variants"
_COLUMNS = ("experiment_id", *EXPOSURE.split(", "))
_UNCOUNTED = ("", 1, None, False)
_ALL_DAYS = "9999-12-31"
"""The end of daily changes that froze in an older version."""
UNLESS_NOTED = "ON CONFLICT (experiment_id, user_id) DO NOTHING"
"""Users who have been noted before keep their first note."""


def has_series(state: AggregateState) -> bool:
    """Return whether the experiment has daily changes that can be corrected."""
    return bool(state.series)


def until_of(state: AggregateState) -> date:
    """Return the first day without daily changes, which the experiment must have."""
    assert state.series is not None  # noqa: S101 (see `has_series`)
    return date.fromisoformat(state.series.get("until", _ALL_DAYS))


def begin_of(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)


def note_outdated(state: AggregateState, user_ids: Collection[str]) -> None:
    """Note users whose totals are about to change, with the exposures that their old totals count."""
    totals = UserTotal.objects.filter(experiment=state.pk, user_id__in=user_ids)
    exposures: dict[str, Sequence[Any]] = {row[1]: row[2:] for row in totals.values_list(*_COLUMNS)}
    rows = [[state.pk, user_id, *exposures.get(user_id, _UNCOUNTED)] for user_id in sorted(user_ids)]
    insert(SeriesUser, _COLUMNS, rows, UNLESS_NOTED)


def invalidate_series(state: AggregateState) -> None:
    """Delete the daily changes, if any. The next reader of a series has them computed again."""
    if has_series(state):
        DailyChange.objects.filter(experiment=state.pk).delete()
        SeriesUser.objects.filter(experiment=state.pk).delete()
        state.series = {}
