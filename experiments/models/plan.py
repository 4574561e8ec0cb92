"""The plan of an experiment: its defaults, its checks, and what follows from it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Protocol

from config.documents import Document
from config.errors import Detail, DetailCode
from config.slugs import DESCRIPTION_LENGTH, NAME_LENGTH
from experiments.models.experiment import LOOKBACK_DAYS, MINIMUM_DAYS, AnalysisMethod
from experiments.stats.types import TUNING_SIZE

MAX_USERS = 2_000_000_000
MIN_TUNING_SIZE = 100
MAX_TUNING_SIZE = 10_000_000
MAX_EFFECT = 10
"""The largest `minimumEffect`: the treatment has eleven times the value of the control."""
MAX_DAYS = 365
MAX_LOOKBACK_DAYS = 90


class Planned(Protocol):
    """What decides how long an experiment has to run."""

    minimum_days: int
    registration: Document | None
    started_at: datetime | None
    stopped_at: datetime | None


def new_plan() -> dict[str, Any]:
    """Return the default plan."""
    return {
        "planned_size": None,
        "minimum_effect": None,
        "analysis": AnalysisMethod.SEQUENTIAL.value,
        "minimum_days": MINIMUM_DAYS,
        "lookback_days": LOOKBACK_DAYS,
        "given_tuning_size": None,
        "owner": "",
        "hypothesis": "",
    }


def tuning_size_of(design: Mapping[str, Any]) -> int:
    """Return the tuning size: the one that was sent, else one that follows from the planned size, else the default.

    It follows as the number of planned users in the control and one treatment. Treatments of different weights count
    with their mean. Variants without users do not count.
    """
    if design["given_tuning_size"] is not None:
        return int(design["given_tuning_size"])
    if design["planned_size"] is None:
        return TUNING_SIZE
    control, *treatments = (Fraction(str(variant["weight"])) for variant in design["variants"])
    seen = [weight for weight in treatments if weight]
    compared = control + (sum(seen) / len(seen) if seen else 0)
    users: int = round(design["planned_size"] * compared / (control + sum(seen)))
    return min(max(users, MIN_TUNING_SIZE), MAX_TUNING_SIZE)


def registered_plan(design: Mapping[str, Any]) -> Document:
    """Return the plan as JSON, as a start registers it."""
    return {
        "plannedSampleSize": design["planned_size"],
        "minimumEffect": design["minimum_effect"],
        "analysis": str(design["analysis"]),
        "minimumDays": design["minimum_days"],
        "lookbackDays": design["lookback_days"],
        "tuningSampleSize": tuning_size_of(design),
    }


def remaining_run(experiment: Planned, now: datetime) -> timedelta:
    """Return the time until the shortest run is over, as of now or of the stop. It is 0 or less once it is over."""
    end = end_of_shortest_run(experiment)
    if end is None:
        return timedelta(days=experiment.minimum_days)
    return end - (now if experiment.stopped_at is None else min(now, experiment.stopped_at))


def end_of_shortest_run(experiment: Planned) -> datetime | None:
    """Return when the shortest run is over that the start registered; None for a draft."""
    if experiment.started_at is None:
        return None
    return experiment.started_at + timedelta(days=(experiment.registration or {}).get("minimumDays", 0))


# checks


def check_plan(design: Mapping[str, Any]) -> list[Detail]:
    """Return every problem of a plan, its owner and its hypothesis."""
    return [
        *check_planned_size(design["planned_size"]),
        *check_minimum_effect(design["minimum_effect"]),
        *check_analysis(design["analysis"], design["planned_size"]),
        *_check_whole("minimumDays", design["minimum_days"], (0, MAX_DAYS), "days"),
        *_check_whole("lookbackDays", design["lookback_days"], (0, MAX_LOOKBACK_DAYS), "days"),
        *(() if design["given_tuning_size"] is None else check_tuning_size(design["given_tuning_size"])),
        *_check_text("owner", design["owner"], NAME_LENGTH),
        *_check_text("hypothesis", design["hypothesis"], DESCRIPTION_LENGTH),
    ]


def check_planned_size(size: Any) -> Iterator[Detail]:
    return iter(()) if size is None else _check_whole("plannedSampleSize", size, (1, MAX_USERS), "users")


def check_tuning_size(size: Any) -> Iterator[Detail]:
    """Check the number of users at which always-valid intervals are narrowest."""
    return _check_whole("tuningSampleSize", size, (MIN_TUNING_SIZE, MAX_TUNING_SIZE), "users")


def check_minimum_effect(effect: Any) -> Iterator[Detail]:
    """Check the smallest effect of interest: a share of the control's value, or None."""
    if effect is None:
        return
    if isinstance(effect, bool) or not isinstance(effect, (int, float)):
        yield Detail("minimumEffect", DetailCode.INVALID_TYPE, "Must be a number such as 0.05, for 5 %.")
    elif not (math.isfinite(effect) and 0 < effect <= MAX_EFFECT):
        message = f"Must be above 0 and at most {MAX_EFFECT}; 0.05 stands for 5 %."
        yield Detail("minimumEffect", DetailCode.OUT_OF_RANGE, message)


def check_analysis(analysis: Any, planned_size: Any) -> Iterator[Detail]:
    """Check the method of analysis. A fixed analysis needs a planned size."""
    if not isinstance(analysis, str):
        yield Detail("analysis", DetailCode.INVALID_TYPE, "Must be a string.")
    elif analysis not in AnalysisMethod.values:
        message = f"Must be one of: {', '.join(AnalysisMethod.values)}."
        yield Detail("analysis", DetailCode.INVALID_VALUE, message)
    elif analysis == AnalysisMethod.FIXED and planned_size is None:
        message = "Is required for a fixed analysis, which is read once every variant has its part of these users."
        yield Detail("plannedSampleSize", DetailCode.REQUIRED, message)


def _check_whole(field: str, value: Any, extent: Sequence[int], unit: str) -> Iterator[Detail]:
    least, most = extent
    if isinstance(value, bool) or not isinstance(value, int):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a whole number.")
    elif not least <= value <= most:
        yield Detail(field, DetailCode.OUT_OF_RANGE, f"Must be {least:,} to {most:,} {unit}.")


def _check_text(field: str, value: Any, length: int) -> Iterator[Detail]:
    if not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string.")
    elif len(value) > length:
        yield Detail(field, DetailCode.TOO_LONG, f"Must be at most {length:,} characters.")
