"""What came of calibrations, metric by metric, kept for whoever wants to know whether its tests can be relied on.

Not here: how one is made (`calibration`, which loads the statistics).
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
            metric=each.definition.key,
            definition=each.definition.document(),
            at=at,
            rounds=each.rounds,
            false_positives=each.false_positives,
            is_as_promised=each.is_as_promised,
        )
        for each in outcomes
    )


def newest_calibrations(definitions: Sequence[Definition], environment: Environment) -> Mapping[str, Calibration]:
    """The newest calibration of each metric that was calibrated with this very definition, by its key. One query."""
    by_key = {each.key: each for each in definitions}
    kept = Calibration.objects.filter(environment=environment, metric__in=by_key).order_by("at", "id")
    return {each.metric: each for each in kept if Definition.parse(each.definition) == by_key[each.metric]}
