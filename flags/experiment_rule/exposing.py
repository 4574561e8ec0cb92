"""Users of flags that experiments drive: the variants that they have, and that they were shown one.

Who keeps both says how to get at it, once, at the start: flags do not know what experiments are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from config.models import Environment
from flags.engine.types import Context, Participation


class Stored(Protocol):
    """Returns the variants that a user has in experiments of these keys, by key: those that were shown before.

    With `until`, those that the user had at that moment of the past.
    """

    def __call__(
        self, environment: Environment, experiments: Collection[str], user_id: str, until: datetime | None = None
    ) -> Mapping[str, str]: ...


class Record(Protocol):
    """Records, durably, that the user of a context is shown a variant, and returns the one that counts: the first."""

    def __call__(self, environment: Environment, experiment: str, variant: str, context: Context) -> str: ...


@dataclass(slots=True)
class _Keeper:
    stored: Stored | None = None
    record: Record | None = None


_keeper = _Keeper()


def register(*, stored: Stored | None, record: Record | None) -> None:
    """Have these asked and told from now on."""
    _keeper.stored, _keeper.record = stored, record


def recall(
    environment: Environment,
    context: Context,
    flags: Collection[str] | None = None,
    *,
    until: datetime | None = None,
) -> None:
    """Let the context know which variants the user has, as far as they decide what these flags are, or any flag.

    A context of the past is told what the user had `until` then: what was shown later decided nothing.
    To be asked only where `context.configuration.experiments` has any: it may read the database.
    """
    known = context.configuration.experiments
    found = known.values() if flags is None else (known[key] for key in flags if key in known)
    experiments = frozenset[str]().union(*found)
    if experiments and context.user_id and _keeper.stored is not None:
        context.assigned = _keeper.stored(environment, experiments, context.user_id, until)


def record(environment: Environment, context: Context, participation: Participation) -> bool:
    """Record that the user is in an experiment, and return whether with this variant.

    Where another one was stored meanwhile the context knows it from now on, and evaluates to what that one stands for.
    """
    if _keeper.record is None:
        return True
    experiment, variant = participation.experiment, participation.variant
    counts = _keeper.record(environment, experiment, variant, context)
    if counts != variant:
        context.assigned = {**context.assigned, experiment: counts}
    return counts == variant
