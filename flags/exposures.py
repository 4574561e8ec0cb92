"""Stored variants of users in experiments, and the record of exposures.

`flags` does not know experiments, so `experiments` registers the functions that load and record.
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


class LoadVariants(Protocol):
    """Return the user's stored variants in these experiments, by experiment key.

    With `until`, return those that were stored by that time.
    """

    def __call__(
        self, environment: Environment, experiments: Collection[str], user_id: str, until: datetime | None = None
    ) -> Mapping[str, str]: ...


class RecordExposure(Protocol):
    """Store the exposure durably, and return the variant that counts, which is the first one stored.

    Return None if the experiment takes no more users.
    """

    def __call__(self, environment: Environment, experiment: str, variant: str, context: Context) -> str | None: ...


@dataclass(slots=True)
class _Handlers:
    load: LoadVariants | None = None
    record: RecordExposure | None = None


_handlers = _Handlers()


def register(*, load: LoadVariants | None, record: RecordExposure | None) -> None:
    """Use these functions from now on. None stands for no function."""
    _handlers.load, _handlers.record = load, record


def load_assignments(
    environment: Environment,
    context: Context,
    flags: Collection[str] | None = None,
    *,
    until: datetime | None = None,
) -> None:
    """Load the user's stored variants into the context, for the experiments that drive `flags`, or any flag.

    `until` is the time of an evaluation in the past, on which later exposures have no influence. This may read the
    database, so callers first check that `context.configuration.experiments` is not empty.
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
    """Record that the user sees a flag's variant of an experiment, as `answer` says.

    Return the answer, its context, and whether the user is left out of the experiment. If another variant was stored
    meanwhile, or if the experiment ended, `evaluate` computes the answer again. Until this host has learned of the end,
    the answer stays as it is and the user is left out.
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
