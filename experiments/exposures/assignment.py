"""Which variant a user gets: the one they had, else the one that the split gives them, recorded before it is told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from config.documents import Document
from config.errors import DomainError, ErrorCode
from config.models import Change, Environment
from config.snapshot import Table
from experiments.design.phases import assignment_source
from experiments.exposures.assignment_cache import memory
from experiments.exposures.recording import assign, assigned, expose
from experiments.exposures.storage import Stored
from experiments.models import Experiment, Exposure, Status
from experiments.models.documents import KIND, document
from experiments.models.locks import ExposureKey
from flags.engine.assignment import Assigned, Exclusion, compile_assignment
from flags.engine.types import Context
from flags.snapshot import configuration

WINNER = "winner"
REASONS: Mapping[str, str] = {
    Exclusion.FORCED.value: "the variant is forced for this user, a tester.",
    Exclusion.NOT_IN_GROUP.value: "the user belongs to another part of the experiment's group.",
    Exclusion.NOT_TARGETED.value: "the user does not meet the experiment's conditions.",
    Exclusion.NOT_IN_TRAFFIC.value: "the experiment takes in a percentage of its users, and this is none of them.",
    WINNER: "the experiment is over, and everybody sees its winner.",
}
"""Why a user does not count for an experiment, and what that means."""


@dataclass(frozen=True, slots=True, eq=False)
class Assigner:
    """What assigning needs to know of an experiment. `phase` is the number of its newest one, by which it assigns."""

    id: UUID
    key: str
    status: Status
    winner: str
    phase: int
    forced: Collection[str]
    assign: Callable[[Context], Assigned]
    document: Document

    def phase_that_gives(self, variant: str, context: Context) -> int:
        """The number of the newest phase that takes the user in with a variant; of the newest of all if none does.

        A flag that was evaluated while a phase was opened may have gone by the one before.
        """
        numbers = range(self.phase, 0, -1)
        return next((each for each in numbers if self._assign_by(each)(context) == Assigned(variant)), self.phase)

    def _assign_by(self, phase: int) -> Callable[[Context], Assigned]:
        if phase == self.phase:
            return self.assign
        return compile_assignment(assignment_source({**self.document, **self.document["phases"][phase - 1]}))


@dataclass(frozen=True, slots=True)
class Assignment:
    """The variant of one user in one experiment, and why the user does not count; None for who is in it."""

    variant: str
    experiment_id: UUID
    reason: str | None = None


def get_variant(
    *, key: str, environment: Environment, user_id: str, at: datetime, attributes: Mapping[str, Any] | None = None
) -> Assignment:
    """Assign a user; of one who is new here, keep the attributes.

    Raises DomainError `experiment_not_found` or `experiment_not_running`.
    """
    experiment = assigners.state.get((environment.key, key))
    if experiment is None:
        raise DomainError(ErrorCode.EXPERIMENT_NOT_FOUND, f"No experiment has the key {key[:100]!r}.")
    if experiment.winner:
        return Assignment(experiment.winner, experiment.id, WINNER)
    if experiment.status != Status.RUNNING:
        message = f"The experiment is {experiment.status.value}; only a running one assigns variants."
        raise DomainError(ErrorCode.EXPERIMENT_NOT_RUNNING, message)
    user = _User(environment, user_id, at, attributes or {})
    found, is_new = user.assigned(experiment, user.stored_in([experiment]))
    if not is_new:
        return found
    return Assignment(assign(*user.exposure(experiment, found.variant)), experiment.id)


def get_variants(
    *, environment: Environment, user_id: str, at: datetime, attributes: Mapping[str, Any], record: bool
) -> dict[str, Assignment]:
    """Assign a user in all running experiments, by their keys; without `record` nobody is exposed to anything."""
    state = assigners.state
    here = sorted(key for where, key in state if where == environment.key)
    running = [each for key in here if (each := state[environment.key, key]).status == Status.RUNNING]
    user = _User(environment, user_id, at, attributes)
    stored = user.stored_in(running)
    found = {each: user.assigned(each, stored) for each in running}
    new = [assigned(*user.exposure(each, assignment.variant)) for each, (assignment, is_new) in found.items() if is_new]
    variants = expose(new) if record and new else {}
    return {
        each.key: Assignment(variants.get((each.id, user_id), assignment.variant), each.id, assignment.reason)
        for each, (assignment, _) in found.items()
    }


def stored(
    environment: Environment, experiments: Collection[str], user_id: str, until: datetime | None = None
) -> Mapping[str, str]:
    """The variants that a user has in running experiments of these keys, by key: for flags that they drive.

    With `until`, the variants of those who had been exposed by that moment.
    """
    running = [each for key in experiments if (each := assigners.state.get((environment.key, key)))]
    if not running:
        return {}
    if until is not None:  # what is remembered does not tell since when
        exposed = Exposure.objects.filter(user_id=user_id, exposed_at__lte=until)
        exposed = exposed.filter(experiment__in=[each.id for each in running])
        of_then = dict(exposed.values_list("experiment", "variant"))
        return {each.key: of_then[each.id] for each in running if each.id in of_then}
    found = memory.recall([(each.id, user_id) for each in running])
    return {each.key: found[each.id, user_id].variant for each in running if (each.id, user_id) in found}


def record(environment: Environment, experiment: str, variant: str, context: Context) -> str:
    """Expose a user whom a flag has shown what it serves for a variant; return the variant that counts."""
    found = assigners.state.get((environment.key, experiment))
    if found is None or found.status != Status.RUNNING:  # it has been stopped since the flag was evaluated
        return variant
    whose = found.id, context.user_id
    known = memory.recall([whose]).get(whose)
    if known is not None and known.stands:
        return known.variant
    phase = found.phase_that_gives(variant, context)
    return assign(found.id, context.user_id, variant, context.now, context.attributes, phase)


class _User:
    """A user who asks at one moment, and what is known of them."""

    def __init__(self, environment: Environment, user_id: str, at: datetime, attributes: Mapping[str, Any]) -> None:
        self.context = Context(user_id, attributes, configuration(environment.key), at)

    def stored_in(self, experiments: Collection[Assigner]) -> Mapping[ExposureKey, Stored]:
        """What is stored of the user, except where a variant is forced."""
        user_id = self.context.user_id
        asked = [(each.id, user_id) for each in experiments if user_id not in each.forced]
        return memory.recall(asked) if asked else {}

    def assigned(self, experiment: Assigner, stored: Mapping[ExposureKey, Stored]) -> tuple[Assignment, bool]:
        """The variant of the user, and whether it has to be recorded before it may be told."""
        known = stored.get((experiment.id, self.context.user_id))
        if known is not None and known.stands:
            return Assignment(known.variant, experiment.id), False
        self.context.assigned = {experiment.key: known.variant} if known else {}
        found = experiment.assign(self.context)
        reason = found.exclusion.value if found.exclusion else None
        return Assignment(found.variant, experiment.id, reason), found.exclusion is None

    def exposure(self, experiment: Assigner, variant: str) -> tuple[Any, ...]:
        """What is recorded of a user who is new in an experiment, in the order that `assign` takes it."""
        user = self.context
        return experiment.id, user.user_id, variant, user.now, user.attributes, experiment.phase


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
    return Assigner(
        id=UUID(experiment["id"]),
        key=experiment["key"],
        status=Status(experiment["status"]),
        winner=experiment.get("winner", ""),
        phase=max(1, len(experiment.get("phases", ()))),
        forced=frozenset(experiment.get("forcedVariants", ())),
        assign=compile_assignment(assignment_source(experiment)),
        document=experiment,
    )


assigners: Table[Assigners] = Table(KIND, load=_load, apply=_apply)
