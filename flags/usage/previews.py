"""Preview changes of flags for the recent users of an environment."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from config.documents import Document
from config.errors import ExplainedEnum
from config.models import Environment
from flags.changes.flag_changes import check_new, check_state
from flags.engine.compiling import compile_flag
from flags.engine.types import Configuration
from flags.models import RecentUser, RecentUserSampling
from flags.snapshot import configuration
from flags.usage.comparison import Preview, compare, count_by_rule, count_on
from flags.usage.sample import PERIOD, POSITIONS, Sample, User
from flags.usage.sources import stored_variants

_MIN_USERS = 200
_MAX_PAIRS = 20_000
"""Pairs of user and flag that are evaluated before and after a change, in less than a second."""
_MAX_SECONDS = 1.0


class NoSample(ExplainedEnum):
    """Why there is no sample."""

    OFF = "off", "No recent users are kept, because the setting RECENT_USERS is off."
    EMPTY = "empty", "No recent users are known yet; they are collected as flags are evaluated."


def read_sample(environment: Environment, now: datetime, within: timedelta = PERIOD) -> Sample | NoSample:
    """Return the users of the sample who were seen `within` this time, at most seven days."""
    if not settings.RECENT_USERS:
        return NoSample.OFF
    sampling = RecentUserSampling.objects.filter(environment=environment).first()
    if sampling is None:
        return NoSample.EMPTY
    start, limit = now - within, complete_limit(sampling, now)
    # Includes users seen just before `since`, whom another worker stored later.
    rows = RecentUser.objects.filter(environment=environment, position__lt=limit, seen_at__gte=start)
    users = [User(*row) for row in rows.order_by("position", "user_id").values_list("user_id", "attributes")]
    return Sample(users, max(sampling.since, start), limit / POSITIONS) if users else NoSample.EMPTY


def complete_limit(sampling: RecentUserSampling, now: datetime) -> int:
    """Return the limit below which the sample has all users of the last seven days."""
    if sampling.raised_at is None or sampling.limit_before is None or sampling.raised_at <= now - PERIOD:
        return sampling.limit
    return min(sampling.limit, sampling.limit_before)


def preview_changes(
    environment: Environment,
    *,
    changed: Sequence[Document],
    now: datetime,
    members: Document | None = None,
    testers: Collection[str] = (),
) -> list[Preview] | NoSample:
    """Preview each changed flag. The changes are alternatives: each is compared with the current flags.

    `changed`: the flags as the engine would read them.
    `members`: the flag whose rules decide who is in an experiment, by default the current one.
    `testers`: ids of users who do not count as outsiders.

    Users keep their stored variants.
    """
    sample = read_sample(environment, now)
    if isinstance(sample, NoSample):
        return sample
    before = configuration(environment.key)
    after = [(source["key"], _with_flag(before, source)) for source in changed]
    of_members = before if members is None else _with_flag(before, members)
    states = [(key, own) for key, each in after for own in (before, of_members, each)]
    assigned = stored_variants(environment, {name for key, own in states for name in own.experiments.get(key, ())})
    return [
        compare(
            sample,
            before=before,
            after=each,
            flags=[key],
            now=now,
            assigned=assigned,
            members=of_members,
            testers=testers,
        )
        for key, each in after
    ]


def preview_together(
    environment: Environment, *, changed: Sequence[Document], now: datetime, within: timedelta
) -> Preview | NoSample:
    """Preview all of these changes at once, for users seen `within` this time."""
    before = configuration(environment.key)
    flags = {source["key"]: compile_flag(source) for source in changed}
    after = Configuration({**before.flags, **flags}, before.segments, before.revision)
    return preview_configuration(environment, after, list(flags), now=now, within=within)


def preview_configuration(
    environment: Environment, after: Configuration, keys: Sequence[str], *, now: datetime, within: timedelta = PERIOD
) -> Preview | NoSample:
    """Preview another configuration of these flags, for users seen `within` this time.

    If there are many flags, only a part of the sample is evaluated.
    """
    sample = read_sample(environment, now, within)
    if isinstance(sample, NoSample) or not keys:
        return sample if isinstance(sample, NoSample) else NoSample.EMPTY
    sample = sample.first(max(_MIN_USERS, _MAX_PAIRS // len(keys)))
    before = configuration(environment.key)
    experiments = {name for key in keys for own in (before, after) for name in own.experiments.get(key, ())}
    assigned = stored_variants(environment, experiments)
    return compare(sample, before=before, after=after, flags=keys, now=now, assigned=assigned)


def preview_flag(
    *, key: str, environment: Environment, changes: Mapping[str, Any], now: datetime
) -> Preview | NoSample:
    """Preview an update of `enabled` and `rules` of a flag. Raises what `update_flag` would raise."""
    after = check_state(key=key, environment=environment, changes=changes)
    previews = preview_changes(environment, changed=[after], now=now)
    return previews if isinstance(previews, NoSample) else previews[0]


@dataclass(frozen=True, slots=True)
class Audiences:
    """For how many users of a sample each flag is on, by key."""

    sample: Sample
    on: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EditPreview:
    """The preview of an edit. `whole` is the size of the sample, of which only a part may have been evaluated.

    `decided` has the number of users whom each new rule decides, or would decide if the flag were on.
    """

    preview: Preview
    decided: Sequence[int]
    whole: int


def preview_edit(
    *,
    key: str,
    environment: Environment,
    changes: Mapping[str, Any],
    now: datetime,
    clock: Callable[[], float] = time.perf_counter,
) -> EditPreview | NoSample:
    """Preview an edit of any values of a flag. Nothing is written. Raises what `update_flag` would raise.

    The first users show how long the evaluation takes. Then as many are evaluated as take a second.
    """
    source = check_state(key=key, environment=environment, changes=changes)
    before = configuration(environment.key)
    if_on = _with_flag(before, {**source, "enabled": True})
    return _preview_edit(key, environment, before, _with_flag(before, source), if_on, now=now, clock=clock)


def preview_new(
    *,
    key: str,
    environment: Environment,
    values: Mapping[str, Any],
    now: datetime,
    clock: Callable[[], float] = time.perf_counter,
) -> EditPreview | NoSample:
    """Preview a new flag: what users see once it is on, compared with while it is off.

    Raises what `create_flag` would raise.
    """
    source, known = check_new(key=key, environment=environment, values=values), configuration(environment.key)
    off, if_on = (_with_flag(known, {**source, "enabled": enabled}) for enabled in (False, True))
    return _preview_edit(key, environment, off, if_on, if_on, now=now, clock=clock)


def _preview_edit(
    key: str,
    environment: Environment,
    before: Configuration,
    after: Configuration,
    if_on: Configuration,
    *,
    now: datetime,
    clock: Callable[[], float],
) -> EditPreview | NoSample:
    sample = read_sample(environment, now)
    if isinstance(sample, NoSample):
        return sample
    experiments = {name for own in (before, after, if_on) for name in own.experiments.get(key, ())}
    assigned = stored_variants(environment, experiments)

    def ask(part: Sample) -> EditPreview:
        preview = compare(part, before=before, after=after, flags=[key], now=now, assigned=assigned)
        decided = count_by_rule(part, if_on, key, now=now, assigned=assigned)
        return EditPreview(preview, decided, len(sample.users))

    started = clock()
    asked = ask(sample.first(_MIN_USERS))
    taken = clock() - started
    affordable = int(_MIN_USERS * _MAX_SECONDS / taken) if taken > 0 else len(sample.users)
    return ask(sample.first(affordable)) if min(affordable, len(sample.users)) > _MIN_USERS else asked


def audiences(environment: Environment, keys: Sequence[str], *, now: datetime, most_pairs: int) -> Audiences | NoSample:
    """Return for how many recent users each flag is on. At most `most_pairs` pairs of user and flag are evaluated."""
    sample = read_sample(environment, now)
    if isinstance(sample, NoSample):
        return sample
    known = configuration(environment.key)
    asked = sample.first(max(_MIN_USERS, most_pairs // max(1, len(keys))))
    experiments = {name for key in keys for name in known.experiments.get(key, ())}
    assigned = stored_variants(environment, experiments)
    counts = count_on(asked, known, keys, now=now, assigned=assigned)
    return Audiences(asked, dict(zip(keys, counts, strict=True)))


def _with_flag(before: Configuration, source: Document) -> Configuration:
    flag = compile_flag(source)
    return Configuration({**before.flags, flag.key: flag}, before.segments, before.revision)
