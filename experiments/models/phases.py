"""The phases of an experiment: since when users were assigned in which way.

Each exposure counts for the phase in which the user was assigned.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise, takewhile
from typing import Any, Protocol

from config.documents import Document
from config.timestamps import format_timestamp, parse_timestamp
from experiments.models.experiment import WHOLE

ALL = "all"
"""The choice of results that cover every phase."""


class Ranged(Protocol):
    """What decides the share of all users that an experiment lets in."""

    percentage: float
    group: Document | None
    phases: list[Document]


class Configured(Protocol):
    """What a phase stores of an experiment."""

    variants: list[dict[str, Any]]
    percentage: float
    conditions: list[dict[str, Any]]


def phase_as_json(configured: Configured, started_at: datetime, reason: str = "") -> Document:
    """Return a phase with the configuration of this moment, as experiments store it."""
    return {
        "startedAt": format_timestamp(started_at),
        "variants": configured.variants,
        "percentage": configured.percentage,
        "conditions": configured.conditions,
        "reason": reason,
    }


def integer_if_whole(number: float) -> float:
    """Return 50.0 as 50, which is how clients send it."""
    return int(number) if number == int(number) else number


def starts_of(phases: Sequence[Document]) -> list[datetime]:
    """Return the start of each phase. Parse them once when you call `number_in` often."""
    return [parse_timestamp(phase["startedAt"]) for phase in phases]


def number_in(starts: Sequence[datetime], time: datetime) -> int:
    """Return the number of the phase, from 1, at a moment. Earlier moments belong to the first phase."""
    return max(1, bisect_right(starts, time))


def numbers(phases: Sequence[Document]) -> list[int]:
    return [*range(1, len(phases) + 1)]


def comparable_phases(phases: Sequence[Document]) -> list[int]:
    """Return the numbers of the newest phase and of the phases directly before it with the same split.

    Percentage and conditions may differ among them, because they affect all variants alike. Different weights may not:
    the users of each variant would then come from different times, and a change over time would look like an effect.
    """
    newest = split_of(phases[-1]) if phases else ()
    same_split = takewhile(lambda number: split_of(phases[number - 1]) == newest, reversed(numbers(phases)))
    return sorted(same_split)


def comparable_since(phases: Sequence[Document]) -> datetime | None:
    """Return when the first of the comparable phases began; None for a draft."""
    return parse_timestamp(phases[comparable_phases(phases)[0] - 1]["startedAt"]) if phases else None


def choices(phases: Sequence[Document]) -> list[str]:
    """Return the phases that results can be asked for: all together, or a single one."""
    return [ALL, *map(str, numbers(phases))]


def chosen(phases: Sequence[Document], choice: str | None) -> list[int]:
    """Return the numbers of the chosen phases. None means all of them."""
    return numbers(phases) if choice in (None, ALL) else [int(choice)]


def group_by_split(phases: Sequence[Document], covered: Sequence[int]) -> list[list[int]]:
    """Group the numbers of the covered phases by split."""
    by_split: dict[tuple[Fraction, ...], list[int]] = {}
    for number in covered:
        by_split.setdefault(split_of(phases[number - 1]), []).append(number)
    return list(by_split.values())


def reach_of(experiment: Ranged) -> float:
    """Return the share of all users (0 to 1) that percentage and group let in now."""
    return experiment.percentage / WHOLE * _part(experiment.group)


def mean_reach(experiment: Ranged, begun: datetime, end: datetime) -> float:
    """Return the average share of all users (0 to 1) between two moments, weighted by the length of each phase."""
    starts = [*(max(begun, parse_timestamp(phase["startedAt"])) for phase in experiment.phases), end]
    spans = [max(timedelta(0), until - since) for since, until in pairwise(starts)]
    if not any(spans):
        return reach_of(experiment)
    total = sum(spans, timedelta(0))
    shares = (
        span / total * configured["percentage"] for span, configured in zip(spans, experiment.phases, strict=True)
    )
    return float(sum(shares)) / WHOLE * _part(experiment.group)


def _part(group: Document | None) -> float:
    return float(group["to"] - group["from"]) / WHOLE if group else 1.0


def split_of(phase: Document) -> tuple[Fraction, ...]:
    """Return the exact share of each variant. Weights 1 and 1 equal weights 50 and 50."""
    weights = [Fraction(str(variant["weight"])) for variant in phase["variants"]]
    return tuple(weight / sum(weights) for weight in weights)


def assignment_source(experiment: Mapping[str, Any]) -> Document:
    """Return the input of `compile_assignment` from an experiment as JSON."""
    return {
        "experiment": experiment["key"],
        "variants": experiment["variants"],
        "percentage": experiment.get("percentage", WHOLE),
        "conditions": experiment.get("conditions", []),
        "group": experiment.get("group"),
        "forced": experiment.get("forcedVariants", {}),
    }
