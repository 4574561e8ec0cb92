"""The dashboard for Grafana asks only for metrics and labels that exist, and for all that operators watch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from config.monitoring.exposition import described
from tests.system.server import ROOT

DASHBOARD: dict[str, Any] = json.loads((ROOT / "config/deploy/grafana-dashboard.json").read_text())
_NAME = re.compile(r"\b((?:halyard|process)_\w+)\s*(?:\{([^}]*)\})?")
_SUFFIXES = ("_bucket", "_count", "_sum")
_OF_PROMETHEUS = {"instance", "le"}


def queries() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def metric_of(name: str) -> str:
    """Return the metric of a series."""
    for suffix in _SUFFIXES:
        if name not in described() and name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def test_queries__metrics_and_labels__exist() -> None:
    named = [match for query in queries() for match in _NAME.finditer(query)]
    assert len(named) > 20
    for match in named:
        _, _, labels = described()[metric_of(match[1])]
        selected = set(re.findall(r"(\w+)\s*[=!]", match[2] or ""))
        assert selected <= {*labels, *_OF_PROMETHEUS}, match[0]


def test_queries__grouped_labels__are_those_of_their_metric() -> None:
    for query in queries():
        labels = {label for match in _NAME.finditer(query) for label in described()[metric_of(match[1])][2]}
        grouped = {label for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(", ")}
        assert grouped <= {*labels, *_OF_PROMETHEUS}, query


def test_queries__own_metrics__are_all_on_the_dashboard() -> None:
    asked = {metric_of(match[1]) for query in queries() for match in _NAME.finditer(query)}
    assert {name for name in described() if name.startswith("halyard_")} <= asked


def test_legends__labels__are_kept_by_their_query() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            grouped = re.findall(r"by \(([^)]*)\)", target["expr"])
            kept = {label for group in grouped for label in group.split(", ")} if grouped else {"instance", "process"}
            assert shown <= kept, target["expr"]


def test_panels__ids_and_places__do_not_collide() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
