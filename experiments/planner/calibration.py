"""Calibration: an A/A simulation with the users of a real experiment, which checks the error rates of its tests.

This module loads NumPy and SciPy. Only the command imports it, and no server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
from django.db.models import QuerySet
from django.db.models.functions import MD5
from numpy.typing import NDArray

from config.database.planning import IN_ONE_PASS, planned
from config.database.transactions import read_consistently
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from experiments.metrics.definition import Definition, definitions_of
from experiments.models import EXPOSURE, Experiment, Status
from experiments.planner.calibration_outcomes import CalibrationOutcome
from experiments.results.quantiles import iterate_values, values_of_events
from experiments.results.refresh import bring_up_to_date
from experiments.results.study import Study, measure_of
from experiments.results.sums import read_caps
from experiments.results.values import source_of, stored_exposures, stored_values
from experiments.stats.calibration_simulation import GuardrailRates, simulate_guardrails, simulate_smallest_effect
from experiments.stats.outcomes import Decision
from experiments.stats.quantiles import EventValues, quantiles_of
from experiments.stats.sample_ratio import MISMATCH
from experiments.stats.simulation import (
    Comparison,
    ErrorRates,
    Labels,
    Look,
    Observed,
    Population,
    Simulation,
    VerdictRate,
    simulate,
)
from experiments.stats.types import Plan, Quantile

MIN_USERS = 100
MAX_USERS = 100_000
"""The maximum of users whose values are read, which bounds the memory. Error rates hardly depend on more."""
MIN_SPLITS = 200
"""Outcomes of fewer splits are not stored. Of twenty splits, three errors would pass as promised."""
_WRONG_WITHOUT_EFFECT = (Decision.SHIP, Decision.DO_NOT_SHIP)
_CHANCE = 3  # standard errors by which a share of splits may exceed the promised rate by chance


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The result of a calibration.

    `users` were split, out of `exposed` users. Each test promises an error rate of at most `alpha`.
    `with_minimum_effect` are the verdicts where all treatments have exactly the smallest effect of interest; None if
    there is none, or the values cannot have it.
    """

    experiment: Experiment
    users: int
    exposed: int
    rounds: int
    looks: int
    seed: int
    alpha: float
    simulation: Simulation
    guardrails: Sequence[GuardrailRates]
    minimum_effect: float | None = None
    with_minimum_effect: Sequence[VerdictRate] | None = None

    @property
    def is_as_promised(self) -> bool:
        """Return whether no always-valid test erred more often than promised, allowing for chance."""
        mismatches = self.simulation.sample_ratio[-1].always_valid
        return (
            _is_at_most(mismatches, MISMATCH, self.rounds)
            and all(self._is_promised(rates) for rates in self.simulation.errors)
            and all(map(self._is_guardrail_promised, self.guardrails))
            and all(
                _is_at_most(share, self.alpha, self.rounds) for share in (*self.labels, *self.wrong_verdicts.values())
            )
        )

    @property
    def wrong_verdicts(self) -> dict[Decision, float]:
        """Return the shares of splits with each verdict that is wrong.

        To ship a treatment or none is wrong without an effect, and no difference with the smallest effect of interest.
        """
        without = {decision: decided(self.simulation.verdicts, decision) for decision in _WRONG_WITHOUT_EFFECT}
        if self.with_minimum_effect is None:
            return without
        return {**without, Decision.NO_DIFFERENCE: decided(self.with_minimum_effect, Decision.NO_DIFFERENCE)}

    @property
    def labels(self) -> tuple[float, float]:
        """Return the shares of splits with a wrong label: of the primary metric, and of the other goals."""
        if not self.simulation.labels:
            return 0.0, 0.0
        last = self.simulation.labels[-1]
        return last.primary, last.others

    def _is_promised(self, rates: ErrorRates) -> bool:
        shares = (rates.looks[-1].always_valid, rates.lifts[-1].always_valid)
        return all(_is_at_most(share, self.alpha, rates.splits) for share in shares)

    def _is_guardrail_promised(self, rates: GuardrailRates) -> bool:
        return all(_is_at_most(share, self.alpha, self.rounds) for share in (rates.harmed, rates.safe_at_margin or 0.0))

    def outcomes(self) -> list[CalibrationOutcome]:
        """Return the outcome of each metric that enough splits could test, for its worst treatment."""
        outcomes = []
        for definition in definitions_of(self.experiment):
            rates = [rates for rates in self.simulation.errors if rates.comparison.measure == definition.key]
            if rates and min(rate.splits for rate in rates) >= MIN_SPLITS:
                outcomes.append(self._outcome(definition, rates))
        return outcomes

    def _outcome(self, definition: Definition, rates: Sequence[ErrorRates]) -> CalibrationOutcome:
        guardrails = [guardrail for guardrail in self.guardrails if guardrail.measure == definition.key]
        family = self._family_of(definition)
        rates_as_json = {
            "difference": _worst(rate.looks[-1] for rate in rates),
            "lift": _worst(rate.lifts[-1] for rate in rates),
            "coverage": min(rate.always_valid_coverage for rate in rates),
            "labels": family,
            "guardrail": _worst_guardrail(guardrails) if guardrails else None,
        }
        shares = [
            *((look.always_valid, rate.splits) for rate in rates for look in (rate.looks[-1], rate.lifts[-1])),
            *((share, self.rounds) for rate in guardrails for share in (rate.harmed, rate.safe_at_margin or 0.0)),
            *(() if family is None else ((family, self.rounds),)),
        ]
        is_as_promised = all(_is_at_most(share, self.alpha, splits) for share, splits in shares)
        return CalibrationOutcome(
            definition, self.rounds, max(share for share, _ in shares), is_as_promised, rates_as_json
        )

    def _family_of(self, definition: Definition) -> float | None:
        """Return how often a goal's family of tests had a wrong label; None for metrics that decide nothing."""
        if not definition.is_registered_goal or not self.simulation.labels:
            return None
        tested = {rates.comparison.measure for rates in self.simulation.errors}
        goals = [goal.key for goal in definitions_of(self.experiment) if goal.is_registered_goal]
        primary, others = self.labels
        return primary if definition.key == next((key for key in goals if key in tested), None) else others

    def as_json(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment.key,
            "users": self.users,
            "exposedUsers": self.exposed,
            "rounds": self.rounds,
            "looks": self.looks,
            "seed": self.seed,
            "alpha": self.alpha,
            "isAsPromised": self.is_as_promised,
            "metrics": [_error_rates(rates) for rates in self.simulation.errors],
            "untested": [_comparison(comparison) for comparison in self.simulation.untested],
            "labels": [_labels(labels) for labels in self.simulation.labels],
            "guardrails": [_guardrail(rates) for rates in self.guardrails],
            "verdicts": [_verdict(rate) for rate in self.simulation.verdicts],
            "minimumEffect": self.minimum_effect,
            "verdictsWithMinimumEffect": None
            if self.with_minimum_effect is None
            else [_verdict(rate) for rate in self.with_minimum_effect],
            "sampleRatio": {"alpha": MISMATCH, "looks": [_look(look) for look in self.simulation.sample_ratio]},
        }


