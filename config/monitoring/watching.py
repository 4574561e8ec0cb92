"""What watches the answers of this process: the access log and traces. Without them, an answer costs nothing more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Answered(NamedTuple):
    """An answer that is about to be sent. `operation` is its name in metrics."""

    environ: dict[str, Any]
    operation: str
    status: int
    headers: list[tuple[str, str]]
    size: int | None
    """The bytes of the body, or None for a stream."""
    seconds: float

    @property
    def request_id(self) -> str:
        return next((value for name, value in self.headers if name.lower() == "x-request-id"), "")


Watch = Callable[[Answered], None]

watchers: list[Watch] = []


def notify_watchers(answered: Answered) -> None:
    for watch in watchers:
        watch(answered)
