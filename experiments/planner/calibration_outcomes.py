"""The stored outcomes of calibrations, one for each metric.

They stand apart from `calibration`, which loads NumPy and SciPy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from config.models import Environment
from experiments.metrics.definition import Definition
from experiments.models import Calibration


@dataclass(frozen=True, slots=True)
class CalibrationOutcome:
    """The outcome of one metric: the highest share of splits with an error, and whether all shares are as promised.

    `rates` are the error rates of differences, lifts, labels and guardrails as JSON.
    """

    definition: Definition
    rounds: int
    false_positives: float
    is_as_promised: bool
    rates: dict[str, Any]


def store_outcomes(outcomes: Sequence[CalibrationOutcome], environment: Environment, now: datetime) -> None:
    """Store the outcomes of a calibration. Earlier ones stay."""
    Calibration.objects.bulk_create(
        Calibration(
            environment=environment,
            metric=outcome.definition.key,
            definition=outcome.definition.as_json(),
            at=now,
            rounds=outcome.rounds,
            false_positives=outcome.false_positives,
            is_as_promised=outcome.is_as_promised,
            outcomes=outcome.rates,
        )
        for outcome in outcomes
    )


def newest_calibrations(definitions: Sequence[Definition], environment: Environment) -> Mapping[str, Calibration]:
    """Return the newest calibration of each definition, by metric key, with one query."""
    by_key = {definition.key: definition for definition in definitions}
    calibrations = Calibration.objects.filter(environment=environment, metric__in=by_key).order_by("at", "id")
    return {
        calibration.metric: calibration
        for calibration in calibrations
        if Definition.parse(calibration.definition) == by_key[calibration.metric]
    }
