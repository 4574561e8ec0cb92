"""How the values of flags and segments read in their histories, where JSON would say less. Pure."""

from __future__ import annotations

import re
from typing import Any

from flags.summary import summarise, summarise_condition

_rule = re.compile(r"(states\.[^.\[]+\.)?rules\[\d+\]")
_condition = re.compile(r"(.*\.)?conditions\[\d+\]")


def rules_in_words(path: str, value: Any) -> str | None:
    """Say a switch, a rule or a condition in words; None for what reads well as JSON."""
    if path.endswith("enabled") and isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list) and path.endswith("rules"):
        return summarise(value)
    if isinstance(value, dict) and _rule.fullmatch(path):
        return summarise([value])
    if isinstance(value, list) and path == "conditions":
        return " and ".join(map(summarise_condition, value)) or "none"
    if isinstance(value, dict) and _condition.fullmatch(path):
        return summarise_condition(value)
    return None
