"""The experiments of one user: the variant, since when, and whether the user counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from config.models import Environment
from experiments.admin.results.exposed_users import ORIGINS
from experiments.exposures.assignment import REASONS, Assignment, get_variants
from experiments.models import Experiment, Exposure, Origin, Status
from flags.engine.types import Context

_LONG = ("definitions", "registration", "decision", "conditions", "metrics", "hypothesis", "description")
_TONES = {Status.DRAFT: "off", Status.RUNNING: "on", Status.STOPPED: "off"}


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """One experiment for the user.

    `words` says whether the user counts and why, and `counts` is None where it is not decided yet. `forced` is the
    variant that is forced for the user, if any.
    """

    experiment: Experiment
    variant: str
    exposed_at: datetime | None
    counts: bool | None
    words: str
    forced: str

    @property
    def tone(self) -> str:
        return _TONES[Status(self.experiment.status)]


def experiments_of(environment: Environment) -> list[Experiment]:
    """Return all experiments of an environment, the newest first, without what the page of a user does not show."""
    return list(Experiment.objects.in_environment(environment).defer(*_LONG))


def describe_experiments(
    context: Context, environment: Environment, experiments: Sequence[Experiment], exposures: Sequence[Exposure]
) -> list[ExperimentRow]:
    """Return the experiments that the user is in, and those that run or force a variant for the user.

    What a running experiment would do with a user who has not met it yet is computed, and not recorded.
    """
    exposed = {exposure.experiment_id: exposure for exposure in exposures}
    variants: Mapping[str, Assignment] = {}
    if any(experiment.status == Status.RUNNING for experiment in experiments):
        variants = get_variants(
            environment=environment,
            user_id=context.user_id,
            at=context.now,
            attributes=context.attributes,
            record=False,
        )
    return list(_rows(context.user_id, experiments, exposed, variants))


def _rows(
    user_id: str,
    experiments: Sequence[Experiment],
    exposed: Mapping[UUID, Exposure],
    variants: Mapping[str, Assignment],
) -> Iterator[ExperimentRow]:
    for experiment in experiments:
        forced = experiment.forced_variants.get(user_id, "")
        exposure = exposed.get(experiment.pk)
        if exposure is not None:
            counts, words = _describe_exposure(experiment, exposure)
            yield ExperimentRow(experiment, exposure.variant, exposure.exposed_at, counts, words, forced)
        elif forced:
            words = "The variant is forced, so the user does not count."
            yield ExperimentRow(experiment, forced, None, False, words, forced)
        elif (assignment := variants.get(experiment.key)) is not None and experiment.status == Status.RUNNING:
            yield ExperimentRow(experiment, assignment.variant, None, *_describe_assignment(assignment), "")


def _describe_exposure(experiment: Experiment, exposure: Exposure) -> tuple[bool, str]:
    if experiment.stopped_at is not None and exposure.exposed_at > experiment.stopped_at:
        return False, "The exposure came after the stop, so the user does not count."
    words = f"Counts for {exposure.variant}; {ORIGINS[Origin(exposure.origin)]}."
    if exposure.is_in_several_variants:
        words += " The user has also seen another variant. Only the first one counts."
    return True, words


def _describe_assignment(assignment: Assignment) -> tuple[bool | None, str]:
    if assignment.reason is None:
        return None, f"Not exposed yet. The user would see {assignment.variant}, and count from then on."
    return False, f"Does not count: {REASONS[assignment.reason]}"
