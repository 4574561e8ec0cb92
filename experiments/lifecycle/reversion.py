"""Undo of experiments: edits, new and deleted drafts, starts, stops, and the archive.

The flag that an experiment drives goes back together with the experiment, and not by its own undo.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from config.change_log.reversion import (
    Reversible,
    Target,
    UndoPlan,
    changed_since,
    created_at,
    put_back,
    refusing_by_cause,
    undo_of_kind,
)
from config.change_log.writing import Writing
from config.database.locks import Rank, lock_environment, lock_rows
from config.documents import Document, is_same
from config.errors import DomainError, ErrorCode
from config.models import Change, Environment
from config.timestamps import parse_timestamp
from experiments.lifecycle import changes as experiment_changes
from experiments.lifecycle import decisions
from experiments.lifecycle.changes import set_archived
from experiments.lifecycle.flag_rule import remove_rule
from experiments.lifecycle.transitions import change_status
from experiments.models import (
    DailySums,
    DayValue,
    Experiment,
    Exposure,
    ResultState,
    Status,
    StoredOutcome,
    UserValue,
    VariantSums,
)
from experiments.models.documents import KIND, experiment_as_json, get_experiment
from experiments.models.locks import lock_results
from experiments.results.fixed_reading import FOR_LATE_EVENTS
from experiments.results.forced_exposures import remove_forced_exposures
from flags.changes.segment_changes import KIND as SEGMENT

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

Step = Callable[[Writing, Experiment, Document], None]
"""Puts back what a step of an experiment has changed. The JSON is the experiment before the step."""


class Experiments(Reversible):
    noun = "experiment"
    derived = ("tuningSampleSize",)
    has_steps = True

    def plan(self, changes: Sequence[Change]) -> UndoPlan:
        if any(change.kind == SEGMENT for change in changes):
            return UndoPlan(undo_of_kind(SEGMENT), led_by=SEGMENT)  # it opened phases, which get one more
        own = [change for change in changes if change.kind == KIND]
        if not any(map(_is_step, own)):  # the rule of a flag follows the forced variants
            lost = _FORGOTTEN if any(map(_forces_in_started, own)) else ""
            return UndoPlan(undo_of_kind(KIND), led_by=KIND, lost=lost)
        return _plan_of_step(own[0]) if len(own) == 1 else UndoPlan(why_not=_never_for_its_phase(own[0]))

    def current(self, changes: Sequence[Change]) -> Sequence[Document | None]:
        return [experiment_as_json(found) if (found := _find(change)) else None for change in changes]

    def write(self, log: Writing, targets: Sequence[Target]) -> None:
        for target in targets:
            values = _values(target.document)
            if target.is_new:
                _insert(log, target, values)
            elif experiment := _find(target.change):
                now = _values(experiment_as_json(experiment))
                edited = {name: value for name, value in values.items() if not is_same(value, now[name])}
                experiment_changes.change(log, experiment, edited)

    def delete(self, log: Writing, changes: Sequence[Change]) -> None:
        for change in changes:
            if experiment := _find(change):
                experiment_changes.remove(log, experiment)


def _insert(log: Writing, target: Target, values: dict[str, Any]) -> None:
    change, archived_at = target.change, target.document.get("archivedAt")
    columns = {
        "id": change.object_id,
        "created_at": created_at(change),
        "archived_at": parse_timestamp(archived_at) if archived_at else None,
    }
    with refusing_by_cause("draft", [change.key]):
        experiment_changes.insert(log, change.key, _environment(change), values, **columns)


def _is_step(change: Change) -> bool:
    """Return whether a change is more than an edit, a new draft or the deletion of a draft."""
    if change.before is None or change.after is None:
        return False
    before, after = change.before, change.after
    others = {**before, **after}.keys() - _COLUMNS.keys() - {*Experiments.derived}
    return not all(is_same(before.get(name), after.get(name)) for name in others)


def _forces_in_started(change: Change) -> bool:
    """Return whether a change forces a variant for more users of a started experiment."""
    before, after = change.before or {}, change.after or {}
    added = (after.get("forcedVariants") or {}).keys() - (before.get("forcedVariants") or {}).keys()
    return bool(added) and after["status"] != Status.DRAFT


def _plan_of_step(change: Change) -> UndoPlan:
    before, after = change.before or {}, change.after or {}
    match before["status"], after["status"]:
        case Status.DRAFT, Status.RUNNING:
            return _plan(change, undo_start, try_to_undo_start)
        case Status.RUNNING, Status.STOPPED:
            return _plan(change, _reopen, _try_to_reopen)
        case Status.STOPPED, Status.RUNNING:
            return _plan_of_reopening(change, before)
        case Status.RUNNING, Status.DRAFT:
            return UndoPlan(why_not=f"To take this back, start {change.key} again.")
    if before.get("archivedAt") != after.get("archivedAt"):
        return _plan(change, _set_archived)
    if not is_same(before.get("phases"), after.get("phases")):
        return UndoPlan(why_not="A phase cannot be undone; to assign users as before, open another one.")
    return UndoPlan(why_not="A metric cannot be removed from a started experiment; the verdict ignores added ones.")


def _plan_of_reopening(change: Change, before: Document) -> UndoPlan:
    """Return how to stop the experiment as before. A stop that froze the results cannot come back."""
    if winner := before.get("winner"):
        why_not = f"The results of {change.key} are no longer frozen; to take this back, ship {winner} again."
        return UndoPlan(why_not=why_not)
    if change.at >= parse_timestamp(before["stoppedAt"]) + FOR_LATE_EVENTS:
        return UndoPlan(why_not=f"The results of {change.key} may change again; to take this back, stop it again.")
    return _plan(change, decisions.stop_again)


def _never_for_its_phase(change: Change) -> str:
    return f"{change.key} has a new phase, which cannot be undone; to take this back, stop it again."


def _plan(change: Change, step: Step, attempt: Step | None = None) -> UndoPlan:
    return UndoPlan(partial(_undo_step, change, step), partial(_undo_step, change, attempt or step))


def _undo_step(change: Change, step: Step, log: Writing, _changes: Sequence[Change]) -> None:
    experiment, before = _find(change), change.before or {}
    is_same_one = experiment is not None and str(experiment.pk) == change.object_id
    if (
        experiment is None
        or not is_same_one
        or put_back(before, change.after or {}, experiment_as_json(experiment)) is None
    ):
        raise changed_since("experiment", [change.key])
    step(log, experiment, before)


def _reopen(log: Writing, experiment: Experiment, _running: Document) -> None:
    decisions.reopen(log, experiment)


def _try_to_reopen(log: Writing, experiment: Experiment, _running: Document) -> None:
    decisions.try_to_reopen(log, experiment)


def _set_archived(log: Writing, experiment: Experiment, before: Document) -> None:
    archived_at = before.get("archivedAt")
    set_archived(log, experiment, parse_timestamp(archived_at) if archived_at else None)


def _find(change: Change) -> Experiment | None:
    """Return the experiment that has the key of the changed one now."""
    environment = _environment(change)
    is_there = Experiment.objects.in_environment(environment).filter(key=change.key).exists()
    return get_experiment(change.key, environment) if is_there else None


def _environment(change: Change) -> Environment:
    return Environment.objects.get(key=change.environment)


def _values(as_json: Document) -> dict[str, Any]:
    return {column: as_json.get(name) for name, column in _COLUMNS.items()}


def undo_start(log: Writing, experiment: Experiment, draft: Document) -> None:
    """Make a running experiment the draft again that `draft` describes, and remove its rule from its flag.

    As at a stop, this waits for transactions that record assignments, and makes later ones wait. So each exposure is
    either counted here or refused there. Raises DomainError `experiment_locked` if users have been exposed.
    """
    lock_environment(experiment.environment)
    [state] = lock_results([experiment.pk])
    lock_rows(Rank.EXPERIMENTS, Experiment.objects.filter(pk=experiment.pk))
    remove_forced_exposures(experiment)
    _require_unexposed(experiment)
    # There are results of users who were erased, at most.
    for of_users in (UserValue, DayValue):
        of_users.objects.filter(state=state).delete()
    for of_experiment in (VariantSums, DailySums, StoredOutcome):
        of_experiment.objects.filter(experiment=experiment).delete()
    # The state stays, because a refresh may be waiting for it.
    ResultState(pk=state.pk, experiment=experiment).save(force_update=True)
    _become_draft(log, experiment, draft)


def try_to_undo_start(log: Writing, experiment: Experiment, draft: Document) -> None:
    """Raise what `undo_start` would raise, without waiting. The caller rolls back what this writes."""
    _require_unexposed(experiment)
    _become_draft(log, experiment, draft)


def _require_unexposed(experiment: Experiment) -> None:
    exposed = Exposure.objects.filter(experiment=experiment).exclude(user_id__in=[*experiment.forced_variants])
    if number := exposed.count():
        users = "1 user has" if number == 1 else f"{number:,} users have"
        message = f"{users} been exposed since, so the start cannot be undone. Stop the experiment instead."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)


def _become_draft(log: Writing, experiment: Experiment, draft: Document) -> None:
    remove_rule(log, experiment)
    change_status(
        log,
        experiment,
        Status.RUNNING,
        Status.DRAFT,
        started_at=None,
        definitions=draft["definitions"] or [],
        registration=None,
        phases=[],
        tuning_size=draft["tuningSampleSize"],
    )
