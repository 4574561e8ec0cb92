"""What the tests of aggregates share."""

from __future__ import annotations

import pytest

from experiments.aggregates import near_caps, update


@pytest.fixture(autouse=True)
def _bounds_close_to_caps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mark users near caps also where few users have values, and at any percentile."""
    monkeypatch.setattr(near_caps, "_ROOM", 0)
    monkeypatch.setattr(update, "LEAST_PERCENTILE", 0)
