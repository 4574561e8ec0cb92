"""What is fixed before anybody looks: by which metric an experiment is decided, which way is good, and at what size."""

from __future__ import annotations

from collections.abc import Sequence

from config.documents import Document


def registration(definitions: Sequence[Document], planned_size: int | None) -> Document:
    """What stands in the change log from the start on. The primary metric is the first goal, if there is one."""
    primary = next((each for each in definitions if each["role"] == "goal"), None)
    return {
        "primaryMetric": primary["key"] if primary else None,
        "direction": primary["direction"] if primary else None,
        "windowHours": primary["windowHours"] if primary else None,
        "metrics": [each["key"] for each in definitions],
        "plannedSampleSize": planned_size,
    }
