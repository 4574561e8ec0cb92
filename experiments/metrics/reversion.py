"""Undo of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from config.change_log.reversion import Reversible, Target, created_at
from config.change_log.writing import Writing
from config.documents import Document
from config.models import Change
from experiments.metrics import changes as metric_changes
from experiments.metrics.documents import COLUMNS
from experiments.models import Metric


class Metrics(Reversible):
    """If an experiment has started with a definition that goes back, it keeps its version, and the old definition
    becomes a new version.
    """

    noun = "metric"
    derived = ("version",)

    def current(self, changes: Sequence[Change]) -> Sequence[Document | None]:
        found = {metric.key: metric for metric in Metric.objects.filter(key__in=[change.key for change in changes])}
        return [metric_changes.document(found[change.key]) if change.key in found else None for change in changes]

    def write(self, log: Writing, targets: Sequence[Target]) -> None:
        for target in targets:
            values = _values(target.document)
            if target.is_new:
                origin = {"id": target.change.object_id, "created_at": created_at(target.change)}
                metric_changes.insert(log, target.change.key, values, **origin)
            else:
                metric_changes.change(log, Metric.objects.get(key=target.change.key), values)

    def delete(self, log: Writing, changes: Sequence[Change]) -> None:
        for change in changes:
            metric_changes.remove(log, Metric.objects.get(key=change.key))


def _values(document: Document) -> dict[str, Any]:
    """Return the columns of a document. One that leaves a property out has the value of a new metric."""
    names = {"description": "description", **COLUMNS}
    return {column: document.get(name, metric_changes.NEW[column]) for name, column in names.items()}
