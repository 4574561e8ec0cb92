"""How an experiment stands when a plan is made for it: the pace, the history and the forecast of one plan agree.

How an experiment splits its users."""

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
    """The totals of a started experiment and, by variant, the users of each day: all of one moment.

    As in its results, of the newest phase and those before it that split users alike.
    """

    experiment: Experiment
    totals: Totals
    exposed: Mapping[str, Mapping[date, VariantTotals]]


def read_current_totals(experiment: Experiment, at: datetime) -> CurrentTotals | None:
    """With everything that is committed by now; None of a draft."""
    if experiment.started_at is None:
        return None
    bring_up_to_date(experiment, at)
    phases = comparable_phases(experiment.phases)
    with read_consistently():
        totals, daily = pool(read_phases(experiment), phases), read_daily(experiment, phases)
        return CurrentTotals(experiment, totals, daily.get(EXPOSURES, {}))


def variant_shares(experiment: Experiment) -> Mapping[str, Fraction]:
    """Of all users, those that each variant gets, by its key, to the last digit; without variants that get nobody."""
    weights = {variant["key"]: Fraction(variant["weight"]) for variant in experiment.variants if variant["weight"]}
    total = sum(weights.values())
    return {key: weight / total for key, weight in weights.items()}
