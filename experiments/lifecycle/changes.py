"""Creating, changing, archiving, deleting and starting experiments. `decisions` stops and reopens them.

The start registers what decides the experiment, such as the primary metric and the planned size. Metrics that are added
later are marked as post hoc.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from config.change_log.writing import Actor, Writing, writing
from config.change_log.writing import check_version as check_version
from config.database.locks import lock_environment
from config.documents import Document, is_same
from config.errors import DomainError, ErrorCode, ValidationFailed
from config.models import Environment
from config.slugs import check_key
from experiments.exposures.recording import record_reported_before_start
from experiments.lifecycle.decisions import reopen_experiment as reopen_experiment
from experiments.lifecycle.decisions import stop_experiment as stop_experiment
from experiments.lifecycle.flag_rule import check_flag, put_rule
from experiments.lifecycle.groups import require_free
from experiments.lifecycle.new_phase import check_segments
from experiments.lifecycle.transitions import change_status, log_change, require_current, writing_experiment
from experiments.metrics.definition import Definition, current_definitions, definitions_of, primary_of
from experiments.models import WHOLE, AnalysisMethod, Experiment, Status
from experiments.models.design_checks import check_design, check_salts
from experiments.models.documents import KIND as KIND
from experiments.models.documents import experiment_as_json as experiment_as_json
from experiments.models.documents import get_experiment as get_experiment
from experiments.models.locks import lock_results
from experiments.models.phases import phase_as_json
from experiments.models.plan import new_plan, registered_plan, tuning_size_of
from experiments.results.forced_exposures import remove_forced_exposures

CHANGEABLE = frozenset({"description", "forced_variants", "owner", "hypothesis"})
"""The properties that can change at any time."""
_OPTIONAL = frozenset({"metrics", "percentage", "conditions", "group", "forced_variants", "flag", *new_plan()})
_OF_A_PHASE = frozenset({"variants", "percentage", "conditions"})


def create_experiment(
    *, key: str, environment: Environment, variants: Any, actor: Actor, now: datetime, reason: str = "", **values: Any
) -> Experiment:
    """Create a draft. `values` are properties in `new_design`; none is required.

    Raises ValidationFailed with every invalid field, DomainError `already_exists`, or DomainError `in_use` if another
    experiment overlaps the part of the group.
    """
    design = {**new_design(), "variants": variants, **_without_nulls(values)}
    if details := [*check_key(key), *check_design(design), *check_salts(key, design["group"])]:
        raise ValidationFailed(details)
    with writing(actor=actor, now=now, reason=reason) as log:
        if Experiment.objects.in_environment(environment).filter(key=key).exists():
            message = f"An experiment with the key {key} already exists; choose another key."
            raise DomainError(ErrorCode.ALREADY_EXISTS, message)
        return insert(log, key, environment, design, created_at=log.at)


def insert(log: Writing, key: str, environment: Environment, design: Mapping[str, Any], **columns: Any) -> Experiment:
    """Insert a draft with a checked design and append the change. An undo passes the `columns` of the deleted row.

    Raises ValidationFailed or DomainError if segments, flags or other experiments do not fit. An archived draft holds
    no part of a group.
    """
    values = {**new_design(), **_without_nulls(design)}
    tuning_size = tuning_size_of(values)
    experiment = Experiment(key=key, environment=environment, tuning_size=tuning_size, **values, **columns)
    _check_surroundings(experiment, values.keys() - ({"group"} if experiment.archived_at else set()))
    experiment.save(force_insert=True)
    log_change(log, experiment, before=None)
    return experiment


def update_experiment(
    *,
    key: str,
    environment: Environment,
    changes: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Experiment:
    """Merge `changes` into an experiment. None resets a property that is not required.

    A draft takes all properties of `create_experiment` except the key. A started experiment takes the description,
    owner, hypothesis, forced variants, and further metrics after the existing ones. Raises as `create_experiment` does,
    or DomainError `experiment_not_found` or `experiment_locked`.
    """
    with writing_experiment(key, environment, if_match, actor=actor, now=now, reason=reason) as (log, experiment):
        change(log, experiment, changes)
    return experiment


def change(log: Writing, experiment: Experiment, changes: Mapping[str, Any]) -> None:
    """Merge changes into an experiment and append them to the log, as `update_experiment` does."""
    sent = _without_nulls(_without_derived(experiment, changes))
    design = {**_design_of(experiment), **sent}
    new = {name: value for name, value in sent.items() if not is_same(value, getattr(experiment, name))}
    if details := [*check_design(design), *(check_salts(experiment.key, design["group"]) if "group" in new else ())]:
        raise ValidationFailed(details)
    is_measured = experiment.status != Status.DRAFT and "metrics" in new
    if new.keys() - CHANGEABLE - ({"metrics"} if is_measured else set()):
        _require_draft(experiment, "changed", new)
    if new:
        before = experiment_as_json(experiment)
        if "forced_variants" in new:
            experiment.forced_variants = new["forced_variants"]
            remove_forced_exposures(experiment)  # first, because it uses the metrics from before the change
        if is_measured:
            new["definitions"] = _add_metrics(experiment, new["metrics"])
        if experiment.status == Status.DRAFT:
            new["tuning_size"] = tuning_size_of(design)
        for name, value in new.items():
            setattr(experiment, name, value)
        _check_surroundings(experiment, new)
        experiment.save(update_fields=list(new))
        log_change(log, experiment, before)
        if "forced_variants" in new and experiment.status == Status.RUNNING:
            put_rule(log, experiment)


def delete_experiment(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> None:
    """Delete a draft. A started experiment has results and cannot be deleted."""
    with writing_experiment(key, environment, if_match, actor=actor, now=now, reason=reason) as (log, experiment):
        remove(log, experiment)


def remove(log: Writing, experiment: Experiment) -> None:
    """Delete a draft and append the change, as `delete_experiment` does."""
    _require_draft(experiment, "deleted")
    before, experiment_id, environment = experiment_as_json(experiment), experiment.pk, experiment.environment.key
    experiment.delete()
    log.append(KIND, object_id=experiment_id, key=experiment.key, environment=environment, before=before, after=None)


def start_experiment(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    now: datetime,
    started_at: datetime | None = None,
    if_match: str | None = None,
    reason: str = "",
) -> Experiment:
    """Start a draft. It assigns variants from now on, and drives its flag if it has one.

    The definitions of its metrics are fixed from then on. `started_at` is a time in the past, for imported experiments.
    Raises ValidationFailed if the flag cannot be driven, or DomainError `in_use` if another experiment drives it.
    """
    with writing_experiment(key, environment, if_match, actor=actor, now=now, reason=reason) as (log, experiment):
        lock_environment(environment)  # a user who is being erased must not be exposed again
        require_current(experiment)
        definitions = current_definitions(experiment.metrics)
        begun = started_at or log.at
        fixed = {
            "started_at": begun,
            "definitions": [definition.as_json() for definition in definitions],
            "registration": _registration(definitions, experiment),
            "tuning_size": tuning_size_of(_design_of(experiment)),
            "phases": [phase_as_json(experiment, begun, reason)],
        }
        change_status(log, experiment, Status.DRAFT, Status.RUNNING, **fixed)
        put_rule(log, experiment)
        record_reported_before_start(experiment)
        return experiment


def new_design() -> dict[str, Any]:
    """Return the default of every property except the key and the variants."""
    return {
        "description": "",
        "metrics": [],
        "percentage": WHOLE,
        "conditions": [],
        "group": None,
        "forced_variants": {},
        "flag": None,
        **new_plan(),
    }


def _design_of(experiment: Experiment) -> dict[str, Any]:
    """Return all properties that a client can send, except the key."""
    return {name: getattr(experiment, name) for name in ("variants", *new_design())}


def _registration(definitions: Sequence[Definition], experiment: Experiment) -> Document:
    """Return what a start registers, as JSON."""
    primary = primary_of(definitions)
    described = primary.as_json() if primary else {}
    return {
        "primaryMetric": described.get("key"),
        "direction": described.get("direction"),
        "windowHours": described.get("windowHours"),
        "metrics": [definition.key for definition in definitions],
        **registered_plan(_design_of(experiment)),
    }


def _add_metrics(experiment: Experiment, metrics: list[str]) -> list[Document]:
    """Return the definitions of a started experiment with further metrics.

    All values are computed again after the caller's transaction. Raises DomainError `experiment_locked` if existing
    metrics are removed or moved, if the results are frozen, or if a fixed analysis was read, because its one reading is
    stored with the metrics of that time.
    """
    existing = len(experiment.metrics)
    if metrics[:existing] != experiment.metrics:
        message = (
            f"The experiment is {experiment.status}; its metrics cannot be removed or moved. Add new ones at the end."
        )
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)
    # Freezing holds this lock until it is committed, so `frozen_at` is read only afterwards.
    [state] = lock_results([experiment.pk])
    if not Experiment.objects.filter(pk=experiment.pk, frozen_at=None).exists():
        message = "The results of the experiment are frozen, so no metric can be added."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)
    if experiment.analysis == AnalysisMethod.FIXED and state.reading:
        message = "The results of the experiment were read once, as planned, so no metric can be added."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)
    state.watermark = ""
    state.save(update_fields=["watermark"])
    added = [replace(definition, is_post_hoc=True) for definition in current_definitions(metrics[existing:])]
    return [definition.as_json() for definition in (*definitions_of(experiment), *added)]


def _without_derived(experiment: Experiment, changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the changes without a tuning size that follows from the plan, because clients send back what they read."""
    is_derived = experiment.given_tuning_size is None
    if is_derived and is_same(changes.get("given_tuning_size"), experiment.tuning_size):
        return {name: value for name, value in changes.items() if name != "given_tuning_size"}
    return changes


