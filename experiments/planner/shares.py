"""How an experiment splits its users."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from experiments.models import Experiment


def shares_of(experiment: Experiment) -> Mapping[str, Fraction]:
    """Of all users, those that each variant gets, by its key, to the last digit; without variants that get nobody."""
    weights = {variant["key"]: Fraction(variant["weight"]) for variant in experiment.variants if variant["weight"]}
    total = sum(weights.values())
    return {key: weight / total for key, weight in weights.items()}
