"""What is fixed before anybody looks: by which metric an experiment is decided, which way is good, and at what size.

Metrics that a started experiment takes on: marked, so that nobody takes what they show for what was looked for.

Every write of an experiment until it runs: created and changed as a draft, then started. Its end: `decisions`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from config.change_log.preconditions import check_version as check_version
from config.change_log.writing import Actor, writing
from config.database.locks import lock_environment
from config.documents import Document, is_same
from config.errors import DomainError, ErrorCode, ValidationFailed
from config.models import Environment
from config.slugs import check_key
from experiments.design.audience import check_salts
from experiments.design.checks import check_design
from experiments.design.groups import require_free
from experiments.design.phases import phase_document
from experiments.design.segment_refs import check_segments
from experiments.exposures.forced_variants import remove_forced_exposures
from experiments.exposures.recording import record_reported_before_start
from experiments.lifecycle.decisions import reopen_experiment as reopen_experiment
from experiments.lifecycle.decisions import stop_experiment as stop_experiment
from experiments.lifecycle.flag_rule import check_flag, put_rule
from experiments.lifecycle.transitions import append, move
from experiments.metrics.definition import Definition, primary_of
from experiments.metrics.documents import current_definitions, definitions_of
from experiments.models import WHOLE, Experiment, Status
from experiments.models.documents import KIND as KIND
from experiments.models.documents import document as document
from experiments.models.documents import get_experiment as get_experiment
from experiments.models.locks import lock_aggregates
from experiments.stats.types import TUNING_SIZE


def registration(definitions: Sequence[Definition], planned_size: int | None) -> Document:
    """What stands in the change log from the start on, as JSON."""
    primary = primary_of(definitions)
    told = primary.document() if primary else {}
    return {
        "primaryMetric": told.get("key"),
        "direction": told.get("direction"),
        "windowHours": told.get("windowHours"),
        "metrics": [definition.key for definition in definitions],
        "plannedSampleSize": planned_size,
    }


def add_metrics(experiment: Experiment, metrics: list[str]) -> list[Document]:
    """The definitions of a started experiment's metrics and of those that are added after them, as they are now.

    In the caller's transaction; everything is folded afresh then. Raises DomainError `experiment_locked` where others
    than these are to go or to move, or where the results are frozen.
    """
    known = len(experiment.metrics)
    if metrics[:known] != experiment.metrics:
        message = f"The experiment is {experiment.status}; its metrics stay as they are, and others go after them."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)
    [held] = lock_aggregates([experiment.pk])  # whoever freezes the results holds it until that is committed
    if not Experiment.objects.filter(pk=experiment.pk, frozen_at=None).exists():
        message = "The results of the experiment are frozen; nothing more can be measured."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)
    held.mark = ""
    held.save(update_fields=["mark"])
    added = [replace(definition, is_post_hoc=True) for definition in current_definitions(metrics[known:])]
    return [definition.document() for definition in (*definitions_of(experiment), *added)]


CHANGEABLE = frozenset({"description", "forced_variants"})
"""At any time."""
_OPTIONAL = frozenset({"metrics", "percentage", "conditions", "group", "forced_variants", "flag", "planned_size"})
_OF_A_PHASE = frozenset({"variants", "percentage", "conditions"})


def create_experiment(
    *, key: str, environment: Environment, variants: Any, actor: Actor, at: datetime, reason: str = "", **values: Any
) -> Experiment:
    """Create a draft of `variants` and of `values`, those in `new_design`, of which none is required.

    Raises ValidationFailed with every field that is to blame, or DomainError `already_exists` or, where its part of a
    group is taken, `in_use`.
    """
    design = {**new_design(), "variants": variants, **_without_nulls(values)}
    if details := [*check_key(key), *check_design(design), *check_salts(key, design["group"])]:
        raise ValidationFailed(details)
    with writing(actor=actor, at=at, reason=reason) as log:
        if Experiment.objects.in_environment(environment).filter(key=key).exists():
            message = f"An experiment with the key {key} exists already; choose another key."
            raise DomainError(ErrorCode.ALREADY_EXISTS, message)
        experiment = Experiment(key=key, environment=environment, created_at=log.at, **design)
        _check_surroundings(experiment, design)
        experiment.save(force_insert=True)
        append(log, experiment, before=None)
    return experiment


def update_experiment(
    *,
    key: str,
    environment: Environment,
    changes: Mapping[str, Any],
    actor: Actor,
    at: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Experiment:
    """Merge `changes` (what `create_experiment` takes but the key) into a draft; None takes away what is not required.

    A started experiment only takes a description, forced variants, and metrics after those that it has.
    """
    sent = _without_nulls(changes)
    with writing(actor=actor, at=at, reason=reason) as log:
        experiment = get_experiment(key, environment)
        check_version(experiment, if_match)
        design = {name: sent.get(name, getattr(experiment, name)) for name in ("variants", *new_design())}
        new = {name: value for name, value in sent.items() if not is_same(value, getattr(experiment, name))}
        if details := [*check_design(design), *(check_salts(key, design["group"]) if "group" in new else ())]:
            raise ValidationFailed(details)
        is_measured = experiment.status != Status.DRAFT and "metrics" in new
        if new.keys() - CHANGEABLE - ({"metrics"} if is_measured else set()):
            _require_draft(experiment, "changed", new)
        if new:
            before = document(experiment)
            if "forced_variants" in new:
                experiment.forced_variants = new["forced_variants"]
                remove_forced_exposures(experiment)  # by the metrics of before
            if is_measured:
                new["definitions"] = add_metrics(experiment, new["metrics"])
            for name, value in new.items():
                setattr(experiment, name, value)
            _check_surroundings(experiment, new)
            experiment.save(update_fields=list(new))
            append(log, experiment, before)
            if "forced_variants" in new and experiment.status == Status.RUNNING:
                put_rule(log, experiment)
    return experiment


def delete_experiment(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    at: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> None:
    """Delete a draft. What was started has results, and stays."""
    with writing(actor=actor, at=at, reason=reason) as log:
        experiment = get_experiment(key, environment)
        check_version(experiment, if_match)
        _require_draft(experiment, "deleted")
        before, experiment_id = document(experiment), experiment.pk
        experiment.delete()
        log.append(KIND, object_id=experiment_id, key=key, environment=environment.key, before=before, after=None)


def start_experiment(
    *,
    key: str,
    environment: Environment,
    actor: Actor,
    at: datetime,
    started_at: datetime | None = None,
    if_match: str | None = None,
    reason: str = "",
) -> Experiment:
    """Let a draft assign variants, and fix what its metrics compute, whatever their names will mean later.

    The flag that it drives does as it says from the same moment on. A start in the past, for history that is brought
    in, is no offer of the API. Raises ValidationFailed where the flag cannot be driven, or DomainError `in_use` where
    another experiment drives it.
    """
    with writing(actor=actor, at=at, reason=reason) as log:
        lock_environment(environment)  # what an erasure under way has deleted must not be exposed once more
        experiment = get_experiment(key, environment)
        check_version(experiment, if_match)
        definitions = current_definitions(experiment.metrics)
        begun = started_at or log.at
        fixed = {
            "started_at": begun,
            "definitions": [definition.document() for definition in definitions],
            "registration": registration(definitions, experiment.planned_size),
            "phases": [phase_document(experiment, begun, reason)],
        }
        move(log, experiment, Status.DRAFT, Status.RUNNING, **fixed)
        put_rule(log, experiment)
        record_reported_before_start(experiment)
        return experiment


def new_design() -> dict[str, Any]:
    """What can be said of an experiment beside its key and variants, as it is unless somebody says it."""
    return {
        "description": "",
        "metrics": [],
        "tuning_size": TUNING_SIZE,
        "percentage": WHOLE,
        "conditions": [],
        "group": None,
        "forced_variants": {},
        "flag": None,
        "planned_size": None,
    }


def _without_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    """With what holds otherwise in place of None, where that takes something away."""
    design = new_design()
    if unknown := values.keys() - {"variants", *design}:
        raise TypeError(f"An experiment has no {', '.join(sorted(unknown))}.")
    return {name: design[name] if value is None and name in _OPTIONAL else value for name, value in values.items()}


def _check_surroundings(experiment: Experiment, new: Collection[str]) -> None:
    """Check what is new of a draft against all that there is beside it."""
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
            message += f" For other weights, percentage or conditions, POST /v1/experiments/{experiment.key}/phases"
            message += " opens a new phase."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)
