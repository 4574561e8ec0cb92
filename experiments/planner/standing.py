"""How an experiment stands when a plan is made for it: the pace, the history and the forecast of one plan agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

from config.reading import at_one_moment
from experiments.models import Experiment
from experiments.phases import covered
from experiments.testers import leave_out_late_testers
from experiments.totals.folding import fold
from experiments.totals.summing import EXPOSURES, VariantTotals
from experiments.totals.sums import Totals, pool, read_daily, read_phases


@dataclass(frozen=True, slots=True)
class Standing:
    """The totals of a started experiment and, by variant, the users of each day: all of one moment.

    As in its results, of the newest phase and those before it that split users alike.
    """

    experiment: Experiment
    totals: Totals
    exposed: Mapping[str, Mapping[date, VariantTotals]]


def standing_of(experiment: Experiment, at: datetime) -> Standing | None:
    """With everything that is committed by now; None of a draft."""
    if experiment.started_at is None:
        return None
    leave_out_late_testers(experiment)
    fold(experiment, at)
    phases = covered(experiment.phases)
    with at_one_moment():
        totals, daily = pool(read_phases(experiment), phases), read_daily(experiment, phases)
        return Standing(experiment, totals, daily.get(EXPOSURES, {}))
