"""Answers are valid by the published specification of OFREP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.answers import data
from tests.factories import FlagFactory
from tests.flags.ofrep.calls import bulk, one
from tests.flags.ofrep.specification import check

PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "string": ["", "text"],
    "number": [1, 0.5],
    "object": [{"a": [1, None]}, {}],
}


@pytest.fixture
def flags(api: Any) -> list[str]:
    """Flags of every type, for every reason, and two that need a targeting key."""
    FlagFactory(key="off")
    created: list[dict[str, Any]] = [
        {"key": "default"},
        {"key": "none", "rules": [{"type": "attribute", "conditions": [PRO]}]},
        {"key": "match", "rules": [{"type": "attribute", "conditions": [{**PRO, "negate": True}], "name": "Others"}]},
        {"key": "failed", "prerequisites": [{"flag": "off"}]},
        {"key": "half", "rules": [{"type": "percentage", "percentage": 50}]},
        {"key": "child", "prerequisites": [{"flag": "half"}]},
    ]
    for value_type, values in VALUES.items():
        variants = [{"key": f"v{at}", "value": value} for at, value in enumerate(values)]
        created.append({"key": value_type, "type": value_type, "variants": variants})
    for flag in created:
        data(api.post("/v1/flags", {"enabled": True, **flag}), 201)
    return ["off", *(flag["key"] for flag in created)]


def test_answers__to_good_requests__are_as_specified(subtests, api, flags):
    statuses = set()
    for context in [{"targetingKey": "u", "plan": "free"}, {"plan": "free"}, {}]:
        with subtests.test(context=context):
            for key in (*flags, "no-such-flag"):
                response = one(api, key, context)
                check(response, of_a_flag=True)
                statuses.add(response.status_code)
            assert statuses == ({200, 404} if "targetingKey" in context else {200, 400, 404})
            response = bulk(api, context)
            check(response, of_a_flag=False)
            assert len(response.json()["flags"]) == len(flags)
            check(bulk(api, context, HTTP_IF_NONE_MATCH=response["ETag"]), of_a_flag=False)


def test_answers__to_bad_requests__are_as_specified(subtests, api, flags):
    for context in [None, 1, {"targetingKey": 1}, {"targetingKey": "u" * 201}]:
        with subtests.test(context=context):
            check(one(api, "default", context), of_a_flag=True)
            check(bulk(api, context), of_a_flag=False)


def test_answer__to_clients_of_python_and_javascript__has_all_that_they_read(subtests, api, flags):
    """They fail without `variant`, an OpenFeature `reason`, or the `value` of a flag that is off."""
    for key in ["default", "match", "failed", "off", "string"]:
        with subtests.test(key=key):
            answer = one(api, key).json()
            assert isinstance(answer["variant"], str)
            assert answer["reason"] in ("STATIC", "TARGETING_MATCH", "SPLIT", "DISABLED", "UNKNOWN")
            assert answer["value"] is not None
            assert all(isinstance(value, str | int) for value in answer["metadata"].values())
