"""Compare two configurations for a sample of users: how many of them would see something else. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from flags.engine.evaluation import evaluate_prerequisite, resolve
from flags.engine.types import Configuration, Context, Evaluation, Prerequisite
from flags.usage.attributes import attributes_read
from flags.usage.sample import Sample, User

MAX_EXAMPLES = 10

Assigned = Mapping[str, Mapping[str, str]]
"""Stored variants by user id and experiment key."""


@dataclass(frozen=True, slots=True)
class Example:
    """A user who would see something else in a flag. None stands for a flag that does not exist."""

    user_id: str
    flag: str
    before: Evaluation | None
    after: Evaluation | None


@dataclass(frozen=True, slots=True)
class Preview:
    """How many users of a sample would see something else.

    `users`: the size of the sample, seen since `since`.
    `changed`: users who would see something else.
    `lost`: changed users for whom a flag goes off.
    `outsiders`: changed users who are in no experiment and no testers.
    `all_users`: the estimated number of all users since `since`.
    `examples`: changed users at the lowest positions.
    `unknown_attributes`: names that the new rules read and no user of the sample has.
    """

    users: int
    changed: int
    lost: int
    outsiders: int
    all_users: int
    since: datetime
    examples: Sequence[Example]
    unknown_attributes: Sequence[str]

    @property
    def share(self) -> float:
        """The share of changed users, from 0 to 1."""
        return self.changed / self.users


def compare(
    sample: Sample,
    *,
    before: Configuration,
    after: Configuration,
    flags: Collection[str],
    now: datetime,
    assigned: Assigned | None = None,
    members: Configuration | None = None,
    testers: Collection[str] = (),
) -> Preview:
    """Return how many users of the sample would see something else in any of the flags.

    A user sees the variant, its value, and whether the flag is on. `members` is the configuration that decides who is
    in an experiment, by default `before`.
    """
    examples: list[Example] = []
    changed = lost = outsiders = 0
    for user in sample.users:
        variants = (assigned or {}).get(user.user_id, {})
        contexts = [Context(*user, configuration, now, assigned=variants) for configuration in (before, after)]
        changes = list(_changes(user, flags, *contexts))
        if changes:
            example = changes[0]
            changed += 1
            lost += any(map(_is_loss, changes))
            own = contexts[0] if members is None else Context(*user, members, now, assigned=variants)
            outsiders += user.user_id not in testers and _is_outside(_evaluate(example.flag, own))
            if len(examples) < MAX_EXAMPLES:
                examples.append(example)
    read = attributes_read((after.flags[key] for key in flags if key in after.flags), after.segments)
    unknown = read.difference(*(user.attributes for user in sample.users))
    return Preview(
        users=len(sample.users),
        changed=changed,
        lost=lost,
        outsiders=outsiders,
        all_users=sample.all_users,
        since=sample.since,
        examples=examples,
        unknown_attributes=sorted(unknown),
    )


def count_by_rule(
    sample: Sample, configuration: Configuration, key: str, *, now: datetime, assigned: Assigned | None = None
) -> list[int]:
    """Return the number of users whom each rule of a flag decides."""
    flag = configuration.flags[key]
    counts = [0] * len(flag.rules)
    for user in sample.users:
        variants = (assigned or {}).get(user.user_id, {})
        _, rule = resolve(flag, Context(*user, configuration, now, assigned=variants))
        if rule is not None:
            counts[rule.index] += 1
    return counts


def count_on(
    sample: Sample,
    configuration: Configuration,
    keys: Sequence[str],
    *,
    now: datetime,
    assigned: Assigned | None = None,
) -> list[int]:
    """Return for each flag the number of users for whom it is on."""
    counts = [0] * len(keys)
    for user in sample.users:
        context = Context(*user, configuration, now, assigned=(assigned or {}).get(user.user_id, {}))
        for index, key in enumerate(keys):
            evaluation = _evaluate(key, context)
            counts[index] += evaluation is not None and evaluation.enabled
    return counts


def _changes(user: User, flags: Collection[str], before: Context, after: Context) -> Iterator[Example]:
    for key in flags:
        old, new = _evaluate(key, before), _evaluate(key, after)
        if _seen(old) != _seen(new):
            yield Example(user.user_id, key, old, new)


def _is_loss(change: Example) -> bool:
    is_on = change.before is not None and change.before.enabled
    return is_on and (change.after is None or not change.after.enabled)


def _is_outside(evaluation: Evaluation | None) -> bool:
    return evaluation is None or evaluation.participation is None


def _evaluate(key: str, context: Context) -> Evaluation | None:
    return evaluate_prerequisite(Prerequisite(key), context)


def _seen(evaluation: Evaluation | None) -> object:
    return None if evaluation is None else (evaluation.enabled, evaluation.served)
