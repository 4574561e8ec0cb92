"""What calibrations found, metric by metric, as it is stored.

Making one is for `calibration`, which loads NumPy and SciPy: no server imports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from config.models import Environment
from experiments.metrics.definition import Definition
from experiments.models import Calibration


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one metric: in what share of the splits an always-valid test erred, and whether that is as it promises."""

    definition: Definition
    rounds: int
    false_positives: float
    is_as_promised: bool


def keep_outcomes(outcomes: Sequence[Outcome], environment: Environment, at: datetime) -> None:
    """Keep what came of a calibration, beside what came of earlier ones."""
    Calibration.objects.bulk_create(
        Calibration(
            environment=environment,
            metric=outcome.definition.key,
            definition=outcome.definition.document(),
            at=at,
            rounds=outcome.rounds,
            false_positives=outcome.false_positives,
            is_as_promised=outcome.is_as_promised,
        )
        for outcome in outcomes
    )


def newest_calibrations(definitions: Sequence[Definition], environment: Environment) -> Mapping[str, Calibration]:
    """The newest calibration of each metric that was calibrated with this very definition, by its key. One query."""
    by_key = {definition.key: definition for definition in definitions}
    calibrations = Calibration.objects.filter(environment=environment, metric__in=by_key).order_by("at", "id")
    return {
        calibration.metric: calibration
        for calibration in calibrations
        if Definition.parse(calibration.definition) == by_key[calibration.metric]
    }
