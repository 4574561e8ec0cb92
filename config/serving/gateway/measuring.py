"""How metrics call the operation of a request, and what they count of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any

from config.monitoring import metrics
from config.monitoring.counting import Batch
from config.serving.gateway.admission import view_of


class Subject:
    """An operation by its id in the OpenAPI document, and whether it evaluates flags."""

    __slots__ = ("_by_status", "_evaluates", "operation")

    def __init__(self, operation: str, *, evaluates: bool = False) -> None:
        self.operation = operation
        self._evaluates = evaluates
        self._by_status: dict[int, Batch] = {}

    def count_answer(self, status: int, seconds: float) -> None:
        """Count an answer that was given so many seconds after its request came."""
        batch = self._by_status.get(status)
        if batch is None:
            batch = self._by_status.setdefault(status, Batch(partial(self._count, status)))
        batch.add(seconds)

    def _count(self, status: int, seconds: Sequence[float]) -> None:
        metrics.requests.add(len(seconds), self.operation, str(status))
        metrics.request_seconds.observe(seconds, self.operation)
        if self._evaluates and status >= HTTPStatus.BAD_REQUEST:
            outcome = "refused" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "failed"
            metrics.evaluations.add(len(seconds), outcome)


PROBE, OTHER = Subject("probe"), Subject("other")
"""Other requests are those for static files and for paths that do not exist."""
_pages = {name: Subject(name) for name in ("admin", "clients", "docs", "guide", "redoc")}


def subject_of(environ: dict[str, Any], view: Any = None) -> Subject:
    """Return the subject of a request, whose view is looked up unless it is given."""
    try:
        view = view or view_of(environ)
    except Exception:  # such as a path that is not UTF-8
        return OTHER
    if getattr(view, "actions", None):
        return subject_of_view(view, environ["REQUEST_METHOD"])
    return OTHER if view is None else _pages.get(environ["PATH_INFO"].split("/", 2)[1], OTHER)


@lru_cache(maxsize=1000)
def subject_of_view(view: Any, method: str) -> Subject:
    """Return the subject of a request with this method for a view set of DRF."""
    action = view.actions.get("get" if method == "HEAD" else method.lower(), "")
    operation = getattr(getattr(view.cls, action, None), "operation_id", None)
    return OTHER if operation is None else Subject(operation, evaluates=action in view.cls.evaluates)
