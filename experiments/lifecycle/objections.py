"""The objections to shipping a variant. A decision that overrides them needs a reason. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from experiments.results.types import Results
from experiments.stats.types import Decision, SampleRatio


class Cause(StrEnum):
    """The cause of an objection, as decisions store it."""

    SAMPLE_RATIO_MISMATCH = "sample_ratio_mismatch"
    GUARDRAIL_HARMED = "guardrail_harmed"
    PLANNED_SIZE_NOT_REACHED = "planned_size_not_reached"
    NOT_THE_VERDICT = "not_the_verdict"


@dataclass(frozen=True, slots=True)
class Objection:
    """A reason not to ship a variant. `message` is a clause without a full stop."""

    cause: Cause
    message: str


_VERDICTS = {
    Decision.DO_NOT_SHIP: "the verdict is to keep the control",
    Decision.KEEP_RUNNING: "the verdict is to keep the experiment running, as there is no clear result yet",
    Decision.INCONCLUSIVE: "the verdict is that there is no clear result",
    Decision.CHECK_DATA: "the verdict is to check the data first",
}


def find_objections(results: Results, winner: str) -> list[Objection]:
    """Return the objections to shipping `winner` by these results, those to the data first."""
    return [
        *_against_the_data(results),
        *_by_guardrails(results, winner),
        *_by_size(results),
        *_by_verdict(results, winner),
    ]


def _against_the_data(results: Results) -> Iterator[Objection]:
    ratio = results.guards.sample_ratio
    if isinstance(ratio, SampleRatio) and ratio.is_mismatch:
        yield Objection(Cause.SAMPLE_RATIO_MISMATCH, "users are not split by the weights")


def _by_guardrails(results: Results, winner: str) -> Iterator[Objection]:
    for key in results.harmed.get(winner, ()):
        yield Objection(Cause.GUARDRAIL_HARMED, f"it harms the guardrail {key}")


def _by_size(results: Results) -> Iterator[Objection]:
    planned = (results.experiment.registration or {}).get("plannedSampleSize")
    if planned and results.users < planned:
        message = f"the results cover {results.users:,} of the {planned:,} planned users"
        yield Objection(Cause.PLANNED_SIZE_NOT_REACHED, message)


def _by_verdict(results: Results, winner: str) -> Iterator[Objection]:
    verdict = results.verdict
    wanted = results.control if verdict.decision == Decision.DO_NOT_SHIP else verdict.variant
    if verdict.decision not in (Decision.SHIP, Decision.DO_NOT_SHIP) or winner != wanted:
        message = _VERDICTS.get(verdict.decision, f"the verdict is to ship {verdict.variant}")
        yield Objection(Cause.NOT_THE_VERDICT, message)
