"""What is fixed before anybody looks: by which metric an experiment is decided, which way is good, and at what size."""

from __future__ import annotations

from collections.abc import Sequence

from config.documents import Document
from experiments.metrics.definition import Definition, primary_of


def registration(definitions: Sequence[Definition], planned_size: int | None) -> Document:
    """What stands in the change log from the start on, as JSON."""
    primary = primary_of(definitions)
    told = primary.document() if primary else {}
    return {
        "primaryMetric": told.get("key"),
        "direction": told.get("direction"),
        "windowHours": told.get("windowHours"),
        "metrics": [each.key for each in definitions],
        "plannedSampleSize": planned_size,
    }
