"""Quantiles in plain and slow Python, from all stored events and exposures."""

from __future__ import annotations

import math
from collections.abc import Collection
from datetime import datetime, timedelta
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import pytest

from events.models import Event
from experiments.metrics.definition import definitions_of
from experiments.models import Experiment
from experiments.results.maturity import Maturity
from experiments.results.quantiles import QuantileReader, Quantiles
from experiments.stats.types import Quantile
from tests.experiments.results.by_hand import amounts_of, counted_at, counting_events, exposed, is_of, last_moment

Z = NormalDist().inv_cdf(0.975)


def quantiles_of_groups(groups: dict[Any, list[list[float]]], p: float) -> dict[Any, Quantile]:
    """The quantile of each group of users, given the values of the events of each user."""
    different = sorted({value for users in groups.values() for values in users for value in values})
    return {key: quantile_by_hand(users, different, p) for key, users in groups.items()}


def quantile_by_hand(values_of_users: list[list[float]], different: list[float], p: float) -> Quantile:
    values = sorted(value for values in values_of_users for value in values)
    number, users, share = len(values), len(values_of_users), Fraction(str(p))
    if not values:
        return Quantile(n=users)
    if values[0] == values[-1]:
        return Quantile(users, number, values[0])

    def bounds(value: float) -> tuple[float, float]:
        reach = min((abs(other - value) for other in different if other != value), default=0) / 2
        return max(value - reach, different[0]), min(value + reach, different[-1])

    def at(rank: float | Fraction) -> tuple[float, float, float]:
        """The value at a rank, the part of its events below the rank, and the spread value."""
        value = values[min(max(math.ceil(rank), 1), number) - 1]
        part = float((rank - sum(other < value for other in values)) / values.count(value))
        lower, upper = bounds(value)
        return value, part, lower + part * (upper - lower)

    middle, part, spread = at(share * number)
    alike = sum(len(values) ** 2 for values in values_of_users)
    if number**2 * min(share, 1 - share) < 10 * alike:
        return Quantile(users, number, spread)
    below = [sum(1.0 if v < middle else part * (v == middle) for v in values) for values in values_of_users]
    errors = [found - p * len(values) for found, values in zip(below, values_of_users, strict=True)]
    sigma = math.sqrt(sum(error**2 for error in errors) * users / (users - 1)) / number
    ends = [at(min(max(p + sign * Z * sigma, 0), 1) * number)[2] for sign in (-1, 1)]
    return Quantile(users, number, spread, (max(abs(end - spread) for end in ends) / Z) ** 2)


def quantiles_by_hand(experiment: Experiment, at: datetime, phases: list[int], maturity: Maturity) -> Quantiles:
    end, events = min(at, last_moment(experiment)), list(Event.objects.all())
    quantiles: dict[int, dict[str, Quantile]] = {}
    for index, definition in enumerate(definitions_of(experiment)):
        if definition.quantile is None:
            continue
        by_variant: dict[str, list[list[float]]] = {}
        for exposure in exposed(experiment):
            base = exposure.exposed_at.replace(microsecond=0)
            is_mature = maturity == "all" or definition.span is None or base + definition.span <= end
            if exposure.phase in phases and is_mature:
                of_user = counting_events(events, exposure, experiment, definition)
                until = definition.span or timedelta.max
                window = [event for event in of_user if definition.delay <= counted_at(event) - base < until]
                named = [event for event in window if is_of(definition.quantity, event)]
                by_variant.setdefault(exposure.variant, []).append(amounts_of(definition.quantity, named))
        if by_variant:
            quantiles[index] = quantiles_of_groups(by_variant, definition.quantile)
    return quantiles


def near(quantiles: Quantiles) -> Any:
    return {key: pytest.approx(figures, rel=1e-9, abs=1e-15) for key, figures in plain(quantiles).items()}


def plain(quantiles: Quantiles) -> dict[tuple[int, str], Any]:
    return {
        (index, key): (figures.n, figures.events, figures.value, figures.squared_error)
        for index, by_variant in quantiles.items()
        for key, figures in by_variant.items()
    }


def read_and_store(
    experiment: Experiment, at: datetime, phases: Collection[int] = (1,), maturity: Maturity = "mature"
) -> Quantiles:
    """Return the quantiles and store them, as reading results does."""
    reader = QuantileReader(experiment, at)
    quantiles = reader.over(phases, maturity)
    reader.store()
    return quantiles
