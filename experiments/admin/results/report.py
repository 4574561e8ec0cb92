"""What the printable report says beyond the figures: the design, and the method in words."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.safestring import SafeString

from experiments.admin.plan_words import describe_plan
from experiments.admin.results.cards import MetricCard
from experiments.admin.results.notes import CORRECTION_NAMES
from experiments.admin.results.panel import Panel
from experiments.admin.results.plots import draw
from experiments.admin.words import describe_audience, describe_flag, describe_split
from experiments.models import Experiment
from experiments.results.types import Results


def describe_design(experiment: Experiment) -> list[tuple[str, str]]:
    """Return the parts of the design by their names."""
    parts = [
        ("Variants", describe_split(experiment.variants)),
        ("Audience", describe_audience(experiment)),
        ("Flag", describe_flag(experiment)),
        ("Metrics", ", ".join(experiment.metrics) or "none"),
        ("Plan", describe_plan(experiment)),
    ]
    return [(name, words) for name, words in parts if words]


def describe_method(results: Results) -> Iterator[str]:
    """Yield sentences about how the figures were computed."""
    if results.plan.analysis == "fixed":
        yield "The analysis is fixed: the results are read once, at the planned size, by Welch's test."
    else:
        yield "Intervals and p-values are always valid: they hold however often somebody looks."
    yield f"All variants are compared with {results.control}, and each exposed user counts once, for the first variant."
    correction = CORRECTION_NAMES[results.correction]
    yield f"P-values and intervals of several tests are corrected by the method of {correction}."
    days = (results.experiment.registration or {}).get("lookbackDays", 0)
    if days:
        yield f"Figures are adjusted for the {days} days before the exposure (CUPED), where these explain anything."
    if any(metric.definition.counts_mature_users for metric in results.metrics):
        whom = (
            "users whose window is over"
            if results.maturity == "mature"
            else "all users, also those whose window is open"
        )
        yield f"For metrics with a window, the figures count {whom}."
    yield "A lift is the difference from the control as a share of the control's value, with Fieller's interval."


def drawings(panel: Panel) -> list[tuple[MetricCard, SafeString]]:
    """Return each metric with its plot, which is empty where nothing can be drawn."""
    return [
        (card, SafeString(draw(card, "intervals", title=card.definition.key, note="") or "")) for card in panel.cards
    ]
