"""How the values of flags and segments read in their histories, where JSON would say less. Pure."""

from __future__ import annotations

import re
from typing import Any

from flags.summary import summarise, summarise_condition

# Values of variants may be of any shape, so a path is looked at from its beginning.
_state = r"(states\..+\.)?"
_switch = re.compile(rf"{_state}(rules\[\d+\]\.)?enabled")
_rules = re.compile(rf"{_state}rules")
_rule = re.compile(rf"{_state}rules\[\d+\]")
_conditions = re.compile(rf"({_state}rules\[\d+\]\.)?conditions")
_condition = re.compile(rf"({_state}rules\[\d+\]\.)?conditions\[\d+\]")


def rules_in_words(path: str, value: Any) -> str | None:
    """Say a switch, rules or conditions in words; None for what reads well as JSON."""
    if _switch.fullmatch(path):
        return "on" if value else "off"
    if _rules.fullmatch(path):
        return summarise(value)
    if _rule.fullmatch(path):
        return summarise([value])
    if _conditions.fullmatch(path):
        return " and ".join(map(summarise_condition, value)) or "none"
    return summarise_condition(value) if _condition.fullmatch(path) else None
