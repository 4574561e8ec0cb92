"""The objections to shipping a variant. A decision that overrides them needs a reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil

from config.change_log.named_users import fill
from config.documents import Document
from experiments.lifecycle.affected_users import Affected
from experiments.models.plan import remaining_run
from experiments.results.cut_off import find_cut_off
from experiments.results.types import MetricFigures, Results
from experiments.stats.numbers import format_count
from experiments.stats.outcomes import Decision, SampleRatio
from experiments.stats.types import Guardrail, ReasonCode
from flags.explanations.rule_words import describe_rule
from flags.usage.comparison import Preview


class Cause(StrEnum):
    """The cause of an objection, as decisions store it."""

    SAMPLE_RATIO_MISMATCH = "sample_ratio_mismatch"
    GUARDRAIL_HARMED = "guardrail_harmed"
    GUARDRAIL_UNDECIDED = "guardrail_undecided"
    SHORTEST_RUN_NOT_OVER = "shortest_run_not_over"
    PLANNED_SIZE_NOT_REACHED = "planned_size_not_reached"
    GOAL_WORSE = "goal_worse"
    NOT_DISTINGUISHABLE = "not_distinguishable"
    NOT_THE_VERDICT = "not_the_verdict"
    RULES_REMOVED = "rules_removed"
    OUTSIDERS_AFFECTED = "outsiders_affected"
    USERS_WAITING = "users_waiting"


@dataclass(frozen=True, slots=True)
class Objection:
    """A reason not to ship a variant. `message` is a clause without a full stop."""

    cause: Cause
    message: str


_VERDICTS = {
    Decision.DO_NOT_SHIP: "the verdict is to keep the control",
    Decision.KEEP_RUNNING: "the verdict is to keep the experiment running",
    Decision.NO_DIFFERENCE: "the verdict is that there is no difference of the size that matters",
    Decision.INCONCLUSIVE: "the verdict is that there is no clear result",
    Decision.CHECK_DATA: "the verdict is to check the data first",
}

_RESERVATIONS = {
    ReasonCode.GOAL_WORSE: Cause.GOAL_WORSE,
    ReasonCode.NOT_DISTINGUISHABLE: Cause.NOT_DISTINGUISHABLE,
}
"""The reasons of a verdict to ship that speak against it. Open windows and the plan have objections of their own."""


def find_objections(
    results: Results,
    winner: str,
    now: datetime,
    removed_rules: Sequence[tuple[int, Document]] = (),
    affected: Affected | None = None,
    *,
    keeps_counting: bool = False,
) -> list[Objection]:
    """Return the objections to shipping `winner` by these results. Objections to the data come first.

    `removed_rules` are the rules that shipping to everyone removes from the flag, with their numbers. `affected` says
    which recent users see something else. With `keeps_counting`, the stop cuts off no windows.
    """
    return [
        *_against_the_data(results),
        *_by_guardrails(results, winner),
        *_by_shortest_run(results, winner),
        *_by_size(results),
        *_by_reservations(results, winner),
        *_by_verdict(results, winner),
        *([] if keeps_counting else against_cutting_off(results)),
        *against_removal(removed_rules, now),
        *against_affecting(affected),
    ]


def against_removal(removed_rules: Sequence[tuple[int, Document]], now: datetime) -> Iterator[Objection]:
    """Object to each rule of the flag that shipping to everyone removes."""
    for number, rule in removed_rules:
        message = fill("it removes rule {} of the flag ({})", str(number), describe_rule(rule, now))
        yield Objection(Cause.RULES_REMOVED, message)


def against_affecting(affected: Affected | None) -> Iterator[Objection]:
    """Object to changing what recent users see who are not in the experiment."""
    if isinstance(affected, Preview) and affected.outsiders:
        number = f"{affected.outsiders:,} of {affected.users:,} recent users"
        message = f"it changes what {number} see who are not in the experiment"
        yield Objection(Cause.OUTSIDERS_AFFECTED, message)


def against_cutting_off(results: Results) -> Iterator[Objection]:
    """Object to cutting off windows where the verdict would be to ship: the metrics may still change."""
    if results.verdict.decision == Decision.SHIP:
        for cut in find_cut_off(results):
            yield Objection(Cause.USERS_WAITING, cut.clause)


def _against_the_data(results: Results) -> Iterator[Objection]:
    ratio = results.guards.sample_ratio
    if isinstance(ratio, SampleRatio) and ratio.is_mismatch:
        yield Objection(Cause.SAMPLE_RATIO_MISMATCH, "users are not split by the weights")


def _by_guardrails(results: Results, winner: str) -> Iterator[Objection]:
    """Object to registered guardrails that the winner harms, or that are not shown safe yet."""
    for metric in results.metrics:
        guardrail = _guardrail_of(metric, winner)
        if guardrail is None:
            continue
        if guardrail.status == "harmed":
            yield Objection(Cause.GUARDRAIL_HARMED, f"it harms the guardrail {metric.key}")
        elif guardrail.status == "undecided":
            users = format_count(guardrail.users_needed or 0, f"more {results.user_of(metric.definition)}")
            more = f"; it needs about {users}" if guardrail.users_needed else ""
            message = f"the guardrail {metric.key} is not shown safe yet{more}"
            yield Objection(Cause.GUARDRAIL_UNDECIDED, message)


def _guardrail_of(metric: MetricFigures, winner: str) -> Guardrail | None:
    if metric.definition.is_post_hoc:
        return None
    comparisons = (variant.comparison for variant in metric.variants if variant.key == winner)
    return next((comparison.guardrail for comparison in comparisons if comparison), None)


def _by_shortest_run(results: Results, winner: str) -> Iterator[Objection]:
    """Object to a decision before the shortest run is over, unless it keeps the control as the verdict says."""
    experiment = results.experiment
    remaining = remaining_run(experiment, results.as_of)
    is_kept = winner == results.control and results.verdict.decision == Decision.DO_NOT_SHIP
    if experiment.started_at is not None and remaining > timedelta(0) and not is_kept:
        days = ceil(remaining / timedelta(days=1))
        message = f"the shortest run is not over before {format_count(days, 'more day')}"
        yield Objection(Cause.SHORTEST_RUN_NOT_OVER, message)


def _by_size(results: Results) -> Iterator[Objection]:
    planned = (results.experiment.registration or {}).get("plannedSampleSize")
    if planned and results.planned_users < planned:
        primary = results.primary_metric
        covered = format_count(results.planned_users, results.user_of(primary.definition if primary else None))
        message = f"the results cover {covered} of the {planned:,} that are planned"
        yield Objection(Cause.PLANNED_SIZE_NOT_REACHED, message)


def _by_reservations(results: Results, winner: str) -> Iterator[Objection]:
    """Object with what the verdict itself says against shipping its winner."""
    if results.verdict.decision != Decision.SHIP or winner != results.verdict.variant:
        return
    for reason in results.verdict.reasons:
        if cause := _RESERVATIONS.get(reason.code):
            yield Objection(cause, reason.message.removesuffix("."))


def _by_verdict(results: Results, winner: str) -> Iterator[Objection]:
    verdict = results.verdict
    wanted = results.control if verdict.decision == Decision.DO_NOT_SHIP else verdict.variant
    if verdict.decision not in (Decision.SHIP, Decision.DO_NOT_SHIP) or winner != wanted:
        message = _VERDICTS.get(verdict.decision, f"the verdict is to ship {verdict.variant}")
        yield Objection(Cause.NOT_THE_VERDICT, message)
