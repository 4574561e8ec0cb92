"""Rules that tests of parsing share, and their compiled forms."""

from __future__ import annotations

from hypothesis import settings

from flags.engine.types import Rule
from flags.validation.parsing import parse_flag
from tests.flags.validation.refusals import blamed_in

FIXED = settings(derandomize=True, deadline=None, max_examples=300)
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}


def parse_rules(value: object) -> tuple[Rule, ...]:
    return parse_flag({"key": "new-checkout", "enabled": True, "rules": value}).rules


def blamed(value: object) -> list[tuple[str, str]]:
    return blamed_in({"rules": value})


def attribute_rule(*conditions: object) -> list[object]:
    return [{"type": "attribute", "conditions": list(conditions)}]
