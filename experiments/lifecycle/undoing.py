"""Undoing writes of experiments: edits, new and deleted drafts, starts, stops, and the archive.

The flag that an experiment drives goes back together with the experiment, and not by its own undo.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from config.change_log.undoing import (
    Way,
    changed_since,
    created_at,
    put_back,
    refusing_by_cause,
    require_as_written,
    require_unused,
    values_put_back,
)
from config.change_log.writing import Writing
from config.documents import Document, is_same
from config.models import Change, Environment
from config.timestamps import parse_timestamp
from experiments.lifecycle import back_to_draft, decisions
from experiments.lifecycle import changes as experiment_changes
from experiments.lifecycle.archive import set_archived
from experiments.models import Experiment, Status
from experiments.models.documents import KIND, document, get_experiment
from experiments.results.fixed_reading import FOR_LATE_EVENTS
from flags.changes.segment_changes import KIND as SEGMENT
from flags.changes.undoing import undo as undo_segments

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
_FORGOTTEN = "Exposures of users who got a forced variant do not come back, because they were deleted."
_DERIVED = frozenset({"tuningSampleSize"})

Step = Callable[[Writing, Experiment, Document], None]
"""Put back what a step has changed; the document is the one from before it."""


def way_of(changes: Sequence[Change]) -> Way:
    """Return how a write goes back that changed an experiment, or why it does not."""
    if any(change.kind == SEGMENT for change in changes):
        return Way(undo_segments, led_by=SEGMENT)  # it opened phases of experiments, which get one more
    own = [change for change in changes if change.kind == KIND]
    steps = [change for change in own if _is_step(change)]
    if not steps:  # the rule of a flag follows the forced variants
        return Way(undo, led_by=KIND, lost=_FORGOTTEN if any(map(_forces_in_started, own)) else "")
    return _way_of_step(own[0]) if len(own) == 1 else Way(why_not=_never_for_its_phase(own[0]))


def undo(log: Writing, changes: Sequence[Change]) -> None:
    """Put back the edits of experiments. A draft that was created is deleted, and a deleted one comes back."""
    for change in changes:
        if change.kind != KIND:
            continue
        if change.after is None:
            _bring_back(log, change, change.before or {})
            continue
        experiment = _find(change)
        now = document(experiment)
        if change.before is None:
            require_as_written("experiment", change, now)
            experiment_changes.remove(log, experiment)
            continue
        values, current = values_put_back("experiment", change, now, _values), _values(now)
        edited = {name: value for name, value in values.items() if not is_same(value, current[name])}
        experiment_changes.change(log, experiment, edited)


def _is_step(change: Change) -> bool:
    """Return whether a change is more than an edit, a new draft or the deletion of one."""
    if change.before is None or change.after is None:
        return False
    before, after = change.before, change.after
    others = {**before, **after}.keys() - _COLUMNS.keys() - _DERIVED
    return not all(is_same(before.get(name), after.get(name)) for name in others)


def _forces_in_started(change: Change) -> bool:
    """Return whether a change forces a variant for more users of an experiment that has exposures."""
    before, after = change.before or {}, change.after or {}
    added = (after.get("forcedVariants") or {}).keys() - (before.get("forcedVariants") or {}).keys()
    return bool(added) and after["status"] != Status.DRAFT


def _way_of_step(change: Change) -> Way:
    before, after = change.before or {}, change.after or {}
    match before["status"], after["status"]:
        case Status.DRAFT, Status.RUNNING:
            return _way(change, back_to_draft.undo_start, back_to_draft.try_to_undo_start)
        case Status.RUNNING, Status.STOPPED:
            return _way(change, _reopen, _try_to_reopen)
        case Status.STOPPED, Status.RUNNING:
            return _way_of_reopening(change, before)
        case Status.RUNNING, Status.DRAFT:
            return Way(why_not=f"To take this back, start {change.key} again.")
    if before.get("archivedAt") != after.get("archivedAt"):
        return _way(change, _set_archived)
    if not is_same(before.get("phases"), after.get("phases")):
        return Way(why_not="A phase cannot be undone; to assign users as before, open another one.")
    return Way(why_not="A metric cannot be removed from a started experiment; the verdict ignores added ones.")


def _way_of_reopening(change: Change, before: Document) -> Way:
    """Return how to stop the experiment as before, unless its results may have been frozen, which are gone."""
    if winner := before.get("winner"):
        why_not = f"The results of {change.key} are no longer frozen; to take this back, ship {winner} again."
        return Way(why_not=why_not)
    if change.at >= parse_timestamp(before["stoppedAt"]) + FOR_LATE_EVENTS:
        return Way(why_not=f"The results of {change.key} may change again; to take this back, stop it again.")
    return _way(change, decisions.stop_again)


def _never_for_its_phase(change: Change) -> str:
    return f"{change.key} has a new phase, which cannot be undone; to take this back, stop it again."


def _way(change: Change, step: Step, attempt: Step | None = None) -> Way:
    return Way(partial(_undo_step, change, step), partial(_undo_step, change, attempt or step))


def _undo_step(change: Change, step: Step, log: Writing, _changes: Sequence[Change]) -> None:
    experiment, before = _find(change), change.before or {}
    if put_back(before, change.after or {}, document(experiment)) is None:
        raise changed_since("experiment", [change.key])
    step(log, experiment, before)


def _reopen(log: Writing, experiment: Experiment, _running: Document) -> None:
    decisions.reopen(log, experiment)


def _try_to_reopen(log: Writing, experiment: Experiment, _running: Document) -> None:
    decisions.try_to_reopen(log, experiment)


def _set_archived(log: Writing, experiment: Experiment, before: Document) -> None:
    moment = before.get("archivedAt")
    set_archived(log, experiment, parse_timestamp(moment) if moment else None)


def _find(change: Change) -> Experiment:
    if not Experiment.objects.filter(pk=change.object_id).exists():
        raise changed_since("experiment", [change.key])
    return get_experiment(change.key, Environment.objects.get(key=change.environment))


def _bring_back(log: Writing, change: Change, draft: Document) -> None:
    environment, moment = Environment.objects.get(key=change.environment), draft.get("archivedAt")
    is_used = Experiment.objects.in_environment(environment).filter(key=change.key).exists()
    require_unused("experiment", change.key, is_used)
    columns = {
        "id": change.object_id,
        "created_at": created_at(change),
        "archived_at": parse_timestamp(moment) if moment else None,
    }
    with refusing_by_cause("draft", [change.key]):
        experiment_changes.insert(log, change.key, environment, _values(draft), **columns)


def _values(stored: Document | None) -> dict[str, Any]:
    return {column: (stored or {}).get(name) for name, column in _COLUMNS.items()}