def decided(rates: Iterable[VerdictRate], decision: Decision) -> float:
    """Return the share of splits with a decision, whichever rule made it."""
    return sum(rate.share for rate in rates if rate.decision == decision)


def _is_at_most(share: float, promised: float, splits: int) -> bool:
    return bool(share <= promised + _CHANCE * (promised * (1 - promised) / splits) ** 0.5)


def calibrate(
    experiment: Experiment,
    *,
    now: datetime,
    metric: str | None = None,
    most_users: int = MAX_USERS,
    rounds: int = 1000,
    looks: int = 20,
    seed: int = 1,
    on_progress: Callable[[int], object] = lambda _: None,
) -> CalibrationReport:
    """Split the exposed users of an experiment at random by its weights, and test its metrics on them.

    There are `rounds` splits with `looks` looks each, for one metric or for all. If there are more than `most_users`
    users, about as many are drawn. `seed` draws the salts of the splits. Guardrails are judged at as many further
    splits. `on_progress` is called with 1 after each split, `total_splits` times in all. Raises DomainError for a
    draft, an unknown metric, fewer than 100 users, and if no test is possible.
    """
    if experiment.status == Status.DRAFT:
        raise _refusal("experiment", "Is a draft without exposed users; start it and collect users first.")
    _check_weights(experiment)
    definitions = definitions_of(experiment)
    metric_indexes = _metric_indexes(definitions, metric)
    bring_up_to_date(experiment, now)
    with read_consistently():  # for all metrics to be of the same users
        drawn = DrawnUsers(experiment, most_users)
        population = Population(*_observe(experiment, drawn, metric_indexes, now))
    users = len(population.user_ids)
    if users < MIN_USERS:
        raise _refusal("experiment", f"Has {users:,} exposed users so far; at least {MIN_USERS} are required.")
    registered = Study(experiment, definitions, metric_indexes, experiment.variant_keys[0], "holm").design
    # A fixed analysis is read once; labels at every look are those of a sequential one. It ends at the last look.
    primary = next((observed for observed in population.observed if observed.measure.is_registered_goal), None)
    planned_size = None if primary is None else int(primary.is_counted.sum())
    plan = Plan(size=planned_size or None, minimum_effect=registered.plan.minimum_effect)
    design = replace(registered, is_adjusted=True, plan=plan)
    simulation = simulate(population, design, rounds=rounds, looks=looks, seed=seed, on_progress=on_progress)
    if not simulation.errors:
        raise _refusal("experiment", "Cannot be tested in any split: too few users or events have different values.")
    guardrails = simulate_guardrails(population, design, rounds=rounds, looks=looks, seed=seed, on_progress=on_progress)
    with_minimum_effect = simulate_smallest_effect(
        population, design, rounds=rounds, seed=seed, on_progress=on_progress
    )
    return CalibrationReport(
        experiment,
        users,
        drawn.exposed,
        rounds,
        looks,
        seed,
        design.alpha,
        simulation,
        guardrails,
        plan.minimum_effect,
        with_minimum_effect,
    )


