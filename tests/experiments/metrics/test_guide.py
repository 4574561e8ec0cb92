"""The guide's page about metrics: each of its examples is a metric that can be created."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.conf import settings

from config.slugs import check_key
from experiments.api.metric_serializers import MetricSerializer
from experiments.metrics.checks import TYPES, check_meaning
from experiments.metrics.conditions import OPERATORS
from experiments.metrics.definition import LEFT_OUT_WHILE_EMPTY, Definition
from tests.experiments.metrics.test_definition import BLANK

_PAGE = settings.BASE_DIR / "templates" / "guide" / "metrics.md"
MEANING = {*BLANK, *LEFT_OUT_WHILE_EMPTY}
EXAMPLES: list[dict[str, Any]] = [
    json.loads(block) for block in re.findall(r"```json\n(.*?)```", _PAGE.read_text(), re.DOTALL)
]


def test_example__of_the_guide__is_accepted(subtests: pytest.Subtests) -> None:
    for example in EXAMPLES:
        with subtests.test(example=example):
            serializer = MetricSerializer(data=example, context={"environment": None})
            assert serializer.is_valid(), serializer.errors

            meaning = {name: value for name, value in example.items() if name in MEANING}
            assert check_key(example["key"]) == []
            assert [*check_meaning({**BLANK, "event": "", **meaning})] == []


def test_example__of_the_guide__is_parsed_as_it_is_written(subtests: pytest.Subtests) -> None:
    for example in EXAMPLES:
        with subtests.test(example=example):
            assert example.keys() <= MEANING | {"description"}
            denominator = example.get("denominator")
            whole = denominator and {"property": "", "currency": "", **denominator}
            parsed = Definition.parse({**BLANK, **example, "denominator": whole}).as_json()
            assert {name: parsed[name] for name in example if name not in ("description", "denominator")} == {
                name: value for name, value in example.items() if name not in ("description", "denominator")
            }


def test_examples__of_the_guide__show_every_type() -> None:
    assert {example["type"] for example in EXAMPLES} == {*TYPES}


def test_table__of_the_guide__lists_every_property() -> None:
    [section] = re.findall(r"^## Properties of a metric$(.*?)^## ", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert listed == (MEANING | {"description"}) - {"version"}


def test_table__of_the_guide__lists_every_operator() -> None:
    [section] = re.findall(r"^## Conditions on events$(.*?)^## ", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == [*OPERATORS]