def _without_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace None by the default, in properties that None resets."""
    design = new_design()
    if unknown := values.keys() - {"variants", *design}:
        raise TypeError(f"An experiment has no {', '.join(sorted(unknown))}.")
    return {name: design[name] if value is None and name in _OPTIONAL else value for name, value in values.items()}


def _check_surroundings(experiment: Experiment, new: Collection[str]) -> None:
    """Check new properties of a draft against segments, flags and other experiments."""
    if "conditions" in new:
        check_segments(experiment)
    if "flag" in new:
        check_flag(experiment)
    if "group" in new:
        require_free(experiment)


def _require_draft(experiment: Experiment, what: str, changes: Collection[str] = ()) -> None:
    if experiment.status != Status.DRAFT:
        message = f"The experiment is {experiment.status}; only a draft can be {what}."
        if experiment.status == Status.RUNNING and not _OF_A_PHASE.isdisjoint(changes):
            message += " To change weights, percentage or conditions, open a new phase"
            message += f" with POST /v1/experiments/{experiment.key}/phases."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)


def archive_experiment(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Experiment:
    """Archive a draft or a stopped experiment. An archived one stays as it is.

    An archived draft gives its part of a group back. Raises DomainError `experiment_not_found`, or `invalid_transition`
    if the experiment is running.
    """
    with writing_experiment(key, environment, if_match, actor=actor, now=now, reason=reason) as (log, experiment):
        _require_not_running(experiment, "; only a draft or a stopped experiment can be archived")
        if experiment.archived_at is None:
            _save_archived(log, experiment, log.at)
    return experiment


def unarchive_experiment(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Experiment:
    """Take an experiment out of the archive. One that is not archived stays as it is.

    Raises DomainError `experiment_not_found`, or `in_use` if a draft's part of its group is taken.
    """
    with writing_experiment(key, environment, if_match, actor=actor, now=now, reason=reason) as (log, experiment):
        _require_not_running(experiment, ", so it is not archived")
        if experiment.archived_at is not None:
            set_archived(log, experiment, None)
    return experiment


def set_archived(log: Writing, experiment: Experiment, archived_at: datetime | None) -> None:
    """Archive an experiment as of a time in the past, or take it out of the archive, in the transaction of the log.

    Raises DomainError as `archive_experiment` and `unarchive_experiment` do.
    """
    _require_not_running(experiment, "; only a draft or a stopped experiment can be archived")
    if archived_at is None and experiment.status == Status.DRAFT:
        require_free(experiment)
    _save_archived(log, experiment, archived_at)


def _require_not_running(experiment: Experiment, consequence: str) -> None:
    if experiment.status == Status.RUNNING:
        raise DomainError(ErrorCode.INVALID_TRANSITION, f"The experiment is running{consequence}.")


def _save_archived(log: Writing, experiment: Experiment, archived_at: datetime | None) -> None:
    before = experiment_as_json(experiment)
    experiment.archived_at = archived_at
    experiment.save(update_fields=["archived_at"])
    log_change(log, experiment, before)
