"""Calibration: an A/A simulation with the users of a real experiment, to check the error rates of its tests.

This module loads NumPy and SciPy, so only the command imports it, and no server.
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
"""The fewest splits for an outcome to be stored. With twenty splits, three errors would pass as promised."""
_CHANCE = 3  # standard errors by which a share of splits may exceed the promised rate by chance


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The result of a calibration.

    `users` is the number of exposed users. `alpha` is the error rate that each test promises at most.
    """

    experiment: Experiment
    users: int
    rounds: int
    looks: int
    seed: int
    alpha: float
    simulation: Simulation

    @property
    def is_as_promised(self) -> bool:
        """Return whether no always-valid test erred more often than promised, allowing for chance."""
        mismatches = self.simulation.sample_ratio[-1].always_valid
        errors = ((rates.looks[-1].always_valid, rates.splits) for rates in self.simulation.errors)
        return _is_at_most(mismatches, MISMATCH, self.rounds) and all(
            _is_at_most(share, self.alpha, splits) for share, splits in errors
        )

    def outcomes(self) -> list[Outcome]:
        """Return the outcome of each metric with enough testable splits, for its worst treatment."""
        kept = []
        for definition in definitions_of(self.experiment):
            rates = [rates for rates in self.simulation.errors if rates.comparison.measure == definition.key]
            if rates and min(rate.splits for rate in rates) >= FEWEST_SPLITS:
                shares = [(rate.looks[-1].always_valid, rate.splits) for rate in rates]
                is_as_promised = all(_is_at_most(share, self.alpha, splits) for share, splits in shares)
                kept.append(Outcome(definition, self.rounds, max(share for share, _ in shares), is_as_promised))
        return kept

    def document(self) -> dict[str, Any]:
        """Return the whole report as JSON."""
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
    """Split the exposed users of an experiment at random by its weights, and test its metrics on them.

    This is done `rounds` times, with `looks` looks at each split, for one metric or for all. The seed
    draws the salts of the splits. `on_progress` is called with 1 after each split. Raises
    DomainError for a draft, an unknown metric, fewer than 100 users, and where no test is possible.
    """
    if experiment.status == Status.DRAFT:
        raise _refusal("experiment", "Is a draft without exposed users; start it and collect users first.")
    _check_weights(experiment)
    definitions = definitions_of(experiment)
    metric_indexes = _metric_indexes(definitions, metric)
    bring_up_to_date(experiment, at)
    with read_consistently():  # for all metrics to be of the same users
        population = Population(*_observe(experiment, definitions, metric_indexes))
    users = len(population.user_ids)
    if users < FEWEST_USERS:
        raise _refusal("experiment", f"Has {users:,} exposed users so far; at least {FEWEST_USERS} are required.")
    design = Study(experiment, definitions, metric_indexes, experiment.variant_keys[0], "holm").design
    simulation = simulate(population, design, rounds=rounds, looks=looks, seed=seed, on_progress=on_progress)
    if not simulation.errors:
        raise _refusal("experiment", "Cannot be tested in any split: all or nearly all users have the same value.")
    return CalibrationReport(experiment, users, rounds, looks, seed, design.alpha, simulation)


def _check_weights(experiment: Experiment) -> None:
    control, *treatments = (variant["weight"] for variant in experiment.variants)
    if not control or not any(treatments):
        message = "Must have a weight above 0 for the control and for at least one treatment."
        raise _refusal("experiment", message)


def _metric_indexes(definitions: Sequence[Definition], metric: str | None) -> list[int]:
    keys = [definition.key for definition in definitions]
    if not keys:
        raise _refusal("experiment", "Has no metrics, so there is nothing to test.")
    if metric is not None and metric not in keys:
        raise _refusal("metric", f"Must be a metric of the experiment: {', '.join(keys)}.")
    return [metric_index for metric_index, key in enumerate(keys) if metric in (None, key)]


def _observe(
    experiment: Experiment, definitions: Sequence[Definition], metric_indexes: Sequence[int]
) -> tuple[list[str], list[Observed]]:
    """Return the ids of the users in the order of their exposures, and the values of each metric."""
    user_ids: list[str] = []
    observed = []
    for metric_index in metric_indexes:
        users = list(read_users(experiment, metric_index))
        user_ids = [user_id for user_id, *_ in users]
        y, d, x = np.array([values for _, _, *values in users], float).reshape(-1, 3).T
        observed.append(Observed(measure_of(definitions[metric_index]), y, d, x))
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
