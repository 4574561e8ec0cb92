"""What callers of the API look up in the guide is complete: rules, results, errors, filters, headers."""

from __future__ import annotations

import re

from config.errors import DetailCode, ErrorCode
from experiments.stats.outcomes import Decision
from experiments.stats.types import ReasonCode
from flags.engine.operators import OPERATORS
from flags.engine.types import Reason, RuleType
from flags.usage.staleness import StaleReason
from tests.guide.markdown import read_page, table_rows
from tests.openapi import document, schemas


def test_results__every_property_and_reason__is_in_the_tables() -> None:
    named = set(re.findall(r"`(\w+)`", read_page("results.md")))
    elsewhere = properties_of("MetricDefinition") | properties_of("Condition")
    assert properties_of("ResultsOfExperiment") <= named | elsewhere
    assert {code.value for code in ReasonCode} <= named
    assert {decision.value for decision in Decision} <= named


def properties_of(name: str) -> set[str]:
    """Return the names of all properties of a schema, and of those that it refers to."""
    names, waiting = set(), [schemas()[name]]
    while waiting:
        schema = waiting.pop()
        if isinstance(schema, dict):
            names |= set(schema.get("properties", ()))
            waiting += [*schema.values(), schemas()[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else None]
        elif isinstance(schema, list):
            waiting += schema
    return names


def test_errors__codes__are_in_the_table_with_status_and_meaning() -> None:
    rows = [row for row in table_rows(read_page("errors.md")) if len(row) == 3]
    assert rows == [[str(code.status), f"`{code.value}`", code.meaning] for code in ErrorCode]


def test_errors__codes_of_details__are_in_the_table_with_their_meaning() -> None:
    rows = [row for row in table_rows(read_page("errors.md")) if len(row) == 2 and row[0].startswith("`")]
    assert rows == [[f"`{code.value}`", code.meaning] for code in DetailCode]


def test_evaluation__rules_operators_and_reasons__are_all_in_the_tables() -> None:
    named = {name for row in table_rows(read_page("evaluation.md")) for name in re.findall(r"`(\w+)`", row[0])}
    assert named == {*RuleType, *OPERATORS, *Reason, *common_fields_of_rules()}


def common_fields_of_rules() -> set[str]:
    """Return the fields that a rule of every type that people write may have, apart from its type."""
    names = [reference["$ref"].rpartition("/")[2] for reference in schemas()["Rule"]["anyOf"]]
    # Only experiments write a rule of their type, and its fields are its own.
    rules = [schemas()[name]["properties"].keys() for name in names if name != "ExperimentRule"]
    # A rule of type percentage needs either a percentage or a ramp, so the schema does not list it as common.
    return set.intersection(*map(set, rules)) - {"type"} | {"percentage"}


def test_filters__of_every_list__are_in_the_table() -> None:
    described = {
        path.replace("{flag_key}", "<key>"): {
            parameter["name"] for parameter in operation["get"]["parameters"] if parameter["in"] == "query"
        }
        for path, operation in document()["paths"].items()
        if any(parameter["name"] == "limit" for parameter in operation.get("get", {}).get("parameters", ()))
    }
    rows = [row for row in table_rows(read_page("requests.md")) if row[0].startswith("`/v1")]
    named = {
        row[0].strip("`"): set(re.findall(r"`(\w+)(?:\.<name>)?`", re.sub(r"\(.*?\)", "", row[1]))) for row in rows
    }
    assert {path: names - {"limit", "cursor"} for path, names in described.items()} == named


def test_headers__of_every_operation__are_in_the_table() -> None:
    described = {"Authorization", "X-API-Key", "X-Environment"}
    for methods in document()["paths"].values():
        for operation in methods.values():
            parameters = operation.get("parameters", ())
            described |= {parameter["name"] for parameter in parameters if parameter["in"] == "header"}
            described |= {name for answer in operation["responses"].values() for name in answer.get("headers", ())}
    rows = [row[0] for row in table_rows(read_page("requests.md")) if not row[0].startswith("`/v1")]
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == described


def test_stale_flags__reasons__are_in_the_table_with_their_meaning() -> None:
    rows = list(table_rows(read_page("usage.md")))
    assert rows == [[f"`{reason.value}`", reason.meaning] for reason in StaleReason]
