"""Compare two configurations for the users of a sample: how many of them would see something else. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from flags.engine.evaluation import evaluate_prerequisite, resolve
from flags.engine.types import Configuration, Context, Evaluation, Prerequisite
from flags.usage.attributes import names_read
from flags.usage.sample import Sample, User

MAX_EXAMPLES = 10

Assigned = Mapping[str, Mapping[str, str]]
"""The stored variants of users, by user id and by the key of the experiment."""


@dataclass(frozen=True, slots=True)
class Example:
    """A user who would see something else in a flag, before and after the change.

    None stands for a flag that does not exist.
    """

    user_id: str
    flag: str
    before: Evaluation | None
    after: Evaluation | None


@dataclass(frozen=True, slots=True)
class Preview:
    """How many users of a sample would see something else.

    `users` is the number of users in the sample, seen since `since`. Of these, `changed` would see
    something else, and `outsiders` of them were in no experiment, and are no testers. For `lost` of
    them, a flag that is on would be off. `all_users` is the estimated number of users of that time.
    `examples` are those at the lowest positions. `unknown_attributes` are names that the new rules of
    the flags read, and that no user of the sample has.
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
        """The share of users who would see something else, from 0 to 1."""
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
    """Return how many users of the sample see something else in any of the flags after the change.

    A user sees the variant, its value, and whether the flag is on. All configurations are evaluated
    at the same time. `members` says who is in an experiment; by default, that is `before`.
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
    read = names_read((after.flags[key] for key in flags if key in after.flags), after.segments)
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
    """Return how many users of the sample each rule of a flag decides, in the order of the rules."""
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
    """Return for each of these flags for how many users of the sample it is on."""
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
