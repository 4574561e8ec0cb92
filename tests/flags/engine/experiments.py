"""The rule of an experiment, for tests of flags that experiments drive."""

from __future__ import annotations

from typing import Any

COLOURS = {"type": "string", "variants": [{"key": "old", "value": "#f00"}, {"key": "new", "value": "#0f0"}]}


def experiment_rule(experiment: str = "checkout", *, is_plain: bool = True, **more: Any) -> dict[str, Any]:
    """A rule that splits users evenly between control and treatment."""
    serves = (False, True) if is_plain else ("old", "new")
    keys = ("control", "treatment")
    variants = [{"key": key, "weight": 50, "serves": value} for key, value in zip(keys, serves, strict=True)]
    return {"type": "experiment", "experiment": experiment, "variants": variants, **more}
