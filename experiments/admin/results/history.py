"""Finished experiments: what was decided, when, by whom, and with which effect on the primary metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from config.documents import Document
from experiments.admin.results.formatting import format_level, format_lift, lift_of_test
from experiments.admin.words import describe_moment, describe_users
from experiments.models import Experiment, Status
from experiments.results.outcomes import Effect, Outcome
from experiments.results.types import ReachedLift, ReachedVerdict
from experiments.stats.numbers import MINUS, with_sign
from experiments.stats.outcomes import Decision
from experiments.stats.types import Test

_MAX_EFFECTS = 3
_MIN_ROUNDED = 0.001
_VERDICTS: Mapping[Decision, str] = {
    Decision.SHIP: "to ship {}",
    Decision.DO_NOT_SHIP: "not to ship",
    Decision.KEEP_RUNNING: "to keep running",
    Decision.NO_DIFFERENCE: "that there is no difference that matters",
    Decision.INCONCLUSIVE: "that there is no clear result",
    Decision.CHECK_DATA: "to check the data",
}


def describe_end(experiment: Experiment) -> str:
    """Return `Shipped green`, `Kept control` or `Stopped`; empty unless the experiment is stopped."""
    if experiment.status != Status.STOPPED:
        return ""
    if not experiment.winner:
        return "Stopped"
    verb = "Kept" if experiment.winner == experiment.variant_keys[0] else "Shipped"
    return f"{verb} {experiment.winner}"


def describe_briefly(experiment: Experiment, outcome: Outcome | None) -> str:
    """Return `Shipped green on 3 May 2026; +4.1 %`, or `Stopped on 3 May 2026; green -0.3 %`.

    Without an outcome, the effect is the one that the decision recorded. It is empty unless the experiment is stopped.
    """
    end = describe_end(experiment)
    if not end or experiment.stopped_at is None:
        return ""
    lifts = _lifts(experiment, outcome) if outcome else _recorded_lift(experiment)
    words = [
        format_briefly(lift) if variant == experiment.winner else f"{variant} {format_briefly(lift)}"
        for variant, lift in list(lifts.items())[:_MAX_EFFECTS]
    ]
    more = [f"{len(lifts) - len(words)} more"] if len(lifts) > len(words) else []
    effects = f"; {', '.join([*words, *more])}" if words else ""
    return f"{end} on {describe_day(experiment.stopped_at)}{effects}"


def describe_fully(experiment: Experiment, outcome: Outcome) -> Iterator[str]:
    """Yield sentences about a stopped experiment: the decision, its effects on the primary metric, the verdict."""
    if experiment.stopped_at is None:
        return
    by = f" by {outcome.stopped_by}" if outcome.stopped_by else ""
    what = describe_users(experiment.decision or {}) if experiment.winner else " without a winner"
    yield f"{describe_end(experiment)} on {describe_day(experiment.stopped_at)}{by}{what}."
    effects = shown_effects(experiment, outcome.effects)
    yield from (f"{describe_effect(effect, outcome.control)}." for effect in effects[:_MAX_EFFECTS])
    verdict = _VERDICTS[Decision(outcome.decision)].format(outcome.recommended)
    yield f"The verdict was {verdict}."
    yield from _describe_reason(experiment.decision or {})


def describe_taken_back(verdicts: Sequence[ReachedVerdict]) -> Iterator[str]:
    """Yield a sentence about each verdict that was reached and no longer stands, with both dates and lifts."""
    for verdict in verdicts:
        if verdict.ended_at is not None:
            was = _VERDICTS[Decision(verdict.decision)].format(verdict.variant)
            reached, ended = describe_moment(verdict.reached_at), describe_moment(verdict.ended_at)
            yield (
                f"On {reached}, the verdict was {was}{_describe_lifts(verdict, verdict.lifts)}. "
                f"Since {ended}, it no longer is{_describe_lifts(verdict, verdict.lifts_at_end)}."
            )


def _describe_lifts(verdict: ReachedVerdict, lifts: Sequence[ReachedLift]) -> str:
    """Return ` (purchase of green: +4.10 %, 95 % interval +1.20 % to +7.02 %)`; empty without a lift."""
    described = []
    for lift in lifts[:_MAX_EFFECTS]:
        interval = lift_of_test(Test(lift.lower, lift.upper, 1.0, lift.level), "").interval
        shown = f"{format_lift(lift.estimate)}, {format_level(lift.level)} interval {interval}"
        described.append(f"{verdict.metric} of {lift.variant}: {shown}")
    return f" ({'; '.join(described)})" if described else ""


def describe_effect(effect: Effect, control: str) -> str:
    """Return `purchase of green: +4.10 % against blue (95 % interval +1.20 % to +7.02 %)`."""
    test = Test(effect.lower, effect.upper, 1.0, effect.level)
    interval = lift_of_test(test, "").interval
    lift, level = format_lift(effect.lift), format_level(effect.level)
    return f"{effect.metric} of {effect.variant}: {lift} against {control} ({level} interval {interval})"


def shown_effects(experiment: Experiment, effects: Sequence[Effect]) -> list[Effect]:
    """Return the effects on the primary metric: that of the shipped treatment, or those of all treatments."""
    primary = [effect for effect in effects if effect.is_primary]
    return [effect for effect in primary if effect.variant == experiment.winner] or primary


def describe_day(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%-d %b %Y}"


def format_briefly(lift: float) -> str:
    """Return a lift with one decimal, `+4.1 %`, or with the digits that a tiny one needs."""
    if 0 < abs(lift) < _MIN_ROUNDED:
        return format_lift(lift)
    text = f"{100 * lift + 0.0:,.1f} %"
    return with_sign(MINUS + text[1:] if text.startswith("-") else text)


def _lifts(experiment: Experiment, outcome: Outcome) -> dict[str, float]:
    return {effect.variant: effect.lift for effect in shown_effects(experiment, outcome.effects)}


def _recorded_lift(experiment: Experiment) -> dict[str, float]:
    """Return the lift of the winner that its decision recorded, if any."""
    primary = (experiment.decision or {}).get("primary") or {}
    lifts = {variant["key"]: variant["lift"] for variant in primary.get("variants", ())}
    lift = lifts.get(experiment.winner)
    return {experiment.winner: lift["estimate"]} if lift else {}


def _describe_reason(decision: Document) -> Iterator[str]:
    if decision.get("overridden"):
        yield f"It was shipped despite objections: {', '.join(decision['overridden']).replace('_', ' ')}."
    if reason := str(decision.get("reason", "")).strip():
        yield f"Reason: {reason.removesuffix('.')}."
