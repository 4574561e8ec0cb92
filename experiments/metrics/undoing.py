"""Undo a write of a metric: what it changed goes back, if nobody has changed it since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from config.change_log.undoing import changed_since, created_at, require_as_written, require_unused, values_put_back
from config.change_log.writing import Writing
from config.documents import Document
from config.models import Change
from experiments.metrics import changes as metric_changes
from experiments.metrics.documents import COLUMNS
from experiments.models import Metric


def undo(log: Writing, changes: Sequence[Change]) -> None:
    """Put back metrics.

    If an experiment has started with a definition that goes back, it keeps its version, and the old definition
    becomes a new version.
    """
    for change in changes:
        metric = Metric.objects.filter(key=change.key).first()
        if change.after is None:
            require_unused("metric", change.key, metric is not None)
            origin = {"id": change.object_id, "created_at": created_at(change)}
            metric_changes.insert(log, change.key, _values(change.before), **origin)
            continue
        if metric is None or change.object_id != str(metric.pk):
            raise changed_since("metric", [change.key])
        now = metric_changes.document(metric)
        if change.before is None:
            require_as_written("metric", change, now)
            metric_changes.remove(log, metric)
            continue
        values = values_put_back("metric", change, now, _values)
        metric_changes.change(log, metric, values)


def _values(document: Document | None) -> dict[str, Any]:
    """Return the columns of a document. One that leaves a property out has the value of a new metric."""
    names = {"description": "description", **COLUMNS}
    found = document or {}
    return {column: found.get(name, metric_changes.NEW[column]) for name, column in names.items()}
