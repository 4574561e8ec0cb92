"""A second implementation of the published bucketing, written from its description, to compare with the engine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).resolve().parent.parent / "vectors"


def load_vectors(name: str) -> list[dict[str, Any]]:
    document: dict[str, list[dict[str, Any]]] = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    return document[name]


def murmur3_x86_32(data: bytes, seed: int = 0) -> int:
    mask = 0xFFFFFFFF

    def rotate(value: int, by: int) -> int:
        return (value << by | value >> (32 - by)) & mask

    def scramble(word: int) -> int:
        return rotate(word * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask

    result = seed
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        result ^= scramble(int.from_bytes(data[start : start + 4], "little"))
        result = (rotate(result, 13) * 5 + 0xE6546B64) & mask
    result ^= scramble(int.from_bytes(data[whole:], "little"))
    result ^= len(data)
    result = (result ^ result >> 16) * 0x85EBCA6B & mask
    result = (result ^ result >> 13) * 0xC2B2AE35 & mask
    return result ^ result >> 16


def reference_bucket(salt: str, user_id: str) -> int:
    return murmur3_x86_32(salt.encode() + b":" + user_id.encode()) * 100_000 // 2**32


def reference_variant(weights: Iterable[tuple[str, float]], at: int) -> str:
    """Return the variant of a user whose bucket under the split's salt is `at`."""
    exact = [(key, Fraction(Decimal(repr(weight)))) for key, weight in weights]
    total = sum(weight for _, weight in exact)
    reached = Fraction(0)
    for key, weight in exact:
        reached += weight
        if at * total < 100_000 * reached:
            return key
    raise AssertionError("No variant takes the bucket.")
