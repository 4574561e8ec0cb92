"""Single users who make up so much of a metric that the figures of their variant say little about the others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from experiments.metrics.definition import Definition, definitions_of
from experiments.models import Experiment
from experiments.results.sums import ExactSums, read_caps, read_sums
from experiments.results.values import stored_values

MAX_SHARE = 0.1
_MIN_USERS = 20
"""Of fewer users with an event, one makes up a tenth easily."""


@dataclass(frozen=True, slots=True)
class LargeValue:
    """The largest value of a metric in a variant, if it makes up over 10 % of the sum. `share` is its part (0 to 1)."""

    metric: str
    variant: str
    user_id: str
    value: float
    share: float


def least_share(definition: Definition, sums: ExactSums) -> float:
    """Return a share of the sum of a variant that the largest value has at least; 0 if it is not known.

    The largest of values that are not negative is at least Σy² / Σy.
    """
    is_negative = definition.adds_amounts and not sums.is_non_negative
    if definition.is_share or is_negative or sums.users < _MIN_USERS or not sums.value:
        return 0.0
    return float(sums.value_squared / sums.value / sums.value)


def find_large_values(experiment: Experiment) -> Iterator[LargeValue]:
    """Yield the largest value of each metric and variant that makes up over 10 % of the sum, with its user.

    It scans the values of a metric only where its sums leave it possible.
    """
    sums, caps = read_sums(experiment), read_caps(experiment)
    for number, definition in enumerate(definitions_of(experiment)):
        for variant_number, key in enumerate(experiment.variant_keys):
            of_variant, cap = sums.get(number, {}).get(key), caps.get(number, math.inf)
            # The share is at most the square root of what `least_share` returns.
            if of_variant is None or least_share(definition, of_variant) < MAX_SHARE**2:
                continue
            total = float(of_variant.value)
            rows = stored_values(experiment).filter(
                metric=number, variant_number=variant_number, value__gt=total * MAX_SHARE
            )
            largest = rows.order_by("-value", "user_id").first()
            if largest is not None and (value := min(largest.value or 0.0, cap)) > MAX_SHARE * total:
                yield LargeValue(definition.key, key, largest.user_id, value, value / total)
