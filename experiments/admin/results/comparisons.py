"""One variant in the table of a metric: its value, and how it compares with the control.

All figures of a comparison come from the test that decides it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from experiments.admin.results.formatting import (
    Figure,
    always_valid,
    describe_or_none,
    figure_of,
    figure_of_test,
    format_interval,
    format_lift,
    format_of_differences,
    format_of_losses,
    format_of_values,
    lift_of,
    lift_of_test,
)
from experiments.metrics.definition import Definition
from experiments.results.types import Results, VariantFigures
from experiments.stats.charts import Bar, Range
from experiments.stats.numbers import NO_FIGURE, format_count, format_p_value, format_probability
from experiments.stats.types import (
    Comparison,
    Estimate,
    Guardrail,
    GuardrailStatus,
    Label,
    Reason,
    SingleLook,
    VariantEstimate,
)

EffectName = Literal["lift", "difference"]
NOT_KNOWN = "not known"
MIN_LIFT = -1.0
"""Charts have no tick below this lift, to 0, unless a lift is lower. Only values below 0 have such a lift."""
_UNREAD = "not read yet"
_TONES = {"better": "good", "worse": "bad"}
_TONES_OF_GUARDRAILS: Mapping[GuardrailStatus, str] = {
    "safe": "good",
    "harmed": "bad",
    "undecided": "warning",
    "silent": "open",
}
# A guardrail may be safe within its margin, and yet differ from the control.
_SAFE: Mapping[Label, str] = {"better": "safe, better", "worse": "safe, but worse", "unclear": "safe", "unread": "safe"}


@dataclass(frozen=True, slots=True)
class OneLook:
    """What holds for a single look only, formatted."""

    chance_to_beat: str
    expected_loss: str
    lift: Figure
    difference: Figure


@dataclass(frozen=True, slots=True)
class Compared:
    """A treatment compared with the control, formatted.

    `standing` says what the test shows: better or worse, or for a guardrail, safe or harmed. `needed` says how many
    users an undecided guardrail still needs. `unadjusted_p` is empty without a correction. `before` compares the users
    before their exposure.
    """

    lift: Figure
    difference: Figure
    standing: str
    tone: str
    needed: str
    unadjusted_p: str
    before: Figure
    one_look: OneLook

    @property
    def is_nothing(self) -> bool:
        """Return whether there is neither a lift nor a difference."""
        return bool(self.lift.reason and self.difference.reason)

    @property
    def main(self) -> Figure:
        """Return the lift, or the difference if there is no lift."""
        return self.difference if self.lift.reason else self.lift


def compare(definition: Definition, figures: VariantFigures, comparison: Comparison, user: str = "user") -> Compared:
    """Compare a treatment with the control. `user` is the noun for a user who counts."""
    standing, tone = _standing(comparison)
    return Compared(
        lift=lift_of(comparison.lift, comparison.deciding),
        difference=figure_of(comparison.difference, format_of_differences(definition), comparison.deciding),
        standing=standing,
        tone=tone,
        needed=_describe_needed(comparison.guardrail, user),
        unadjusted_p=_unadjusted_p(comparison),
        before=_before(definition, figures),
        one_look=_one_look(definition, comparison),
    )


def range_of(comparison: Comparison | None, effect: EffectName) -> Range | None:
    """Return what a plot shows of a treatment's lift or difference; None if there is nothing to draw."""
    estimate = getattr(comparison, effect, None)
    if comparison is None or not isinstance(estimate, Estimate):
        return None
    test = comparison.deciding(estimate)
    return Range(test.lower, estimate.estimate, test.upper)


def has_plot(comparison: Comparison) -> bool:
    """Return whether there is a lift or a difference to draw."""
    return isinstance(comparison.lift, Estimate) or isinstance(comparison.difference, Estimate)


def plotted_effect(comparisons: Iterable[Comparison | None]) -> EffectName:
    """Return what the plot of a metric shows: the difference if no treatment has a lift."""
    known = [comparison for comparison in comparisons if comparison]
    has_difference = any(isinstance(comparison.difference, Estimate) for comparison in known)
    has_lift = any(isinstance(comparison.lift, Estimate) for comparison in known)
    return "difference" if has_difference and not has_lift else "lift"


def margin_of(definition: Definition, comparison: Comparison | None, effect: EffectName = "lift") -> float | None:
    """Return the effect beyond which a guardrail is not safe; None for a goal, or if it is not known."""
    if comparison is None or comparison.guardrail is None:
        return None
    margin = comparison.guardrail.margin
    size = margin.relative if effect == "lift" else margin.absolute
    return size if size is None or definition.is_decrease_good else -size


