"""The totals of an experiment at the moment of a plan, and the shares of its variants.

They are read once, so that the users a day, the history and the forecast of a plan agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction

from config.database.consistent_reads import read_consistently
from experiments.aggregates.variant_sums import EXPOSURES, Totals, VariantTotals, pool, read_daily, read_phases
from experiments.design.phases import comparable_phases
from experiments.exposures.up_to_date import bring_up_to_date
from experiments.models import Experiment


@dataclass(frozen=True, slots=True)
class CurrentTotals:
    """The totals of a started experiment and, by variant, the users exposed on each day.

    All are of the same moment, and cover the comparable phases, as the results do.
    """

    experiment: Experiment
    totals: Totals
    exposed: Mapping[str, Mapping[date, VariantTotals]]


def read_current_totals(experiment: Experiment, at: datetime) -> CurrentTotals | None:
    """Return the totals with everything that is committed, or None for a draft."""
    if experiment.started_at is None:
        return None
    bring_up_to_date(experiment, at)
    phases = comparable_phases(experiment.phases)
    with read_consistently():
        totals, daily = pool(read_phases(experiment), phases), read_daily(experiment, phases)
        return CurrentTotals(experiment, totals, daily.get(EXPOSURES, {}))


def variant_shares(experiment: Experiment) -> Mapping[str, Fraction]:
    """Return the exact share of users of each variant, by key. Variants of weight 0 are left out."""
    weights = {variant["key"]: Fraction(variant["weight"]) for variant in experiment.variants if variant["weight"]}
    total = sum(weights.values())
    return {key: weight / total for key, weight in weights.items()}
