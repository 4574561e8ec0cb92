"""References between flags and segments: they must exist, form no circle, and not be removed while in use.

The caller holds the lock of the change log during these checks.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from django.dispatch import Signal

from config.documents import Document
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from flags.changes.properties import in_environment
from flags.models import Flag, FlagState, Segment
from flags.validation.parsing import Reference, parse_flag, references

asking_for_segment_users = Signal()
"""Sent with `segment`, a key. Receivers return the names of its users, such as `the experiment checkout`."""

segments_changed = Signal()
"""Sent with `log` and `segments`, the keys of segments whose members may have changed.

It is sent once for each transaction, inside it. Receivers append to the same log, or raise a DomainError to refuse the
change.
"""

MAX_CHAIN_LENGTH = 10
"""How many flags, or segments, may depend on each other in a row. Evaluation follows the whole chain."""

_MAX_SHOWN = 2 * MAX_CHAIN_LENGTH
_SHOWN = 10
Row = TypeVar("Row", Flag, Segment)
_Needs = Mapping[str, Sequence[str]]
"""The keys on which each key depends."""


class Chains:
    """The dependencies between flags, or between segments, in both directions."""

    def __init__(self, needs: _Needs) -> None:
        self.needs = needs

    @cached_property
    def needed_by(self) -> _Needs:
        return _invert(self.needs)


class Lookup:
    """Finds flags and segments with a query for each question, for a single check."""

    granted_flags: Collection[str] = ()

    def flags(self, keys: Collection[str]) -> Mapping[str, Flag]:
        rows = Flag.objects.filter(key__in=keys).only("key", "variants", "archived_at") if keys else ()
        return {flag.key: flag for flag in rows}

    def segments(self, keys: Collection[str]) -> Collection[str]:
        return set(Segment.objects.filter(key__in=keys).values_list("key", flat=True)) if keys else ()

    def chains_of_flags(self) -> Chains:
        rows = Flag.objects.exclude(prerequisites=[]).only("key", "prerequisites")
        return Chains({flag.key: _flags_named(flag) for flag in rows})

    def chains_of_segments(self) -> Chains:
        return Chains({segment.key: _segments_named(segment) for segment in Segment.objects.naming("inSegment")})

    def flags_that_need(self, key: str) -> Sequence[Flag]:
        """Return the flags that have this flag as a prerequisite."""
        return [flag for flag in Flag.objects.naming(key) if key in _flags_named(flag)]


class CachedLookup(Lookup):
    """Reads everything once, for many checks while nothing is written.

    `flags` and `segments` replace the stored ones. `granted` keys count as present and suitable.
    """

    def __init__(
        self,
        *,
        flags: Sequence[Flag] = (),
        segments: Sequence[Segment] = (),
        granted_flags: Collection[str] = (),
        granted_segments: Collection[str] = (),
    ) -> None:
        self._new_flags = {flag.key: flag for flag in flags}
        self._new_segments = {segment.key: segment for segment in segments}
        self.granted_flags = granted_flags
        self.granted_segments = granted_segments

    @cached_property
    def _flags(self) -> Mapping[str, Flag]:
        stored = Flag.objects.only("key", "variants", "archived_at", "prerequisites")
        return _by_key({**{flag.key: flag for flag in stored}, **self._new_flags})

    @cached_property
    def _segments(self) -> Collection[str]:
        return {*Segment.objects.values_list("key", flat=True), *self._new_segments, *self.granted_segments}

    @cached_property
    def _chains_of_flags(self) -> Chains:
        return Chains({key: _flags_named(flag) for key, flag in self._flags.items() if flag.prerequisites})

    @cached_property
    def _chains_of_segments(self) -> Chains:
        stored = {segment.key: segment for segment in Segment.objects.naming("inSegment")}
        segments = _by_key({**stored, **self._new_segments})
        return Chains({key: _segments_named(segment) for key, segment in segments.items()})

    def flags(self, keys: Collection[str]) -> Mapping[str, Flag]:
        return self._flags if keys else {}

    def segments(self, keys: Collection[str]) -> Collection[str]:
        return self._segments if keys else ()

    def flags_that_need(self, key: str) -> Sequence[Flag]:
        return [self._flags[other] for other in self._chains_of_flags.needed_by.get(key, ())]

    def chains_of_flags(self) -> Chains:
        return self._chains_of_flags

    def chains_of_segments(self) -> Chains:
        return self._chains_of_segments


def check_flag(source: Document, lookup: Lookup | None = None) -> None:
    """Check the flags and segments that a flag refers to. Raises ValidationFailed."""
    lookup = lookup or Lookup()
    named = list(references(source))
    flags = [reference for reference in named if reference.kind == "flag"]
    segments = [reference for reference in named if reference.kind == "segment"]
    # A reference to itself is known. The check of chains refuses it as the shortest circle.
    others = [flag for flag in flags if flag.key != source["key"] and flag.key not in lookup.granted_flags]
    # Prerequisites of an archived flag may be archived too.
    unknown = _unknown_flags(others, lookup, may_be_archived="archivedAt" in source)
    _refuse([*unknown, *_unknown_segments(segments, lookup)])
    if flags:
        _refuse(_check_chain(source["key"], flags, lookup.chains_of_flags(), "flags"))


def check_segment(source: Document, lookup: Lookup | None = None) -> None:
    """Check the segments that a segment refers to. Raises ValidationFailed."""
    lookup = lookup or Lookup()
    segments = list(references(source))
    _refuse(_unknown_segments([segment for segment in segments if segment.key != source["key"]], lookup))
    if segments:
        _refuse(_check_chain(source["key"], segments, lookup.chains_of_segments(), "segments"))


def check_conditions(conditions: Sequence[Document]) -> None:
    """Check the segments in conditions of an experiment. Raises ValidationFailed."""
    _refuse(_unknown_segments(list(references({"conditions": conditions})), Lookup()))


def all_segments_named(conditions: Sequence[Document], lookup: Lookup) -> set[str]:
    """Return the keys of the segments in conditions, directly or through other segments."""
    named: set[str] = set()
    waiting = [reference.key for reference in references({"conditions": conditions})]
    while waiting:
        key = waiting.pop()
        if key not in named:
            named.add(key)
            waiting.extend(lookup.chains_of_segments().needs.get(key, ()))
    return named


def require_not_needed(flag: Flag, what: str, *, but_archived: bool = False, lookup: Lookup | None = None) -> None:
    """Raise DomainError `in_use` if the flag is a prerequisite. `but_archived` ignores archived flags that need it."""
    others = (lookup or Lookup()).flags_that_need(flag.key)
    if names := [other.key for other in others if not (but_archived and other.archived_at)]:
        message = f"The flag is a prerequisite of {_listed(names)}; remove it there before you {what} it."
        raise DomainError(ErrorCode.IN_USE, message)


def require_variants_not_needed(source: Document, written: Collection[str], lookup: Lookup | None = None) -> None:
    """Raise DomainError `in_use` if the flag's new variants do not fit its rules elsewhere, or the prerequisites of
    others.

    `written` are the environments whose rules were checked already.
    """
    needing = (lookup or Lookup()).flags_that_need(source["key"])
    users = [*_rules_of_other_environments(source, written), *_flags_that_need_lost_variants(source, needing)]
    if users:
        message = f"The new variants do not fit {_listed(users)}; change that first."
        raise DomainError(ErrorCode.IN_USE, message)


def require_segment_not_needed(segment: Segment) -> None:
    """Raise DomainError `in_use` if a flag, a segment or an experiment uses the segment."""
    states = FlagState.objects.naming(segment.key).select_related("flag", "environment")
    flags = defaultdict(list)
    for state in states.order_by("flag__key", "environment__key"):
        if any(reference.key == segment.key for reference in references({"rules": state.rules})):
            flags[state.flag.key].append(state.environment.key)
    users = [f"the flag {key} ({', '.join(environments)})" for key, environments in flags.items()]
    segments = [other for other in Segment.objects.naming(segment.key) if segment.key in _segments_named(other)]
    users += [f"the segment {other.key}" for other in segments]
    answers: Iterable[tuple[object, Any]] = asking_for_segment_users.send(sender=Segment, segment=segment.key)
    users += [name for _, names in answers for name in names]
    if users:
        message = f"The segment is used by {_listed(users)}; remove it there before you delete it."
        raise DomainError(ErrorCode.IN_USE, message)


def _unknown_flags(named: Sequence[Reference], lookup: Lookup, *, may_be_archived: bool) -> Iterator[Detail]:
    flags = lookup.flags({reference.key for reference in named})
    for reference in named:
        key, flag = reference.key, flags.get(reference.key)
        if flag is None:
            message = f"No flag has the key {key}; create it first."
            yield Detail(reference.field, DetailCode.UNKNOWN_REFERENCE, message)
            continue
        if flag.archived_at is not None and not may_be_archived:
            message = f"The flag {key} is archived; restore it first."
            yield Detail(reference.field, DetailCode.UNKNOWN_REFERENCE, message)
        variants = [variant["key"] for variant in flag.variants]
        for variant, field in reference.variants:
            if variant not in variants:
                message = f"The flag {key} has no variant {variant}; it has: {', '.join(variants) or 'none'}."
                yield Detail(field, DetailCode.UNKNOWN_REFERENCE, message)


def _unknown_segments(named: Sequence[Reference], lookup: Lookup) -> Iterator[Detail]:
    segments = lookup.segments({reference.key for reference in named})
    for reference in named:
        if reference.key not in segments:
            message = f"No segment has the key {reference.key}; create it first."
            yield Detail(reference.field, DetailCode.UNKNOWN_REFERENCE, message)


def _flags_named(flag: Flag) -> list[str]:
    return [prerequisite["flag"] for prerequisite in flag.prerequisites]


def _segments_named(segment: Segment) -> list[str]:
    return [reference.key for reference in references({"conditions": segment.conditions})]


def _rules_of_other_environments(source: Document, written: Collection[str]) -> Iterator[str]:
    for other in source["states"]:
        if other not in written:
            try:
                parse_flag(in_environment(source, other))
            except ValidationFailed as error:
                yield f"{error.details[0].field} in {other}"


def _flags_that_need_lost_variants(source: Document, needing: Sequence[Flag]) -> Iterator[str]:
    variants = {variant["key"] for variant in source.get("variants", ())}
    for other in needing:
        for prerequisite in other.prerequisites:
            if prerequisite["flag"] == source["key"] and not variants.issuperset(prerequisite.get("variants", ())):
                yield f"the prerequisites of {other.key}"


def _check_chain(key: str, named: Sequence[Reference], chains: Chains, noun: str) -> Iterator[Detail]:
    """Yield a detail if dependencies form a circle or too long a chain."""
    if circle := _find_circle(key, chains.needs):
        field = next(reference.field for reference in named if reference.key == circle[1])
        message = f"Would depend on itself: {' → '.join(circle)}; remove one of these references."
        yield Detail(field, DetailCode.INVALID_VALUE, message)
        return
    down = _find_longest(key, chains.needs)
    chain = [*reversed(_find_longest(key, chains.needed_by)), *down[1:]]
    # If a key appears twice, other flags form a circle and are refused.
    if len(chain) > MAX_CHAIN_LENGTH and len(set(chain)) == len(chain):
        field = next(reference.field for reference in named if reference.key == down[1])
        message = f"Would make a chain of {len(chain)} {noun}, {' → '.join(chain)}; the limit is {MAX_CHAIN_LENGTH}."
        yield Detail(field, DetailCode.OUT_OF_RANGE, message)


def _find_circle(key: str, needs: _Needs) -> list[str]:
    """Return the shortest path from a key back to itself, or an empty list."""
    parents: dict[str, str] = {}
    waiting = deque([key])
    while waiting:
        current = waiting.popleft()
        for needed in needs.get(current, ()):
            if needed == key:
                path = [current]
                while path[-1] != key:
                    path.append(parents[path[-1]])
                return [*reversed(path), key]
            if needed not in parents:
                parents[needed] = current
                waiting.append(needed)
    return []


def _find_longest(key: str, needs: _Needs) -> tuple[str, ...]:
    """Return the longest chain from a key. It is cut off at a maximum, because files may contain circles."""
    steps = [{key: key}]
    while len(steps) < _MAX_SHOWN and (step := {needed: key for key in steps[-1] for needed in needs.get(key, ())}):
        steps.append(step)
    chain = [next(iter(steps[-1]))]
    for step in reversed(steps[1:]):
        chain.append(step[chain[-1]])
    return tuple(reversed(chain))


def _by_key(rows: Mapping[str, Row]) -> dict[str, Row]:
    return dict(sorted(rows.items()))


def _invert(needs: _Needs) -> _Needs:
    needed_by = defaultdict(list)
    for key, needed_keys in needs.items():
        for needed in needed_keys:
            needed_by[needed].append(key)
    return needed_by


def _refuse(details: Iterable[Detail]) -> None:
    if listed := list(details):
        raise ValidationFailed(listed)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
