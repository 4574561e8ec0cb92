"""The phases of an experiment: how users were assigned, and since when.

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
    """The properties of an experiment that decide what share of all users it lets in."""

    percentage: float
    group: Document | None
    phases: list[Document]


class Configured(Protocol):
    """The properties of an experiment that a phase stores."""

    variants: list[dict[str, Any]]
    percentage: float
    conditions: list[dict[str, Any]]


def phase_as_json(configured: Configured, started_at: datetime, reason: str = "") -> Document:
    """Return the stored form of a phase that begins at `started_at` with this configuration."""
    return {
        "startedAt": format_timestamp(started_at),
        "variants": configured.variants,
        "percentage": configured.percentage,
        "conditions": configured.conditions,
        "reason": reason,
    }


def integer_if_whole(number: float) -> float:
    """Return a number without a fraction as an integer, which is how it was sent."""
    return int(number) if number == int(number) else number


def starts_of(phases: Sequence[Document]) -> list[datetime]:
    """Return the starts of all phases, for callers that ask `number_in` many times."""
    return [parse_timestamp(phase["startedAt"]) for phase in phases]


def number_in(starts: Sequence[datetime], moment: datetime) -> int:
    """Return the number of the phase, from 1, that a moment belongs to.

    A moment before all phases belongs to the first one.
    """
    return max(1, bisect_right(starts, moment))


def numbers(phases: Sequence[Document]) -> list[int]:
    """Return the numbers of all phases, from 1."""
    return [*range(1, len(phases) + 1)]


def comparable_phases(phases: Sequence[Document]) -> list[int]:
    """Return the numbers of the newest phase and of those directly before it with the same split.

    Percentage and conditions may differ among them, because that affects all variants alike. With
    different weights, the users of one variant would come from other times than those of another,
    and a difference between the times would look like an effect.
    """
    newest = split_of(phases[-1]) if phases else ()
    same_split = takewhile(lambda number: split_of(phases[number - 1]) == newest, reversed(numbers(phases)))
    return sorted(same_split)


def comparable_since(phases: Sequence[Document]) -> datetime | None:
    """Return when the first of the comparable phases began, or None for a draft."""
    return parse_timestamp(phases[comparable_phases(phases)[0] - 1]["startedAt"]) if phases else None


def choices(phases: Sequence[Document]) -> list[str]:
    """Return the choices of phases that results can cover: all of them, or a single one."""
    return [ALL, *map(str, numbers(phases))]


def chosen(phases: Sequence[Document], choice: str | None) -> list[int]:
    """Return the numbers of the phases of a choice. None stands for all of them."""
    return numbers(phases) if choice in (None, ALL) else [int(choice)]


def group_by_split(phases: Sequence[Document], covered: Sequence[int]) -> list[list[int]]:
    """Return the numbers of the covered phases, those with equal splits together."""
    by_split: dict[tuple[Fraction, ...], list[int]] = {}
    for number in covered:
        by_split.setdefault(split_of(phases[number - 1]), []).append(number)
    return list(by_split.values())


def reach_of(experiment: Ranged) -> float:
    """Return the share of all users (0 to 1) that the percentage and the group let in now."""
    return experiment.percentage / WHOLE * _part(experiment.group)


def mean_reach(experiment: Ranged, begun: datetime, end: datetime) -> float:
    """Return the average share of all users (0 to 1) between two moments, by the phases of that time."""
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
    """Return the exact share of each variant, so that weights of 1 and 1 equal those of 50 and 50."""
    weights = [Fraction(str(variant["weight"])) for variant in phase["variants"]]
    return tuple(weight / sum(weights) for weight in weights)


def assignment_source(experiment: Mapping[str, Any]) -> Document:
    """Return the input of `compile_assignment`, from an experiment's document in the change log."""
    return {
        "experiment": experiment["key"],
        "variants": experiment["variants"],
        "percentage": experiment.get("percentage", WHOLE),
        "conditions": experiment.get("conditions", []),
        "group": experiment.get("group"),
        "forced": experiment.get("forcedVariants", {}),
    }
