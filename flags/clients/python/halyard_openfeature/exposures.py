"""Report exposures: which user saw which variant of an experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from openfeature.flag_evaluation import FlagEvaluationDetails, FlagValueType
from openfeature.hook import Hook, HookContext, HookHints

from .events import EventQueue

EVENT = "experiment_exposure"
last_user: ContextVar[tuple[str, Mapping[str, Any]]] = ContextVar("last_user", default=("", {}))
"""The user of the last evaluation, because the SDK does not pass on what other hooks changed."""
_MAX_SEEN = 100_000
_MAX_ATTRIBUTES, _MAX_NAME_LENGTH, _MAX_VALUE_LENGTH = 32, 100, 200
_RESERVED = frozenset({"revenue", "currency", "experimentId", "variant"})


class ExposureHook(Hook):
    """Reports an exposure once for each user, experiment and variant in this process.

    The metadata of an evaluation say whether an experiment decided it. `knows` returns whether an experiment exists.
    """

    def __init__(self, queue: EventQueue, event: str = EVENT, knows: Callable[[str], bool] = lambda _: True) -> None:
        self._queue, self._event, self._knows = queue, event, knows
        self._seen: set[tuple[str, str, str]] = set()

    def after(self, hook_context: HookContext, details: FlagEvaluationDetails[FlagValueType], hints: HookHints) -> None:
        metadata = details.flag_metadata
        if not metadata.get("inExperiment"):
            return
        user_id, attributes = last_user.get()
        experiment, variant = metadata.get("experiment"), metadata.get("experimentVariant")
        if not user_id or not isinstance(experiment, str) or not isinstance(variant, str):
            return
        seen = (user_id, experiment, variant)
        if seen in self._seen:
            return
        if not self._knows(experiment):
            self._queue.warn(
                f"unknown {experiment}", f"No experiment has the key {experiment!r}: exposures are dropped."
            )
            return
        if len(self._seen) >= _MAX_SEEN:
            self._seen.clear()  # a second report is harmless: the service counts the earliest exposure
        properties = {**_stored(attributes), "experimentId": experiment, "variant": variant}
        if self._queue.add(self._event, user_id, properties):
            self._seen.add(seen)


def _stored(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the user's attributes to store: the first that are texts, numbers or booleans."""
    kept = [(name, value) for name, value in attributes.items() if _is_name(name) and _is_kept(value)]
    return dict(kept[:_MAX_ATTRIBUTES])


def _is_name(name: str) -> bool:
    return 0 < len(name) <= _MAX_NAME_LENGTH and name not in _RESERVED and _is_kept(name)


def _is_kept(value: object) -> bool:
    """Return whether the service accepts this value. A single invalid text would reject the whole event."""
    if not isinstance(value, str):
        return isinstance(value, int | float) and abs(value) < 2**63
    return len(value) <= _MAX_VALUE_LENGTH and "\0" not in value and _is_utf8(value)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
