"""The phases of an experiment: how users have been assigned, and since when. What an exposure counts for, they tell."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise, takewhile
from typing import Any, Protocol

from config.documents import Document
from config.timestamps import format_timestamp, parse_timestamp
from experiments.models import WHOLE

"""Percent: all of the audience."""
ALL = "all"
"""What to ask for where results are to cover every phase."""


class Ranged(Protocol):
    """What of an experiment says how many of all users it lets in."""

    percentage: float
    group: Document | None
    phases: list[Document]


class Configured(Protocol):
    """What of an experiment a phase is made of."""

    variants: list[dict[str, Any]]
    percentage: float
    conditions: list[dict[str, Any]]


def phase_document(configured: Configured, at: datetime, reason: str = "") -> Document:
    """The phase that begins at a moment with the configuration as it is then, as it is stored."""
    return {
        "startedAt": format_timestamp(at),
        "variants": configured.variants,
        "percentage": configured.percentage,
        "conditions": configured.conditions,
        "reason": reason,
    }


def whole(number: float) -> float:
    """A number without a fraction as the integer that it was sent as."""
    return int(number) if number == int(number) else number


def number_at(phases: list[Document], moment: datetime) -> int:
    """The number of the phase, from 1, that a moment belongs to; the first one where it is earlier than all."""
    starts = [parse_timestamp(phase["startedAt"]) for phase in phases]
    return max(1, bisect_right(starts, moment))


def numbers(phases: Sequence[Document]) -> list[int]:
    return [*range(1, len(phases) + 1)]


def comparable_phases(phases: Sequence[Document]) -> list[int]:
    """The numbers of the newest phase and of those directly before it that split their users alike.

    Who is let in may differ among these: that touches all variants alike. Of other weights, the users of one variant
    would come from other times than those of another, and what differs between the times would look like an effect.
    """
    alike = takewhile(lambda number: split_of(phases[number - 1]) == split_of(phases[-1]), reversed(numbers(phases)))
    return sorted(alike)


def comparable_since(phases: Sequence[Document]) -> datetime | None:
    """When the first of those began; None of a draft."""
    return parse_timestamp(phases[comparable_phases(phases)[0] - 1]["startedAt"]) if phases else None


def choices(phases: Sequence[Document]) -> list[str]:
    """What may be asked for instead of those: all of them, or one."""
    return [ALL, *map(str, numbers(phases))]


def chosen(phases: Sequence[Document], choice: str | None) -> list[int]:
    """The numbers of the phases that one of these choices means; None: those that are covered unless one chooses."""
    if choice is None:
        return comparable_phases(phases)
    return numbers(phases) if choice == ALL else [int(choice)]


def reach_of(experiment: Ranged) -> float:
    """The share of all users, 0 to 1, that percentage and group of an experiment let in by now."""
    return experiment.percentage / WHOLE * _part(experiment.group)


def mean_reach(experiment: Ranged, begun: datetime, end: datetime) -> float:
    """The same on average between two moments, by the phases of then."""
    starts = [*(max(begun, parse_timestamp(phase["startedAt"])) for phase in experiment.phases), end]
    spans = [max(timedelta(0), until - since) for since, until in pairwise(starts)]
    if not any(spans):
        return reach_of(experiment)
    whole = sum(spans, timedelta(0))
    shares = (
        span / whole * configured["percentage"] for span, configured in zip(spans, experiment.phases, strict=True)
    )
    return float(sum(shares)) / WHOLE * _part(experiment.group)


def _part(group: Document | None) -> float:
    return float(group["to"] - group["from"]) / WHOLE if group else 1.0


def split_of(phase: Document) -> tuple[Fraction, ...]:
    """The share of each variant, exact, so that weights of 1 and 1 are the same as those of 50 and 50."""
    weights = [Fraction(str(variant["weight"])) for variant in phase["variants"]]
    return tuple(weight / sum(weights) for weight in weights)


def assignment_source(experiment: Mapping[str, Any]) -> Document:
    """What `compile_assignment` reads, of an experiment's document as the change log keeps it."""
    return {
        "experiment": experiment["key"],
        "variants": experiment["variants"],
        "percentage": experiment.get("percentage", WHOLE),
        "conditions": experiment.get("conditions", []),
        "group": experiment.get("group"),
        "forced": experiment.get("forcedVariants", {}),
    }
