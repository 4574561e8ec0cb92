"""Which variant a user gets: the one they had, else the one that the split gives them, recorded before it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from config.documents import Document
from config.errors import DomainError, ErrorCode
from config.models import Change, Environment
from config.snapshot import Table
from experiments.exposures import assign
from experiments.lifecycle import KIND, document
from experiments.models import Experiment, Status
from flags.engine.bucketing import compile_split


@dataclass(frozen=True, slots=True)
class Assigner:
    """What assigning needs to know of an experiment. `split` gives the variant of a user id."""

    id: UUID
    status: Status
    split: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Assignment:
    """The variant of one user in one experiment."""

    variant: str
    experiment_id: UUID


def get_variant(
    *, key: str, environment: Environment, user_id: str, at: datetime, attributes: Mapping[str, Any] | None = None
) -> Assignment:
    """Assign a user; of one who is new here, keep the attributes.

    Raises DomainError `experiment_not_found` or `experiment_not_running`.
    """
    experiment = assigners.state.get((environment.key, key))
    if experiment is None:
        raise DomainError(ErrorCode.EXPERIMENT_NOT_FOUND, f"No experiment has the key {key[:100]!r}.")
    if experiment.status != Status.RUNNING:
        message = f"The experiment is {experiment.status.value}; only a running one assigns variants."
        raise DomainError(ErrorCode.EXPERIMENT_NOT_RUNNING, message)
    variant = assign(experiment.id, user_id, experiment.split(user_id), at, attributes)
    return Assignment(variant, experiment.id)


Assigners = Mapping[tuple[str, str], Assigner]
"""By environment key and experiment key."""


def _load() -> Assigners:
    return {
        (experiment.environment.key, experiment.key): _compile(document(experiment))
        for experiment in Experiment.objects.select_related("environment")
    }


def _apply(known: Assigners, change: Change) -> Assigners:
    changed = dict(known)
    changed.pop((change.environment, change.key), None)
    if change.after is not None:
        changed[change.environment, change.key] = _compile(change.after)
    return changed


def _compile(experiment: Document) -> Assigner:
    split = compile_split(
        ((variant["key"], variant["weight"]) for variant in experiment["variants"]), experiment["key"]
    )
    return Assigner(UUID(experiment["id"]), Status(experiment["status"]), split)


assigners: Table[Assigners] = Table(KIND, load=_load, apply=_apply)