def total_splits(experiment: Experiment, metric: str | None, rounds: int) -> int:
    """Return the number of splits of a calibration: guardrails and a smallest effect take as many further ones."""
    definitions = definitions_of(experiment)
    has_guardrails = any(definition.is_guardrail for definition in definitions if metric in (None, definition.key))
    has_goal = any(definition.is_registered_goal for definition in definitions if metric in (None, definition.key))
    return rounds * (1 + has_guardrails + (has_goal and experiment.minimum_effect is not None))


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
    experiment: Experiment, drawn: DrawnUsers, metric_indexes: Sequence[int], now: datetime
) -> tuple[list[str], list[Observed]]:
    """Return the users in the order of their exposures, and their values of each metric."""
    user_ids: list[str] = []
    observed = []
    until, definitions = experiment.counted_by(now), definitions_of(experiment)
    for metric_index in metric_indexes:
        definition = definitions[metric_index]
        users = list(drawn.read(metric_index))
        user_ids = [user_id for user_id, *_ in users]
        span = definition.span or timedelta(0)
        mature = np.array([definition.span is None or exposed_at + span <= until for _, exposed_at, *_ in users], float)
        value, denominator, value_before, denominator_before = (
            np.array([values for _, _, *values in users], float).reshape(-1, 4).T * mature
        )
        of_metric = Observed(
            measure_of(definition),
            value,
            denominator,
            value_before,
            denominator_before,
            mature=None if mature.all() else mature,
        )
        if definition.quantile is not None:
            events = _events_of(user_ids, drawn.read_values(metric_index))
            of_metric = replace(of_metric, quantiles=partial(_quantiles, definition.quantile, events))
        observed.append(of_metric)
    return user_ids, observed


def _events_of(user_ids: Sequence[str], values: Iterable[tuple[str, float]]) -> EventValues:
    """Return the values of events, with the indexes of their users."""
    positions = {user_id: position for position, user_id in enumerate(user_ids)}
    owned = [(value, positions[user_id]) for user_id, value in values]
    return EventValues.of([value for value, _ in owned], [owner for _, owner in owned])


def _quantiles(share: float, events: EventValues, groups: NDArray[np.intp], number: int) -> list[Quantile]:
    """Return the quantile of each group of users."""
    return quantiles_of(share, events.grouped(groups, number))


def _refusal(field: str, message: str) -> ValidationFailed:
    return ValidationFailed([Detail(field, DetailCode.INVALID_VALUE, message)], code=ErrorCode.INVALID_PARAMETER)


