"""Bodies of requests that may hold anything, by a seed: the same ones in every run."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from tests.config.api.malformed.cases import Operation

MAX_DEPTH = 4
AWKWARD_TEXTS = ("", "\0", "\ud83d", "\ude00", "🙂", "a" * 201, "2026-02-30", "known", "é", "__proto__")
ALPHABETS = ((32, 127), (0, 32), (128, 256), (256, 0xD800), (0xD800, 0xE000), (0xE000, 0x10000), (0x10000, 0x110000))
"""Ranges of characters: printable ones of ASCII, controls, Latin, halves of surrogate pairs, and the others."""
AWKWARD_NUMBERS = (
    0, -1, 2**63, 2**64, -(2**63) - 1, 10**40, -0.0, 0.1, 5e-324, 1e308, -1e308, math.inf, -math.inf, math.nan,
)  # fmt: skip
INNER_NAMES = (
    "type", "percentage", "conditions", "userIds", "key", "weight", "event", "userId", "properties", "id", "attribute",
    "operator", "value", "variant", "split", "ramp", "at", "startAt", "segment", "flag", "variants", "salt", "bucketBy",
)  # fmt: skip
OUTER_NAMES = (
    "id", "key", "type", "variants", "schema", "prerequisites", "tags", "owner", "expiresAt", "offVariant",
    "clientVisible",
)  # fmt: skip


def any_text(chance: Random) -> str:
    if chance.random() < 0.4:
        return chance.choice(AWKWARD_TEXTS)
    first, end = chance.choice(ALPHABETS)
    return "".join(chr(chance.randrange(first, end)) for _ in range(chance.randrange(13)))


def any_number(chance: Random) -> float:
    if chance.random() < 0.5:
        return chance.choice(AWKWARD_NUMBERS)
    return chance.choice([chance.randrange(-9, 200), chance.randrange(-(10**40), 10**40), chance.uniform(-1e3, 1e3)])


def any_json(chance: Random, depth: int = 0) -> Any:
    kind = chance.randrange(4 if depth == MAX_DEPTH else 8)
    if kind == 0:
        return chance.choice([None, True, False])
    if kind == 1:
        return any_number(chance)
    if kind < 4:
        return any_text(chance)
    if kind < 6:
        return [any_json(chance, depth + 1) for _ in range(chance.randrange(5))]
    return {any_text(chance): any_json(chance, depth + 1) for _ in range(chance.randrange(5))}


def any_objects(chance: Random) -> list[dict[str, Any]]:
    """Return objects with fields that rules, conditions, variants and events have."""
    return [
        {chance.choice(INNER_NAMES): any_json(chance, 1) for _ in range(chance.randrange(5))}
        for _ in range(chance.randrange(6))
    ]


def nearly_right(chance: Random, operation: Operation) -> dict[str, Any]:
    """A body that the operation would accept, but for some fields that hold anything, and perhaps a field too many."""
    body = dict(operation.body)
    for name in chance.sample([*dict.fromkeys([*operation.body, *OUTER_NAMES])], chance.randrange(4)):
        body[name] = any_objects(chance) if chance.random() < 0.5 else any_json(chance)
    if chance.random() < 0.5:
        body[any_text(chance)] = any_json(chance)
    return body
