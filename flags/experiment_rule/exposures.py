"""Variants that users of driven flags already have, and the record that a user was shown one.

`flags` does not know experiments: `experiments` registers the two functions that read and store.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from config.models import Environment
from flags.engine.types import Context, Participation


class Load(Protocol):
    """Return the variants that a user has seen in experiments with these keys, by key.

    With `until`, return those that the user had seen by that time.
    """

    def __call__(
        self, environment: Environment, experiments: Collection[str], user_id: str, until: datetime | None = None
    ) -> Mapping[str, str]: ...


class Record(Protocol):
    """Store durably that a user is shown a variant, and return the variant that counts: the first one stored."""

    def __call__(self, environment: Environment, experiment: str, variant: str, context: Context) -> str: ...


@dataclass(slots=True)
class _Handlers:
    load: Load | None = None
    record: Record | None = None


_handlers = _Handlers()


def register(*, load: Load | None, record: Record | None) -> None:
    """Call these functions from now on. None stands for no function."""
    _handlers.load, _handlers.record = load, record


def load_assignments(
    environment: Environment,
    context: Context,
    flags: Collection[str] | None = None,
    *,
    until: datetime | None = None,
) -> None:
    """Load the user's variants into the context, for the experiments that decide these flags, or any flag.

    For an evaluation in the past, `until` is its time: variants shown later decided nothing then.
    Call this only if `context.configuration.experiments` is not empty, since it may read the
    database.
    """
    by_flag = context.configuration.experiments
    keys = by_flag.values() if flags is None else (by_flag[flag] for flag in flags if flag in by_flag)
    experiments = frozenset[str]().union(*keys)
    if experiments and context.user_id and _handlers.load is not None:
        context.assigned = _handlers.load(environment, experiments, context.user_id, until)


def record_exposure(environment: Environment, context: Context, participation: Participation) -> bool:
    """Record that the user is in an experiment, and return whether the variant is the one that counts.

    If another variant was stored meanwhile, the context has it from now on. The caller then
    evaluates again.
    """
    if _handlers.record is None:
        return True
    experiment, variant = participation.experiment, participation.variant
    counted = _handlers.record(environment, experiment, variant, context)
    if counted != variant:
        context.assigned = {**context.assigned, experiment: counted}
    return counted == variant
