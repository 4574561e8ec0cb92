"""The results of an experiment as CSV: a row for each metric and variant, then the rows of the breakdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

import orjson

from config.csv_cells import escape
from config.documents import Document

_OF_RESULTS = ("experiment", "status", "asOf", "frozenAt", "correction", "maturity")
_OF_METRIC = ("version", "type", "role", "isPrimary", "isPostHoc")
_OF_VARIANT = (
    *("users", "matureUsers", "waiting.users", "waiting.halfMatureAt", "cutOffUsers"),
    *("events", "otherCurrencyEvents", "eventsWithoutNumber", "value", "interval.lower", "interval.upper"),
)
_OF_BASIS = ("basis.phases", "basis.users", "basis.control.users", "basis.control.value")
_OF_TEST = ("lower", "upper", "pValue")
_OF_COMPARISON = ("label", "decidedBy", "unadjustedPValue", "familySize")
_OF_READING = ("asOf", "users", "isShown", "isContradicted")
_OF_GUARDRAIL = ("status", "margin.relative", "margin.absolute", "usersNeeded")


def _of_test(path: str) -> list[str]:
    return [f"{path}.{figure}" for figure in _OF_TEST]


def _of_estimate(path: str) -> list[str]:
    tests = [*_of_test(f"{path}.alwaysValid"), f"{path}.alwaysValid.level", *_of_test(f"{path}.fixedHorizon")]
    return [f"{path}.estimate", f"{path}.standardError", f"{path}.today", *tests]


COLUMNS = (
    *_OF_RESULTS,
    "attribute",
    "attributeValue",
    "metric",
    *_OF_METRIC,
    "variant",
    "isControl",
    *_OF_VARIANT,
    *_OF_BASIS,
    *_of_estimate("difference"),
    *_of_estimate("lift"),
    *_OF_COMPARISON,
    *(f"plannedReading.{name}" for name in _OF_READING),
    *(f"guardrail.{name}" for name in _OF_GUARDRAIL),
    *("cuped.theta", "cuped.varianceReduction", "cuped.lookbackDays"),
    *("raw.value", "raw.interval.lower", "raw.interval.upper"),
    *("raw.difference.estimate", *_of_test("raw.difference.alwaysValid")),
    *("raw.lift.estimate", *_of_test("raw.lift.alwaysValid")),
    *("beforeExposure.estimate", *_of_test("beforeExposure.alwaysValid")),
    *("singleLook.chanceToBeatControl", "singleLook.expectedLoss"),
    *(*_of_test("singleLook.difference"), *_of_test("singleLook.lift")),
)
"""The names are paths in the JSON answer. A field is empty if the JSON has null or no such property."""


def results_csv(results: Document) -> bytes:
    """Return the table, with its header, of the JSON that `ResultsOfExperiment` gives."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    writer.writerows({name: escape(value) for name, value in row.items()} for row in _rows(results))
    return text.getvalue().encode()


def _rows(results: Document) -> Iterator[Document]:
    shared = {name: results[name] for name in _OF_RESULTS}
    definitions = {metric["key"]: metric for metric in results["metrics"]}
    yield from _of_metrics(results, shared, results["metrics"], definitions)
    if "breakdown" in results:
        attribute = {**shared, "attribute": results["breakdown"]["attribute"]}
        for slice_ in results["breakdown"]["values"]:
            value = "(rest)" if slice_["isRest"] else orjson.dumps(slice_["value"]).decode()
            yield from _of_metrics(results, {**attribute, "attributeValue": value}, slice_["metrics"], definitions)


def _of_metrics(
    results: Document, shared: Document, metrics: Iterable[Document], definitions: Document
) -> Iterator[Document]:
    for metric in metrics:
        key = metric["key"]
        of_metric = {name: definitions[key][name] for name in _OF_METRIC}
        for variant in metric["variants"]:
            is_control = variant["key"] == results["control"]
            row = {**shared, **of_metric, "metric": key, "variant": variant["key"], "isControl": is_control}
            yield {name: _written(value) for name, value in (row | _figures(variant)).items()}


def _figures(variant: Document) -> Document:
    """Return the figures of a variant by the names of their columns."""
    flat = dict(_flattened({**variant, **(variant["comparison"] or {})}))
    return {name: value for name, value in flat.items() if name in COLUMNS}


def _flattened(as_json: Document, path: str = "") -> Iterator[tuple[str, object]]:
    for name, value in as_json.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{path}{name}.")
        else:
            yield path + name, value


def _written(value: object) -> object:
    """Return the value as JSON, but a text as it is."""
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()
