"""Undo an edit of an experiment: what it changed goes back, if nobody has changed it since. Steps do not go back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from config.change_log.undoing import changed_since, require_as_written, values_put_back
from config.change_log.writing import Writing
from config.documents import Document, is_same
from config.models import Change, Environment
from experiments.lifecycle import changes as experiment_changes
from experiments.models import Experiment
from experiments.models.documents import document, get_experiment

_COLUMNS = {
    **{name: name for name in ("description", "hypothesis", "owner", "variants", "metrics", "percentage")},
    **{name: name for name in ("conditions", "group", "flag", "analysis")},
    "forcedVariants": "forced_variants",
    "plannedSampleSize": "planned_size",
    "minimumEffect": "minimum_effect",
    "minimumDays": "minimum_days",
    "lookbackDays": "lookback_days",
    "givenTuningSampleSize": "given_tuning_size",
}
_DERIVED = frozenset({"tuningSampleSize"})


def is_step(change: Change) -> bool:
    """Return whether a change is more than an edit, such as a start, or the deletion of a draft."""
    if change.after is None:
        return True
    if change.before is None:
        return False
    before, after = change.before, change.after
    others = {**before, **after}.keys() - _COLUMNS.keys() - _DERIVED
    return not all(is_same(before.get(name), after.get(name)) for name in others)


def undo(log: Writing, changes: Sequence[Change]) -> None:
    """Put back the edits of experiments. A draft that was created is deleted."""
    for change in changes:
        experiment = Experiment.objects.filter(pk=change.object_id).first()
        if experiment is None:
            raise changed_since("experiment", [change.key])
        experiment = get_experiment(change.key, Environment.objects.get(key=change.environment))
        now = document(experiment)
        if change.before is None:
            require_as_written("experiment", change, now)
            experiment_changes.remove(log, experiment)
            continue
        values, current = values_put_back("experiment", change, now, _values), _values(now)
        edited = {name: value for name, value in values.items() if not is_same(value, current[name])}
        experiment_changes.change(log, experiment, edited)


def _values(stored: Document | None) -> dict[str, Any]:
    return {column: (stored or {}).get(name) for name, column in _COLUMNS.items()}
