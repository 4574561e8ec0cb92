"""What the checklist finds: the checks, their statuses, and one finding."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Check(StrEnum):
    """The checks, in their order."""

    PRIMARY_METRIC = "primary_metric"
    METRIC_SEEN = "metric_seen"
    WEIGHTS = "weights"
    FLAG = "flag"
    AFFECTED_USERS = "affected_users"
    GROUP = "group"
    COMMON_USERS = "common_users"
    PLANNED_SIZE = "planned_size"
    MINIMUM_EFFECT = "minimum_effect"
    GUARDRAILS = "guardrails"
    ANALYSIS = "analysis"
    SHORTEST_RUN = "shortest_run"
    LOOKBACK = "lookback"
    CALIBRATION = "calibration"


class Level(StrEnum):
    """The status of a check; `unknown` where there is not enough data yet."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """A check, its status, and the reason as a sentence."""

    check: Check
    status: Level
    message: str


Result = tuple[Level, str]
