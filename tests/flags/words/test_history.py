"""What of flags and segments reads better in words than as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from flags.words.rules import describe_flag_value

RULE = {"type": "percentage", "percentage": 5}
CONDITION = {"attribute": "plan", "operator": "equals", "value": "pro"}


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("states.production.enabled", True, "on"),
        ("enabled", False, "off"),
        ("states.production.rules[0]", RULE, "5 % of everyone"),
        ("rules[12]", RULE, "5 % of everyone"),
        ("states.production.rules", [], "everyone"),
        ("states.production.rules[0].conditions[1]", CONDITION, "plan equals pro"),
        ("conditions[0]", CONDITION, "plan equals pro"),
        ("rules[0].conditions[0].operator", "notEquals", "does not equal"),
        ("rules[0].conditions[0].operator", "unknown", None),
        ("conditions", [CONDITION, CONDITION], "plan equals pro and plan equals pro"),
        ("conditions", [], "none"),
        ("rules[0].percentage", 5, None),
        ("variants[0].value", {"rules": []}, None),
        ("variants[0].value.rules[0]", RULE, None),
        ("variants[0].value.conditions[0]", {"any": "thing"}, None),
        ("variants[0].value.rules", ["any"], None),
    ],
)
def test_value__in_words(path: str, value: Any, expected: str | None) -> None:
    assert describe_flag_value(path, value) == expected