def _error_rates(rates: ErrorRates) -> dict[str, Any]:
    return {
        **_comparison(rates.comparison),
        "splits": rates.splits,
        "coverage": {"alwaysValid": rates.always_valid_coverage, "fixedHorizon": rates.fixed_horizon_coverage},
        "looks": [_look(look) for look in rates.looks],
        "lifts": [_look(look) for look in rates.lifts],
    }


def _labels(labels: Labels) -> dict[str, Any]:
    return {
        "users": labels.users,
        "primary": labels.primary,
        "others": labels.others,
        "guardrails": labels.guardrails,
        "shipped": labels.shipped,
        "rejected": labels.rejected,
    }


def _verdict(rate: VerdictRate) -> dict[str, Any]:
    return {"rule": rate.rule, "decision": str(rate.decision), "share": rate.share}


def _guardrail(rates: GuardrailRates) -> dict[str, Any]:
    return {
        "metric": rates.measure,
        "variant": rates.variant,
        "harmed": rates.harmed,
        "safe": rates.safe,
        "safeAtMargin": rates.safe_at_margin,
    }


def _worst(looks: Iterable[Look]) -> dict[str, float]:
    last = list(looks)
    return {
        "alwaysValid": max(look.always_valid for look in last),
        "fixedHorizon": max(look.fixed_horizon for look in last),
    }


def _worst_guardrail(rates: Sequence[GuardrailRates]) -> dict[str, float | None]:
    at_margin = [rate.safe_at_margin for rate in rates if rate.safe_at_margin is not None]
    return {"harmed": max(rate.harmed for rate in rates), "safeAtMargin": max(at_margin, default=None)}


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {"metric": comparison.measure, "variant": comparison.variant, "isCuped": comparison.is_cuped}


def _look(look: Look) -> dict[str, Any]:
    return {"users": look.users, "alwaysValid": look.always_valid, "fixedHorizon": look.fixed_horizon}


_DIGITS = 8
"""The number of hexadecimal digits of a hash that decide whether a user is drawn."""
_ROWS_AT_ONCE = 10_000

User = tuple[str, datetime, float, float, float, float]
"""The id, the time of the exposure, and the value, denominator, value before and denominator before, capped."""


class DrawnUsers:
    """About `most` of the exposed users, drawn by a hash of their ids, or all if there are fewer. `exposed` counts all.

    Create and use it within `read_consistently`.
    """

    def __init__(self, experiment: Experiment, most: int) -> None:
        self._experiment = experiment
        self._stored = stored_values(experiment)
        self.exposed = self._stored.filter(metric=EXPOSURE).count()
        is_drawn = self.exposed > most
        self._below = f"{16**_DIGITS * most // self.exposed:0{_DIGITS}x}" if is_drawn else None

    def read(self, metric: int) -> Iterator[User]:
        """Yield each user's values of a metric, in the order of the exposures."""
        cap = read_caps(self._experiment).get(metric, float("inf"))
        columns = ("value", "denominator", "value_before", "denominator_before")
        values = {
            user_id: (
                min(value or 0.0, cap),
                denominator or 0.0,
                min(value_before or 0.0, cap),
                denominator_before or 0.0,
            )
            for user_id, value, denominator, value_before, denominator_before in self._drawn(
                self._stored.filter(metric=metric)
            ).values_list("user_id", *columns)
        }
        exposures = self._drawn(self._stored.filter(metric=EXPOSURE)).order_by("exposed_at", "user_id")
        for user_id, exposed_at in exposures.values_list("user_id", "exposed_at").iterator(chunk_size=_ROWS_AT_ONCE):
            yield user_id, exposed_at, *values.get(user_id, (0.0, 0.0, 0.0, 0.0))

    def read_values(self, metric: int) -> Iterator[tuple[str, float]]:
        """Yield the user id and the value of each event that a quantile counts."""
        source = source_of(self._experiment)
        drawn = replace(source, exposures=self._drawn(stored_exposures(self._experiment)))
        with planned(**IN_ONE_PASS):
            yield from iterate_values(values_of_events(source.definitions[metric], drawn), "user_id", "amount")

    def _drawn(self, rows: QuerySet[Any]) -> Any:
        return rows if self._below is None else rows.alias(hash=MD5("user_id")).filter(hash__lt=self._below)
