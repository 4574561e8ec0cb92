"""What a reader must know to interpret the figures of a metric, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from experiments.admin.results.comparisons import has_plot, margin_of
from experiments.admin.results.formatting import format_of_values
from experiments.admin.words import describe_moment, describe_span
from experiments.results.large_values import MAX_SHARE
from experiments.results.types import MetricFigures, Results, VariantFigures
from experiments.stats.numbers import NO_FIGURE, equate_p_value, format_count
from experiments.stats.types import Comparison, Estimate, name_phases

_DAY = timedelta(days=1)
CORRECTION_NAMES = {"holm": "Holm", "benjamini-hochberg": "Benjamini-Hochberg"}


def describe_never_received(results: Results, figures: MetricFigures) -> str:
    """Say which events of a metric never came, and what to do; empty if all came."""
    if not figures.never_received:
        return ""
    names, noun = " and ".join(figures.never_received), "event" if len(figures.never_received) == 1 else "events"
    return (
        f"{results.experiment.environment.name} has never received the {noun} {names}. Check the spelling in the "
        "metric, and that the application sends it."
    )


def notes_on(results: Results, figures: MetricFigures) -> Iterator[str]:
    yield from _users_who_do_not_count(results, figures)
    if other_currency := sum(variant.other_currency_events for variant in figures.variants):
        events = format_count(other_currency, "event")
        yield f"The metric leaves out {events} in another currency, or in none. Amounts are never converted."
    yield from _without_number(figures)
    yield from _large_values(figures)
    if figures.definition.quantile is not None:
        yield (
            "Events that share a value are spread around it, at most half of the way to the next value. "
            "So the quantile may lie between two values."
        )
    yield from _other_phases(results, figures)
    yield from _planned_readings(results, figures)
    comparisons = [variant.comparison for variant in figures.variants if variant.comparison]
    family = max((comparison.family or 1 for comparison in comparisons), default=1)
    if family > 1:
        yield f"Intervals and p-values are corrected for {family} tests ({CORRECTION_NAMES[results.correction]})."
    yield from dict.fromkeys(_open_sides(comparisons))
    margins = [margin_of(figures.definition, comparison) for comparison in comparisons if has_plot(comparison)]
    if any(margin is not None for margin in margins):
        yield "The dashed line is the margin. The guardrail is safe if the whole interval is on its better side."


def _without_number(figures: MetricFigures) -> Iterator[str]:
    if not (number := sum(variant.events_without_number for variant in figures.variants)):
        return
    events, have = format_count(number, "event"), "has" if number == 1 else "have"
    names = " or ".join(dict.fromkeys(f"`{part.property}`" for part in figures.definition.numbers))
    yield f"{events} {have} no number in {names}, but a text or another value. Such events add nothing."


def _large_values(figures: MetricFigures) -> Iterator[str]:
    for variant in figures.variants:
        if variant.least_share > MAX_SHARE:
            share = f"{math.floor(100 * variant.least_share)} %"
            yield (
                f"One user makes up {share} of the sum in {variant.key}, or more, so the figures say little about the "
                "others. The audit names the user. A cap limits such values."
            )


def _other_phases(results: Results, figures: MetricFigures) -> Iterator[str]:
    """Yield a note for each treatment that is compared over other phases than the control's row shows."""
    bases = {variant.key: variant.comparison.basis for variant in figures.variants if variant.comparison}
    shown = max(bases.values(), key=lambda basis: basis.control.n, default=None)
    for key, basis in bases.items():
        if shown is None or basis.phases == shown.phases or not basis.phases:
            continue
        control, value = results.control, basis.control.value
        there = NO_FIGURE if value is None else format_of_values(figures.definition)(value)
        users = format_count(basis.control.n, results.user_of(figures.definition))
        yield (
            f"{key} is compared over {name_phases(basis.phases)}, in which {control} has {there} ({users}). "
            f"The row of {control} shows {name_phases(shown.phases)}."
        )


def _planned_readings(results: Results, figures: MetricFigures) -> Iterator[str]:
    """Yield a note for each treatment of which the reading at the planned size goes on to count."""
    for variant in figures.variants:
        kept = variant.comparison and variant.comparison.kept
        if not kept:
            continue
        users = format_count(kept.users, results.user_of(figures.definition))
        reading = f"{variant.key} was read at the planned size of {users}, as of {describe_moment(kept.instant)}"
        if kept.is_contradicted:
            yield f"{reading}. The interval of today has nothing in common with that of then, which counts alone."
        elif kept.is_shown:
            yield f"{reading}. Its figures are those of then, because they are more precise than the test of today."
        else:
            yield f"{reading}. The test of today is more precise by now."


def warnings_of(results: Results, figures: MetricFigures) -> Iterator[str]:
    """Yield a warning for each treatment whose users differed before their exposure."""
    for difference in results.guards.different_before:
        if difference.metric == figures.key:
            yield (
                f"{difference.variant} differed from {results.control} before the exposure already, "
                f"{equate_p_value(difference.difference.always_valid.p_value)}. "
                "Look for the cause before you trust this metric."
            )


def _open_sides(comparisons: Sequence[Comparison]) -> Iterator[str]:
    for comparison in comparisons:
        if isinstance(comparison.lift, Estimate) and (reason := comparison.deciding(comparison.lift).open):
            yield reason.message


def _users_who_do_not_count(results: Results, figures: MetricFigures) -> Iterator[str]:
    span = figures.definition.span
    if span is None:
        return
    after = f"the {describe_span(span)} after their exposure"
    if waiting := [variant.waiting for variant in figures.variants if variant.waiting]:
        users = format_count(sum(part.users for part in waiting), "user")
        half = _describe_day(max(part.half_mature_at for part in waiting), results.as_of)
        if results.maturity == "all":
            yield f"The figures include {users} for whom {after} are not over, so they are still too low."
        else:
            yield f"{users} must wait until {after} are over. Half of them will count by {half}."
    yield from _cut_off(results, figures.variants, after)


def _cut_off(results: Results, variants: Sequence[VariantFigures], after: str) -> Iterator[str]:
    if not (left_out := sum(variant.cut_off_users for variant in variants)):
        return
    users = format_count(left_out, "user")
    if results.read_at is not None:
        yield f"The reading left out {users}: {after} were not over. They do not count."
    elif results.maturity == "all":
        yield f"The figures include {users} for whom the stop cut off {after}, so they are too low."
    else:
        yield f"The stop cut off {users}: {after} were not over. They do not count."


def _describe_day(moment: datetime, now: datetime) -> str:
    """Return the day of a moment, with the time if it is near."""
    return describe_moment(moment) if moment - now < _DAY else f"{moment.astimezone(UTC):%-d %b %Y}"
