"""Values of flags and segments that read better in words than as JSON."""

from __future__ import annotations

from datetime import UTC, datetime

from flags.explanations.rule_words import describe_flag_value

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
STEP = {"at": "2026-01-16T09:00:00Z", "percentage": 50}
RULE = {"type": "percentage", "percentage": 5}
CONDITION = {"attribute": "plan", "operator": "equals", "value": "pro"}


def test_value__in_words() -> None:
    for path, value, expected in [
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
        ("rules[0]", {**RULE, "enabled": False}, "5 % of everyone; it is off"),
        ("rules[0]", {**RULE, "startAt": "2026-01-16"}, "5 % of everyone from 16 Jan 2026"),
        ("rules[0]", {**RULE, "endAt": "2026-01-15T11:00:00Z"}, "5 % of everyone, ended 15 Jan 2026, 11:00 UTC"),
        ("rules[0]", {**RULE, "ramp": [STEP]}, "5 %, 50 % from 16 Jan 2026, 09:00 UTC"),
        ("rules[0].percentage", 5, "5 %"),
        ("states.production.rules[0].startAt", "2026-01-16", "16 Jan 2026, 00:00 UTC"),
        ("rules[0].endAt", "2026-01-16T09:00:30+01:00", "16 Jan 2026, 08:00:30 UTC"),
        (
            "rules[0].ramp",
            [STEP, {**STEP, "at": "2026-01-17"}],
            "50 % from 16 Jan 2026, 09:00 UTC, 50 % from 17 Jan 2026",
        ),
        ("rules[0].ramp[0]", STEP, "50 % from 16 Jan 2026, 09:00 UTC"),
        ("rules[0].ramp[0].at", "2026-01-16", "16 Jan 2026, 00:00 UTC"),
        ("rules[0].ramp[0].percentage", 12.5, "12.5 %"),
        ("states.a.b.rules[0].enabled", False, "off"),
        ("variants[0].value.startAt", "2026-01-16", None),
        ("variants[0].value", {"rules": []}, None),
        ("variants[0].value.rules[0]", RULE, None),
        ("variants[0].value.conditions[0]", {"any": "thing"}, None),
        ("variants[0].value.rules", ["any"], None),
    ]:
        assert describe_flag_value(path, value, NOW) == expected, (path, value)