def _standing(comparison: Comparison) -> tuple[str, str]:
    """Return what the test of the row shows, and its tone."""
    guardrail, label = comparison.guardrail, comparison.label
    if guardrail and guardrail.status == "safe":
        return _SAFE[label], "good"
    if guardrail:
        words = "no events" if guardrail.status == "silent" else guardrail.status
        return words, _TONES_OF_GUARDRAILS[guardrail.status]
    if isinstance(comparison.difference, Reason):
        return NOT_KNOWN, "open"
    return _UNREAD if label == "unread" else label, _TONES.get(label, "open")


def _describe_needed(guardrail: Guardrail | None, user: str) -> str:
    if guardrail is None or guardrail.status != "undecided" or guardrail.users_needed is None:
        return ""
    if guardrail.users_needed == 0:
        return "enough users, yet not shown safe"
    return f"needs {format_count(guardrail.users_needed, f'more {user}')}"


def _unadjusted_p(comparison: Comparison) -> str:
    is_corrected = comparison.unadjusted_p is not None and (comparison.family or 1) > 1
    return format_p_value(comparison.unadjusted_p or 0.0) if is_corrected else ""


def _before(definition: Definition, figures: VariantFigures) -> Figure:
    if figures.before is None:
        return Figure()
    return figure_of(figures.before, format_of_differences(definition), always_valid)


def _one_look(definition: Definition, comparison: Comparison) -> OneLook:
    look: SingleLook = comparison.single_look
    lift, difference = comparison.lift, comparison.difference
    format_difference = format_of_differences(definition)
    shown_lift = format_lift(lift.latest) if isinstance(lift, Estimate) else NO_FIGURE
    shown_difference = format_difference(difference.latest) if isinstance(difference, Estimate) else NO_FIGURE
    return OneLook(
        chance_to_beat=describe_or_none(look.chance_to_beat, format_probability),
        expected_loss=describe_or_none(look.expected_loss, format_of_losses(definition)),
        lift=lift_of_test(look.lift, shown_lift),
        difference=figure_of_test(look.difference, shown_difference, format_difference),
    )


@dataclass(frozen=True, slots=True)
class RawRow:
    """The figures of a variant without the adjustment by CUPED, formatted. `lift` is None for the control."""

    value: Figure
    lift: Figure | None


@dataclass(frozen=True, slots=True)
class VariantRow:
    """A variant in the table of a metric. `compared` and `bar` are None for the control.

    `users` are those who count, and `others` says how many do not yet. `raw` is None without an adjustment.
    """

    key: str
    users: str
    others: str
    value: Figure
    compared: Compared | None
    bar: Bar | None
    raw: RawRow | None

    @property
    def has_reason_alone(self) -> bool:
        """Return whether this is the control, with a reason in place of a figure."""
        return self.compared is None and bool(self.value.reason)


def build_row(results: Results, definition: Definition, figures: VariantFigures, bar: Bar | None) -> VariantRow:
    comparison = figures.comparison
    return VariantRow(
        key=figures.key,
        users=f"{figures.counted_users:,}",
        others=_describe_others(results, figures),
        value=_value(definition, figures.estimate),
        compared=compare(definition, figures, comparison, results.user_of(definition)) if comparison else None,
        bar=bar,
        raw=_raw(definition, figures.raw) if figures.raw else None,
    )


def _describe_others(results: Results, figures: VariantFigures) -> str:
    """Say how many users wait for the end of their window, or will never reach it."""
    if not figures.immature_users:
        return ""
    ends_at = results.experiment.counting_ends_at
    is_over = results.read_at is not None or (ends_at is not None and ends_at <= results.as_of)
    return f"{figures.immature_users:,} {'cut off' if is_over else 'waiting'}"


def _value(definition: Definition, estimate: VariantEstimate) -> Figure:
    format_value = format_of_values(definition)
    interval = format_interval(estimate.interval, format_value) if estimate.interval else ""
    value = NO_FIGURE if estimate.value is None else format_value(estimate.value)
    return Figure(value, interval, reason=estimate.reason.message if estimate.reason else "")


def _raw(definition: Definition, estimate: VariantEstimate) -> RawRow:
    comparison = estimate.comparison
    lift = lift_of(comparison.lift, comparison.deciding) if comparison else None
    return RawRow(_value(definition, estimate), lift)
