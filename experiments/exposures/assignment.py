"""Assigning variants. A user keeps a stored variant; a new variant is stored before it is answered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import Error

from config import snapshot
from config.database.outages import Circuit, is_outage
from config.documents import Document
from config.errors import DomainError, ErrorCode
from config.models import Change, Environment
from config.monitoring import metrics
from config.snapshot import Table
from experiments.exposures.assignment_cache import assignment_cache
from experiments.exposures.recording import assign, assigned_exposure, store_exposures
from experiments.exposures.storage import StoredVariant
from experiments.models import Experiment, Exposure, Status
from experiments.models.documents import KIND, experiment_as_json
from experiments.models.locks import ExposureKey
from experiments.models.phases import assignment_source
from flags.engine.assignment import Assigned, Exclusion, compile_assignment
from flags.engine.participation import assign_by_flag
from flags.engine.types import Context
from flags.snapshot import configuration

WINNER = "winner"
_reading = Circuit("reading the variants of users of flags", patience=0.5)
_recording = Circuit("recording exposures by flags", patience=1.0)
REASONS: Mapping[str, str] = {
    Exclusion.DISABLED.value: "the flag that the experiment drives is off.",
    Exclusion.PREREQUISITE_FAILED.value: "the user does not meet a prerequisite of the flag.",
    Exclusion.SERVED_BY_RULE.value: "a rule of the flag that comes before the experiment's matches the user.",
    Exclusion.FORCED.value: "forcedVariants gives this user a variant.",
    Exclusion.NOT_IN_GROUP.value: "the user is outside the experiment's share of its group.",
    Exclusion.NOT_TARGETED.value: "the user does not meet the experiment's conditions.",
    Exclusion.NOT_IN_TRAFFIC.value: "the user is outside the percentage that the experiment takes in.",
    WINNER: "the experiment has stopped, and every user gets its winner.",
}
"""Why a user does not count in an experiment, by code."""


@dataclass(frozen=True, slots=True, eq=False)
class Assigner:
    """An experiment compiled for assignment. `phase` is the number of the newest phase, by which new users are
    assigned.
    """

    id: UUID
    key: str
    status: Status
    winner: str
    phase: int
    forced: Collection[str]
    flag: str | None
    assign: Callable[[Context], Assigned]
    as_json: Document

    def assign_by_flag(self, environment: Environment, context: Context) -> Assigned | None:
        """Return the variant of a user. If the experiment drives a flag, the flag decides.

        Return None if this process does not know yet that the experiment drives the flag.
        """
        if self.flag is None:
            return self.assign(context)
        flag = context.configuration.flags.get(self.flag)
        if others := context.configuration.experiments.get(self.flag, frozenset()) - {self.key}:
            # They decide prerequisites of the flag.
            context.assigned = {**stored_for_flags(environment, others, context.user_id), **context.assigned}
        return None if flag is None else assign_by_flag(flag, self.key, context)

    def phase_that_gives(self, variant: str, context: Context) -> int:
        """Return the newest phase that gives the user this variant; the newest phase of all if none does.

        A flag that is evaluated while a phase opens may still use the phase before.
        """
        numbers = range(self.phase, 0, -1)
        return next((number for number in numbers if self._assign_by(number)(context) == Assigned(variant)), self.phase)

    def _assign_by(self, phase: int) -> Callable[[Context], Assigned]:
        if phase == self.phase:
            return self.assign
        return compile_assignment(assignment_source({**self.as_json, **self.as_json["phases"][phase - 1]}))


@dataclass(frozen=True, slots=True)
class Assignment:
    """The variant of a user in an experiment. `reason` says why the user does not count, and is None if they do."""

    variant: str
    experiment_id: UUID
    reason: str | None = None


Require = Callable[[], None]
"""Refuses a caller whose key may have been revoked. It is called before the database is read or written."""


def get_variant(
    *,
    key: str,
    environment: Environment,
    user_id: str,
    now: datetime,
    attributes: Mapping[str, Any] | None = None,
    require: Require = snapshot.require_current_keys,
) -> Assignment:
    """Return the variant of a user. A user without one is exposed: the exposure and the attributes are stored.

    `require` is called unless this process remembers the variant. Raises DomainError `experiment_not_found` or
    `experiment_not_running`.
    """
    if remembered := get_remembered_variant(key=key, environment=environment, user_id=user_id):
        return remembered
    try:
        assignment = _get_stored_variant(key, _User(environment, user_id, now, attributes or {}), require)
    except (DomainError, Error) as error:
        if is_outage(error) or (isinstance(error, DomainError) and error.code is ErrorCode.UNAVAILABLE):
            metrics.variant_answers.add(1, "unavailable")
        raise
    metrics.variant_answers.add(1, "database")
    return assignment


def _get_stored_variant(key: str, user: _User, require: Require) -> Assignment:
    environment = user.environment
    experiment = assigners.state.get((environment.key, key))
    if experiment is None:
        raise DomainError(ErrorCode.EXPERIMENT_NOT_FOUND, f"No experiment has the key {key[:100]!r}.")
    if experiment.status != Status.RUNNING:
        message = f"The experiment is {experiment.status.value}; only a running one assigns variants."
        raise DomainError(ErrorCode.EXPERIMENT_NOT_RUNNING, message)
    decided = user.assigned(experiment, user.stored_in([experiment], require))
    if decided is None:
        message = "The experiment is only just starting; ask again."
        raise DomainError(ErrorCode.EXPERIMENT_NOT_RUNNING, message)
    assignment, is_new = decided
    if not is_new:
        return assignment
    return Assignment(assign(*user.exposure(experiment, assignment.variant)), experiment.id)


def get_remembered_variant(*, key: str, environment: Environment, user_id: str) -> Assignment | None:
    """Return what `get_variant` would, if this process remembers it. The database is not read."""
    remembered = _find_remembered(key, environment, user_id)
    if remembered is not None:
        metrics.variant_answers.add(1, "remembered")
    return remembered


def remembers(*, key: str, environment: Environment, user_id: str) -> bool:
    """Return whether this process remembers the variant of a user. Monitoring does not count this look."""
    return _find_remembered(key, environment, user_id) is not None


def _find_remembered(key: str, environment: Environment, user_id: str) -> Assignment | None:
    experiment = assigners.state.get((environment.key, key))
    return None if experiment is None else _remembered(experiment, user_id)


def _remembered(experiment: Assigner, user_id: str) -> Assignment | None:
    if experiment.winner:
        return Assignment(experiment.winner, experiment.id, WINNER)
    if experiment.status != Status.RUNNING or user_id in experiment.forced:
        return None
    variant = assignment_cache.remembered((experiment.id, user_id))
    return None if variant is None else Assignment(variant, experiment.id)


def get_variants(
    *,
    environment: Environment,
    user_id: str,
    now: datetime,
    attributes: Mapping[str, Any],
    record: bool,
    require: Require = snapshot.require_current_keys,
) -> dict[str, Assignment]:
    """Return the variants of a user in all running experiments, by key. Without `record`, no exposure is stored.

    `require` is called unless this process remembers all variants.
    """
    state = assigners.state
    keys = sorted(key for environment_key, key in state if environment_key == environment.key)
    experiments = (state[environment.key, key] for key in keys)
    running = [experiment for experiment in experiments if experiment.status == Status.RUNNING]
    user = _User(environment, user_id, now, attributes)
    stored = user.stored_in(running, require)
    decided = ((experiment, user.assigned(experiment, stored)) for experiment in running)
    assignments = {experiment: assigned for experiment, assigned in decided if assigned is not None}
    new = [
        assigned_exposure(*user.exposure(experiment, assignment.variant))
        for experiment, (assignment, is_new) in assignments.items()
        if is_new
    ]
    variants = store_exposures(new) if record and new else {}
    return {
        experiment.key: Assignment(
            variants.get((experiment.id, user_id), assignment.variant), experiment.id, assignment.reason
        )
        for experiment, (assignment, is_new) in assignments.items()
        if not (record and is_new) or (experiment.id, user_id) in variants  # the others have just been stopped
    }


def stored_for_flags(
    environment: Environment, experiments: Collection[str], user_id: str, until: datetime | None = None
) -> Mapping[str, str]:
    """Return the variants that flags must go on showing a user, by experiment key.

    With `until`, only exposures up to then count.
    """
    driving = [experiment for key in experiments if (experiment := assigners.state.get((environment.key, key)))]
    if not driving:
        return {}
    if until is not None:  # the cache does not know the moments of exposures
        exposed = Exposure.objects.filter(user_id=user_id, exposed_at__lte=until)
        exposed = exposed.filter(experiment__in=[experiment.id for experiment in driving])
        variants = dict(exposed.values_list("experiment", "variant"))
        return {experiment.key: variants[experiment.id] for experiment in driving if experiment.id in variants}
    cached = _variants_as_known([(experiment.id, user_id) for experiment in driving])
    return {
        experiment.key: cached[experiment.id, user_id].variant
        for experiment in driving
        if (experiment.id, user_id) in cached
    }


def _variants_as_known(users: Sequence[ExposureKey]) -> Mapping[ExposureKey, StoredVariant]:
    """Return the stored variants. During an outage of the database, return those that this process remembers."""
    remembered = {
        user: StoredVariant(variant, is_final=True) for user in users if (variant := assignment_cache.remembered(user))
    }
    if len(remembered) == len(users):
        return remembered
    try:
        return _reading.call(assignment_cache.get, users)
    except Error as error:
        if not is_outage(error):
            raise
        return remembered


def record_for_flag(environment: Environment, experiment: str, variant: str, context: Context) -> str | None:
    """Store the exposure of a user to whom a flag served a variant, and return the variant that counts.

    Return None if the experiment was stopped, or its start undone, since the evaluation. During an outage of the
    database nothing is stored: a later evaluation for the user stores the exposure.
    """
    assigner = assigners.state.get((environment.key, experiment))
    if assigner is None or assigner.status != Status.RUNNING:
        return None
    key = assigner.id, context.user_id
    cached = _variants_as_known([key]).get(key)
    if cached is not None and cached.is_final:
        return cached.variant
    phase = assigner.phase_that_gives(variant, context)
    try:
        user = context.user_id, variant, context.now, context.attributes, phase
        return _recording.call(assign, assigner.id, *user)
    except DomainError as error:
        if error.code is not ErrorCode.EXPERIMENT_NOT_RUNNING:
            raise
        return None
    except Error as error:
        if not is_outage(error):
            raise
        metrics.exposures_postponed.add()
        return variant


class _User:
    """A user at one time, with their attributes."""

    def __init__(self, environment: Environment, user_id: str, now: datetime, attributes: Mapping[str, Any]) -> None:
        self.environment = environment
        self.context = Context(user_id, attributes, configuration(environment.key), now)

    def stored_in(self, experiments: Collection[Assigner], require: Require) -> Mapping[ExposureKey, StoredVariant]:
        """Return the stored variants of the user, except in experiments that force a variant for them."""
        user_id = self.context.user_id
        keys = [(experiment.id, user_id) for experiment in experiments if user_id not in experiment.forced]
        if not all(map(assignment_cache.remembered, keys)):
            require()
        return assignment_cache.get(keys) if keys else {}

    def assigned(
        self, experiment: Assigner, stored: Mapping[ExposureKey, StoredVariant]
    ) -> tuple[Assignment, bool] | None:
        """Return the assignment of the user, and whether it must be stored before it is answered.

        A user with an exposure keeps the variant, even if the flag no longer shows it. Return None if this process does
        not know the start of the experiment yet.
        """
        earlier = stored.get((experiment.id, self.context.user_id))
        if earlier is not None and earlier.is_final:
            return Assignment(earlier.variant, experiment.id), False
        self.context.assigned = {experiment.key: earlier.variant} if earlier else {}
        if earlier:
            decided: Assigned | None = experiment.assign(self.context)
        else:
            decided = experiment.assign_by_flag(self.environment, self.context)
        if decided is None:
            return None
        reason = decided.exclusion.value if decided.exclusion else None
        return Assignment(decided.variant, experiment.id, reason), decided.exclusion is None

    def exposure(self, experiment: Assigner, variant: str) -> tuple[Any, ...]:
        """Return the arguments of `assign` for a user without a variant."""
        user = self.context
        phase = experiment.phase_that_gives(variant, user)
        return experiment.id, user.user_id, variant, user.now, user.attributes, phase


Assigners = Mapping[tuple[str, str], Assigner]
"""Compiled experiments by environment key and experiment key."""


def _load() -> Assigners:
    return {
        (experiment.environment.key, experiment.key): _compile(experiment_as_json(experiment))
        for experiment in Experiment.objects.select_related("environment")
    }


def _apply(assigners: Assigners, changes: Sequence[Change]) -> Assigners:
    changed = dict(assigners)
    for change in changes:
        changed.pop((change.environment, change.key), None)
        if change.after is not None:
            changed[change.environment, change.key] = _compile(change.after)
    return changed


def _compile(experiment: Document) -> Assigner:
    return Assigner(
        id=UUID(experiment["id"]),
        key=experiment["key"],
        status=Status(experiment["status"]),
        winner=experiment.get("winner", ""),
        phase=max(1, len(experiment.get("phases", ()))),
        forced=frozenset(experiment.get("forcedVariants", ())),
        flag=(experiment.get("flag") or {}).get("key"),
        assign=compile_assignment(assignment_source(experiment)),
        as_json=experiment,
    )


def _dump(assigners: Assigners) -> Iterator[Document]:
    for (environment_key, _), assigner in assigners.items():
        yield {"environment": environment_key, "experiment": assigner.as_json}


def _restore(entries: Sequence[Document]) -> Assigners:
    return {(entry["environment"], entry["experiment"]["key"]): _compile(entry["experiment"]) for entry in entries}


assigners: Table[Assigners] = Table(KIND, load=_load, apply=_apply, dump=_dump, restore=_restore, goes_first=True)
