"""The totals of an experiment at the moment of a plan, and the shares of its variants.

They are read once, so that the users a day, the history and the forecast of a plan agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from fractions import Fraction

from config.database.consistent_reads import read_consistently
from experiments.models import EXPOSURE, Experiment
from experiments.models.phases import comparable_phases
from experiments.results.maturity import read_mature
from experiments.results.quantiles import read_quantiles
from experiments.results.refresh import bring_up_to_date
from experiments.results.sums import ExactSums, read_caps, read_daily
from experiments.results.user_groups import Counted, UserGroup, pooled


@dataclass(frozen=True, slots=True)
class CurrentTotals:
    """The users of a started experiment with their sums and, by variant, the users exposed on each day.

    All are of the same moment, and cover the comparable phases.
    """

    experiment: Experiment
    users: UserGroup
    exposed: Mapping[str, Mapping[date, ExactSums]]


def read_current_totals(experiment: Experiment, at: datetime) -> CurrentTotals | None:
    """Return the totals with everything that is committed, or None for a draft."""
    if experiment.started_at is None:
        return None
    bring_up_to_date(experiment, at)
    with read_consistently():
        daily = read_daily(experiment, comparable_phases(experiment.phases))
        return CurrentTotals(experiment, read_counting(experiment, at), daily.get(EXPOSURE, {}))


def read_counting(experiment: Experiment, at: datetime) -> UserGroup:
    """Return the users of the comparable phases. For metrics with a window, those count whose window is over.

    The experiment must be up to date.
    """
    reading = read_mature(experiment, at, read_caps(experiment))
    windowed = [index for index, definition in enumerate(reading.definitions) if definition.counts_mature_users]
    groups = {
        phase: UserGroup(
            sums,
            {
                index: Counted(reading.users_of(index, phase), reading.sums.by_phase.get(phase, {}).get(index, {}))
                for index in windowed
            },
        )
        for phase, sums in reading.everybody.items()
    }
    phases = comparable_phases(experiment.phases)
    return replace(pooled(groups, phases), quantiles=read_quantiles(experiment, at, phases))


def variant_shares(experiment: Experiment) -> Mapping[str, Fraction]:
    """Return the exact share of users of each variant, by key. Variants of weight 0 are left out."""
    weights = {variant["key"]: Fraction(variant["weight"]) for variant in experiment.variants if variant["weight"]}
    total = sum(weights.values())
    return {key: weight / total for key, weight in weights.items()}
