"""Variants that users of driven flags already have, and the record that a user was shown one.

`flags` does not know experiments: `experiments` registers the two functions that read and store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from config import snapshot as system
from config.models import Environment
from flags import snapshot
from flags.engine.types import Context


class Load(Protocol):
    """Return the variants that a user has seen in experiments with these keys, by key.

    With `until`, return those that the user had seen by that time.
    """

    def __call__(
        self, environment: Environment, experiments: Collection[str], user_id: str, until: datetime | None = None
    ) -> Mapping[str, str]: ...


class Record(Protocol):
    """Store durably that a user is shown a variant, and return the variant that counts: the first one stored.

    Return None if nothing was stored, because the experiment takes in nobody any more.
    """

    def __call__(self, environment: Environment, experiment: str, variant: str, context: Context) -> str | None: ...


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


Answer = TypeVar("Answer")


def record_exposure(
    environment: Environment, context: Context, flag_key: str, answer: Answer, evaluate: Callable[[Context], Answer]
) -> tuple[Answer, Context, bool]:
    """Record that a flag has shown its variant of an experiment to the user, to whom `answer` says so.

    Return the answer, the context that it comes from, and whether the user is left out after all. `evaluate` answers
    again, and leaves the evaluation of the flag in its context. It is called if another variant was stored meanwhile,
    and if the experiment has ended. As long as this host does not know of the end, the answer stays, and the user is
    left out.
    """
    participation = context.evaluations[flag_key].participation
    if participation is None or _handlers.record is None:
        return answer, context, False
    experiment, variant = participation.experiment, participation.variant
    counted = _handlers.record(environment, experiment, variant, context)
    if counted == variant:
        return answer, context, False
    if counted is not None:
        context.assigned = {**context.assigned, experiment: counted}
        return evaluate(context), context, False
    system.refresh()
    configuration = snapshot.configuration(environment.key)
    if configuration is context.configuration:
        return answer, context, True
    newer = Context(context.user_id, context.attributes, configuration, context.now)
    if configuration.experiments:
        load_assignments(environment, newer, [flag_key])
    return record_exposure(environment, newer, flag_key, evaluate(newer), evaluate)
