"""Remembering whose part of the daily changes is out of date, until somebody reads a series.

`history` corrects the changes of these users. Callers lock the aggregates of the experiment and save their state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from config.database.insertion import insert
from experiments.models import AggregateState, DailyChange, SeriesUser, UserTotal

_COLUMNS = ("experiment_id", "user_id", "variant", "phase", "exposed_at", "is_in_several_variants")
_UNCOUNTED = ("", 1, None, False)


def has_series(state: AggregateState) -> bool:
    """Return whether the experiment has daily changes that can be corrected."""
    return bool(state.series)


def note_outdated(state: AggregateState, user_ids: Sequence[str]) -> None:
    """Note users whose totals are about to be computed again, with the exposures that their old totals count.

    Users who have been noted before keep their first note.
    """
    if not has_series(state):
        return
    totals = UserTotal.objects.filter(experiment=state.pk, user_id__in=user_ids)
    exposures: dict[str, Sequence[Any]] = {row[1]: row[2:] for row in totals.values_list(*_COLUMNS)}
    rows = [[state.pk, user_id, *exposures.get(user_id, _UNCOUNTED)] for user_id in user_ids]
    insert(SeriesUser, _COLUMNS, rows, "ON CONFLICT (experiment_id, user_id) DO NOTHING")


def invalidate_series(state: AggregateState) -> None:
    """Delete the daily changes, if any. The next reader of a series has them computed again."""
    if has_series(state):
        DailyChange.objects.filter(experiment=state.pk).delete()
        SeriesUser.objects.filter(experiment=state.pk).delete()
        state.series = {}
