"""The statistics put to the test with real users: those of an experiment, simulated as if nothing had been changed.

It loads NumPy and SciPy: only the command imports it, and no server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from config.database.consistent_reads import read_consistently
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from experiments.aggregates.variant_sums import read_users
from experiments.exposures.up_to_date import bring_up_to_date
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment, Status
from experiments.planner.calibration_outcomes import Outcome
from experiments.results.to_stats import Study, measure_of
from experiments.stats.sample_ratio import MISMATCH
from experiments.stats.simulation import Comparison, ErrorRates, Look, Observed, Population, Simulation, simulate

FEWEST_USERS = 100
FEWEST_SPLITS = 200
"""To tell anything of a metric for good: of twenty, three in which its tests err would pass as what was promised."""
_CHANCE = 3  # standard errors that a share of so many splits may lie above what it is in the long run


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """What came of it. `users` are those exposed at the time; `alpha` is what each test promises to err at most."""

    experiment: Experiment
    users: int
    rounds: int
    looks: int
    seed: int
    alpha: float
    simulation: Simulation

    @property
    def is_as_promised(self) -> bool:
        """Whether no always-valid test erred more often than it says, give or take the chance of so many splits."""
        mismatches = self.simulation.sample_ratio[-1].always_valid
        errors = ((rates.looks[-1].always_valid, rates.splits) for rates in self.simulation.errors)
        return _is_at_most(mismatches, MISMATCH, self.rounds) and all(
            _is_at_most(share, self.alpha, splits) for share, splits in errors
        )

    def outcomes(self) -> list[Outcome]:
        """What came of each metric that could be tested in enough splits, of its worst treatment."""
        kept = []
        for definition in definitions_of(self.experiment):
            rates = [rates for rates in self.simulation.errors if rates.comparison.measure == definition.key]
            if rates and min(rate.splits for rate in rates) >= FEWEST_SPLITS:
                shares = [(rate.looks[-1].always_valid, rate.splits) for rate in rates]
                is_as_promised = all(_is_at_most(share, self.alpha, splits) for share, splits in shares)
                kept.append(Outcome(definition, self.rounds, max(share for share, _ in shares), is_as_promised))
        return kept

    def document(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "experiment": self.experiment.key,
            "users": self.users,
            "rounds": self.rounds,
            "looks": self.looks,
            "seed": self.seed,
            "alpha": self.alpha,
            "isAsPromised": self.is_as_promised,
            "metrics": [_error_rates(rates) for rates in self.simulation.errors],
            "untested": [_comparison(comparison) for comparison in self.simulation.untested],
            "sampleRatio": {"alpha": MISMATCH, "looks": [_look(look) for look in self.simulation.sample_ratio]},
        }


def _is_at_most(share: float, promised: float, splits: int) -> bool:
    return bool(share <= promised + _CHANCE * (promised * (1 - promised) / splits) ** 0.5)


def calibrate(
    experiment: Experiment,
    *,
    at: datetime,
    metric: str | None = None,
    rounds: int = 1000,
    looks: int = 20,
    seed: int = 1,
    on_progress: Callable[[int], object] = lambda _: None,
) -> CalibrationReport:
    """Split the exposed users of an experiment anew, by its weights, and test what its metrics measured of them.

    By one metric or by all; `rounds` times, with as many looks at each split, of which the seed draws the salts.
    `on_progress` hears of each split. Raises DomainError for a draft, an unknown metric, fewer than 100 users, and
    where no test can be made.
    """
    if experiment.status == Status.DRAFT:
        raise _refusal("experiment", "Is a draft, to which nobody was exposed; start it, and come back with users.")
    _check_weights(experiment)
    definitions = definitions_of(experiment)
    places = _places(definitions, metric)
    bring_up_to_date(experiment, at)
    with read_consistently():  # for all metrics to be of the same users
        population = Population(*_observe(experiment, definitions, places))
    users = len(population.user_ids)
    if users < FEWEST_USERS:
        raise _refusal("experiment", f"Has {users:,} exposed users so far; it takes {FEWEST_USERS} at least.")
    design = Study(experiment, definitions, places, experiment.variant_keys[0], "holm").design
    simulation = simulate(population, design, rounds=rounds, looks=looks, seed=seed, on_progress=on_progress)
    if not simulation.errors:
        raise _refusal("experiment", "Cannot be tested in any split: all users measure the same, or next to all do.")
    return CalibrationReport(experiment, users, rounds, looks, seed, design.alpha, simulation)


def _check_weights(experiment: Experiment) -> None:
    control, *treatments = (variant["weight"] for variant in experiment.variants)
    if not control or not any(treatments):
        message = "Gives users to its control alone, or none to it, so there is nothing to compare."
        raise _refusal("experiment", message)


def _places(definitions: Sequence[Definition], metric: str | None) -> list[int]:
    keys = [definition.key for definition in definitions]
    if not keys:
        raise _refusal("experiment", "Has no metrics, so there is nothing to test.")
    if metric is not None and metric not in keys:
        raise _refusal("metric", f"Is none of the experiment's; use one of: {', '.join(keys)}.")
    return [place for place, key in enumerate(keys) if metric in (None, key)]


def _observe(
    experiment: Experiment, definitions: Sequence[Definition], places: Sequence[int]
) -> tuple[list[str], list[Observed]]:
    """The ids of the users in the order of their exposures, and what each metric measured of them."""
    user_ids: list[str] = []
    observed = []
    for place in places:
        users = list(read_users(experiment, place))
        user_ids = [user_id for user_id, *_ in users]
        y, d, x = np.array([values for _, _, *values in users], float).reshape(-1, 3).T
        observed.append(Observed(measure_of(definitions[place]), y, d, x))
    return user_ids, observed


def _refusal(field: str, message: str) -> ValidationFailed:
    return ValidationFailed([Detail(field, DetailCode.INVALID_VALUE, message)], code=ErrorCode.INVALID_PARAMETER)


def _error_rates(rates: ErrorRates) -> dict[str, Any]:
    return {
        **_comparison(rates.comparison),
        "splits": rates.splits,
        "coverage": {"alwaysValid": rates.always_valid_coverage, "fixedHorizon": rates.fixed_horizon_coverage},
        "looks": [_look(look) for look in rates.looks],
    }


def _comparison(of: Comparison) -> dict[str, Any]:
    return {"metric": of.measure, "variant": of.variant, "isCuped": of.is_cuped}


def _look(look: Look) -> dict[str, Any]:
    return {"users": look.users, "alwaysValid": look.always_valid, "fixedHorizon": look.fixed_horizon}
