"""Compile rules to steps, which test the audience and the share, and to the function that serves.

`flags.validation.rules` checks rules, and `evaluation` applies them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .bucketing import Number, bucket, compile_share, compile_split, threshold
from .conditions import USER_ID, Condition, compile_condition, compile_reader
from .timestamps import parse_timestamp
from .timetable import NEVER, Times, combine
from .types import Context, Evaluation, Reason, Rule, RuleType, Step, Test, Variant, is_member

Unit = Callable[[Context], str | None]
"""Returns the text to hash, or None if the user has no such attribute."""


@dataclass(frozen=True, slots=True)
class Switch:
    """The rule is off and matches nobody."""

    test: Test


@dataclass(frozen=True, slots=True)
class Schedule:
    """The rule is in force from `start` and before `end`. None means no bound."""

    start: datetime | None
    end: datetime | None
    test: Test


@dataclass(frozen=True, slots=True)
class Users:
    user_ids: frozenset[str]
    test: Test


@dataclass(frozen=True, slots=True)
class Membership:
    segment: str
    test: Test


@dataclass(frozen=True, slots=True)
class Share:
    """The user's bucket is below the threshold at the time. `unit` returns the text to hash."""

    salt: str
    bucket_by: str | None
    unit: Unit
    threshold_at: Callable[[datetime], int]
    step_times: tuple[datetime, ...]
    test: Test

    @property
    def hashes_user_id(self) -> bool:
        """Whether the user id is hashed, not an attribute."""
        return self.bucket_by in (None, USER_ID)


@dataclass(frozen=True, slots=True)
class Range:
    """The user's bucket under the salt is in `start` to `end`, exclusive. `unit` returns the text to hash."""

    salt: str
    bucket_by: str | None
    unit: Unit
    start: int
    end: int
    test: Test

    @property
    def hashes_user_id(self) -> bool:
        return self.bucket_by in (None, USER_ID)


_OFF = Evaluation.of(False, Reason.RULE_MATCH, None)


def compile_rule(
    source: Mapping[str, Any], *, index: int, salt: str, variants: Mapping[str, Variant], default: str | None
) -> Rule:
    """Compile a rule that has passed its check. `salt` and `default` are those of its flag."""
    salt = source.get("salt", salt)
    steps = tuple(_compile_steps(source, salt))
    is_hashed = any(isinstance(step, (Share, Range)) for step in steps)
    return Rule(
        source=source,
        salt=salt,
        index=index,
        is_split=is_hashed or "split" in source or source["type"] == RuleType.PERCENTAGE,
        times=_times(steps),
        steps=steps,
        tests=tuple(step.test for step in steps),
        serve=_compile_serving(source, salt, variants, default),
    )


def _times(steps: tuple[Step, ...]) -> Times:
    if any(isinstance(step, Switch) for step in steps):
        return NEVER
    return combine(_times_of_step(step) for step in steps)


def _times_of_step(step: Step) -> Times:
    match step:
        case Schedule(start=start, end=end):
            return Times(tuple(bound for bound in (start, end) if bound is not None))
        case Share(step_times=step_times) if step_times:
            return Times(step_times)
        case Condition(times=times):
            return times
        case _:
            return NEVER


def unit_of(attribute: str | None) -> Unit:
    """Return a function that reads the text to hash: the user id, or a text or whole number in an attribute."""
    if attribute is None or attribute == USER_ID:
        return lambda context: context.user_id
    read = compile_reader(attribute)
    return lambda context: _as_unit(read(context))


def _as_unit(value: object) -> str | None:
    if type(value) is int:
        return str(value) if abs(value) < 2**64 else None
    if type(value) is not str or not value:
        return None
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8 to hash
        return None
    return value


def _compile_steps(source: Mapping[str, Any], salt: str) -> Iterator[Step]:
    if not source.get("enabled", True):
        yield Switch(lambda _: False)
    if "startAt" in source or "endAt" in source:
        yield _compile_schedule(source)
    if "userIds" in source:
        user_ids = frozenset(source["userIds"])
        yield Users(user_ids, lambda context: context.user_id in user_ids)
    if "segment" in source:
        segment = source["segment"]
        yield Membership(segment, lambda context: is_member(segment, context))
    yield from map(compile_condition, source.get("conditions", ()))
    for part in source.get("ranges", ()):
        yield compile_range_step(part["salt"], part["from"], part["to"], source.get("bucketBy"))
    if "ramp" in source or "bucketBy" in source or source.get("percentage", 100) != 100:
        yield compile_share_step(source, salt)


def compile_range_step(salt: str, start: Number, end: Number, bucket_by: str | None = None) -> Range:
    """Return the step for a range of buckets, from `start` to `end` in percent."""
    unit, first, limit = unit_of(bucket_by), threshold(start), threshold(end)

    def test(context: Context) -> bool:
        text = unit(context)
        return text is not None and first <= bucket(salt, text) < limit

    return Range(salt, bucket_by, unit, first, limit, test)


def _compile_schedule(source: Mapping[str, Any]) -> Schedule:
    start, end = (parse_timestamp(source[name]) if name in source else None for name in ("startAt", "endAt"))
    return Schedule(
        start, end, lambda context: (start is None or start <= context.now) and (end is None or context.now < end)
    )


def compile_share_step(source: Mapping[str, Any], salt: str) -> Share:
    """Return the step for the share of a rule: its `percentage`, `ramp` and `bucketBy`."""
    unit = unit_of(source.get("bucketBy"))
    step_times = tuple(parse_timestamp(step["at"]) for step in source.get("ramp", ()))
    threshold_at = _compile_threshold(source, step_times)
    test = _compile_share_test(source, salt, unit, threshold_at)
    return Share(salt, source.get("bucketBy"), unit, threshold_at, step_times, test)


def _compile_share_test(
    source: Mapping[str, Any], salt: str, unit: Unit, threshold_at: Callable[[datetime], int]
) -> Test:
    if "ramp" not in source and "bucketBy" not in source:  # most rules
        return compile_share(salt, threshold(source["percentage"]))

    def test(context: Context) -> bool:
        text = unit(context)
        return text is not None and bucket(salt, text) < threshold_at(context.now)

    return test


def _compile_threshold(source: Mapping[str, Any], step_times: tuple[datetime, ...]) -> Callable[[datetime], int]:
    ramp = source.get("ramp", ())
    percentages = [source.get("percentage", 0 if ramp else 100), *(step["percentage"] for step in ramp)]
    thresholds = [threshold(percentage) for percentage in percentages]
    return lambda now: thresholds[bisect_right(step_times, now)]


def _compile_serving(
    source: Mapping[str, Any], salt: str, variants: Mapping[str, Variant], default: str | None
) -> Callable[[Context], Evaluation]:
    if "split" in source:
        weights = [(part["variant"], part["weight"]) for part in source["split"]]
        unit, choose = unit_of(source.get("bucketBy")), compile_split(weights, salt)
        answers = {key: rule_match(variants[key]) for key, _ in weights}
        # A rule with `bucketBy` has a share, which does not match users without the attribute.
        return lambda context: answers[choose(unit(context) or "")]
    if not source.get("serves", True):
        return lambda _: _OFF
    key = source.get("variant", default)
    answer = rule_match(None if key is None else variants[key])
    return lambda _: answer


def rule_match(served: Variant | None) -> Evaluation:
    """Return the answer of a matching rule. A boolean flag is on or off by its value; any other flag is on."""
    enabled = served.value if served is not None and isinstance(served.value, bool) else True
    return Evaluation.of(enabled, Reason.RULE_MATCH, served)
