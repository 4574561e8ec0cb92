"""The checks of an experiment's design, for every caller. Pure.

Description, variants and metrics are checked here, everything else in `audience` and `plan`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from config.errors import Detail, DetailCode
from config.slugs import NAME_LENGTH, check_description, check_key
from experiments.design import audience
from experiments.design.plan import check_plan
from flags.validation.shapes import MOST_WEIGHT

MOST_VARIANTS = 50
MOST_METRICS = 50
_VARIANT_FIELDS = ("key", "weight")


def check_design(design: Mapping[str, Any]) -> list[Detail]:
    """Return everything that is wrong with a design: all properties of an experiment except its key."""
    variants = design["variants"]
    return [
        *check_description(design["description"]),
        *check_variants(variants),
        *(check_weights_of_flag(variants) if design["flag"] else ()),
        *check_metrics(design["metrics"]),
        *audience.check_percentage(design["percentage"]),
        *audience.check_conditions(design["conditions"]),
        *audience.check_group(design["group"]),
        *audience.check_forced_variants(design["forced_variants"], variants),
        *audience.check_flag(design["flag"], variants),
        *check_plan(design),
    ]


def check_variants(variants: Any) -> Iterator[Detail]:
    """Yield what is wrong with variants: two or more, with distinct keys, and at least one weight above 0."""
    if not isinstance(variants, list):
        yield Detail("variants", DetailCode.INVALID_TYPE, "Must be an array of objects with key and weight.")
        return
    if not 2 <= len(variants) <= MOST_VARIANTS:
        message = f"Must have 2 to {MOST_VARIANTS} variants; the first is the control."
        yield Detail("variants", DetailCode.OUT_OF_RANGE, message)
    seen: set[str] = set()
    for index, variant in enumerate(variants[: MOST_VARIANTS + 1]):
        yield from _check_variant(variant, f"variants[{index}]", seen)
    if variants and all(_weight(variant) == 0 for variant in variants):
        yield Detail("variants", DetailCode.OUT_OF_RANGE, "Must have a weight above 0 for at least one variant.")


def _check_variant(variant: Any, field: str, seen: set[str]) -> Iterator[Detail]:
    if not isinstance(variant, Mapping):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be an object with key and weight.")
        return
    for name in variant:
        if name not in _VARIANT_FIELDS:
            yield Detail(f"{field}.{str(name)[:50]}", DetailCode.UNKNOWN_FIELD, "Unknown field; use key, weight.")
    for name in _VARIANT_FIELDS:
        if name not in variant:
            yield Detail(f"{field}.{name}", DetailCode.REQUIRED, "Is missing; add it.")
    if "key" in variant:
        yield from _check_variant_key(variant["key"], f"{field}.key", seen)
    if "weight" in variant:
        yield from _check_weight(variant["weight"], f"{field}.weight")


def _check_variant_key(key: Any, field: str, seen: set[str]) -> Iterator[Detail]:
    if not isinstance(key, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string.")
        return
    yield from check_key(key, field)
    if key in seen:
        yield Detail(field, DetailCode.DUPLICATE, "Must differ from the keys of the other variants.")
    seen.add(key)


def _check_weight(weight: Any, field: str) -> Iterator[Detail]:
    if isinstance(weight, bool) or not isinstance(weight, (int, float)):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a number.")
    elif not math.isfinite(weight) or weight < 0:
        yield Detail(field, DetailCode.OUT_OF_RANGE, "Must be 0 or more.")


def check_weights_of_flag(variants: Any) -> Iterator[Detail]:
    """Yield the weights that are too large for the rule which an experiment writes into its flag.

    `check_variants` reports everything else that is wrong with weights.
    """
    for index, variant in enumerate(variants[:MOST_VARIANTS] if isinstance(variants, list) else ()):
        weight = _weight(variant)
        if isinstance(weight, (int, float)) and MOST_WEIGHT < weight < math.inf:
            message = f"Must be from 0 to {MOST_WEIGHT:,} in an experiment that drives a flag."
            yield Detail(f"variants[{index}].weight", DetailCode.OUT_OF_RANGE, message)


def _weight(variant: Any) -> Any:
    return variant.get("weight") if isinstance(variant, Mapping) else None


def check_metrics(metrics: Any) -> Iterator[Detail]:
    """Yield what is wrong with metrics: they must be names, and each may appear only once."""
    if not isinstance(metrics, list):
        yield Detail("metrics", DetailCode.INVALID_TYPE, "Must be an array of strings.")
        return
    if len(metrics) > MOST_METRICS:
        yield Detail("metrics", DetailCode.OUT_OF_RANGE, f"Must have at most {MOST_METRICS} names.")
    seen: set[str] = set()
    for index, name in enumerate(metrics[: MOST_METRICS + 1]):
        field = f"metrics[{index}]"
        if not isinstance(name, str):
            yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string.")
            continue
        if not name:
            yield Detail(field, DetailCode.OUT_OF_RANGE, "Must not be empty.")
        if len(name) > NAME_LENGTH:
            yield Detail(field, DetailCode.TOO_LONG, f"Must be at most {NAME_LENGTH} characters.")
        if name in seen:
            yield Detail(field, DetailCode.DUPLICATE, "Must appear only once.")
        seen.add(name)
