"""Bringing an experiment up to date before its aggregates are read. Reading results may therefore write."""

from __future__ import annotations

from datetime import datetime

from config.database.timeouts import long_statements
from experiments.aggregates.refresh import refresh
from experiments.exposures.forced_variants import remove_late_forced_exposures
from experiments.exposures.upkeep import upkeep
from experiments.models import Experiment, Status


@long_statements()
def bring_up_to_date(experiment: Experiment, at: datetime) -> None:
    """Make the aggregates exact for everything that was committed before this call; `at` is the present moment.

    Everything that reads aggregates calls this first: results, the planner, calibrations and the periodic task. It
    writes only where something is new, in transactions of its own, and nothing for a draft or for frozen results.
    A server then keeps the experiment up to date for a minute, so that the next reading finds little to do.
    """
    if experiment.status != Status.DRAFT:
        remove_late_forced_exposures(experiment)
        refresh(experiment, at)
        upkeep.note(experiment.pk)
