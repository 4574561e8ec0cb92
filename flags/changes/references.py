"""What flags and segments name: that it is there, that nothing needs itself, and that nothing needed goes away.

Called by writers while they hold the change log, so that what was found stays so until they are done.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from django.dispatch import Signal

from config.documents import Document
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from flags.changes.properties import in_environment
from flags.engine.parsing import Reference, parse_flag, references
from flags.models import Flag, FlagState, Segment

asking_for_segment_users = Signal()
"""Sent with `segment`, a key; whoever else asks for it answers with names, such as `the experiment checkout`."""

segments_changed = Signal()
"""Sent with `log`, the writing, and `segments`, the keys of those that may have other members by now.

That is within the transaction, once for all that is written together: whoever listens appends to the same log, or
refuses the change by a DomainError.
"""

LONGEST_CHAIN = 10
"""How many flags, or segments, may ask for each other in a row: evaluation follows them all."""

_LONGEST_TOLD = 2 * LONGEST_CHAIN
_SHOWN = 10
_Needs = Mapping[str, Sequence[str]]
"""The keys that each key asks for."""


class Chains:
    """What asks for what, the object that is checked included."""

    def __init__(self, needs: _Needs) -> None:
        self.needs = needs

    @cached_property
    def asked_by(self) -> _Needs:
        return _turned_round(self.needs)


class Lookup:
    """What there is to name, asked of the database each time: for a single check."""

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


class CachedLookup(Lookup):
    """The same, read once: for many checks while nothing is written. What is `granted` is taken to be as wanted."""

    def __init__(self, *, granted_flags: Collection[str] = (), granted_segments: Collection[str] = ()) -> None:
        self.granted_flags = granted_flags
        self.granted_segments = granted_segments

    @cached_property
    def _flags(self) -> Mapping[str, Flag]:
        return {flag.key: flag for flag in Flag.objects.only("key", "variants", "archived_at")}

    @cached_property
    def _segments(self) -> Collection[str]:
        return {*Segment.objects.values_list("key", flat=True), *self.granted_segments}

    @cached_property
    def _chains_of_flags(self) -> Chains:
        return super().chains_of_flags()

    @cached_property
    def _chains_of_segments(self) -> Chains:
        return super().chains_of_segments()

    def flags(self, keys: Collection[str]) -> Mapping[str, Flag]:
        return self._flags

    def segments(self, keys: Collection[str]) -> Collection[str]:
        return self._segments

    def chains_of_flags(self) -> Chains:
        return self._chains_of_flags

    def chains_of_segments(self) -> Chains:
        return self._chains_of_segments


def check_flag(document: Document, known: Lookup | None = None) -> None:
    """Check what a flag names, given what the engine reads of it. Raises ValidationFailed."""
    known = known or Lookup()
    found = list(references(document))
    flags = [each for each in found if each.kind == "flag"]
    # One that names itself is no unknown one but the shortest circle.
    others = [each for each in flags if each.key != document["key"] and each.key not in known.granted_flags]
    # What is archived itself may wait for its prerequisites there.
    unknown = _unknown_flags(others, known, may_be_archived="archivedAt" in document)
    _refuse([*unknown, *_unknown_segments([each for each in found if each.kind == "segment"], known)])
    if flags:
        _refuse(_check_chain(document["key"], flags, known.chains_of_flags(), "flags"))


def check_segment(document: Document, known: Lookup | None = None) -> None:
    """Check what a segment names. Raises ValidationFailed."""
    known = known or Lookup()
    found = list(references(document))
    _refuse(_unknown_segments([each for each in found if each.key != document["key"]], known))
    if found:
        _refuse(_check_chain(document["key"], found, known.chains_of_segments(), "segments"))


def check_conditions(conditions: Sequence[Document]) -> None:
    """Check the segments that conditions outside of flags and segments name. Raises ValidationFailed."""
    _refuse(_unknown_segments(list(references({"conditions": conditions})), Lookup()))


def all_segments_named(conditions: Sequence[Document], known: Lookup) -> set[str]:
    """The segments that conditions ask for, by themselves or through other segments."""
    found: set[str] = set()
    waiting = [each.key for each in references({"conditions": conditions})]
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            waiting.extend(known.chains_of_segments().needs.get(key, ()))
    return found


def require_not_needed(flag: Flag, what: str, *, but_archived: bool = False) -> None:
    """Raise DomainError `in_use` where the flag is a prerequisite of others, of archived ones too unless told so."""
    others = Flag.objects.current() if but_archived else Flag.objects.all()
    if names := [other.key for other in others.naming(flag.key) if flag.key in _flags_named(other)]:
        message = f"The flag is a prerequisite of {_listed(names)}; remove it there before you {what} it."
        raise DomainError(ErrorCode.IN_USE, message)


def require_variants_not_needed(document: Document, written: Collection[str]) -> None:
    """Raise DomainError `in_use` where other environments or flags name variants that a changed flag has no more.

    `written` are the environments whose rules have been checked already.
    """
    users = [*_rules_of_other_environments(document, written), *_flags_that_want_lost_variants(document)]
    if users:
        message = f"A variant that the flag would no longer have is named by {_listed(users)}; change that first."
        raise DomainError(ErrorCode.IN_USE, message)


def require_segment_not_needed(segment: Segment) -> None:
    """Raise DomainError `in_use` where a flag in any environment, a segment or anything else asks for the segment."""
    states = FlagState.objects.naming(segment.key).select_related("flag", "environment")
    flags = defaultdict(list)
    for state in states.order_by("flag__key", "environment__key"):
        if any(each.key == segment.key for each in references({"rules": state.rules})):
            flags[state.flag.key].append(state.environment.key)
    users = [f"the flag {key} ({', '.join(environments)})" for key, environments in flags.items()]
    segments = [other for other in Segment.objects.naming(segment.key) if segment.key in _segments_named(other)]
    users += [f"the segment {other.key}" for other in segments]
    answers: Iterable[tuple[object, Any]] = asking_for_segment_users.send(sender=Segment, segment=segment.key)
    users += [name for _, names in answers for name in names]
    if users:
        message = f"The segment is used by {_listed(users)}; remove it there before you delete it."
        raise DomainError(ErrorCode.IN_USE, message)


def _unknown_flags(found: Sequence[Reference], known: Lookup, *, may_be_archived: bool) -> Iterator[Detail]:
    flags = known.flags({each.key for each in found})
    for each in found:
        flag = flags.get(each.key)
        if flag is None:
            yield Detail(each.field, DetailCode.UNKNOWN_REFERENCE, f"No flag has the key {each.key}; create it first.")
            continue
        if flag.archived_at is not None and not may_be_archived:
            message = f"The flag {each.key} is archived; restore it first."
            yield Detail(each.field, DetailCode.UNKNOWN_REFERENCE, message)
        variants = [variant["key"] for variant in flag.variants]
        for variant, field in each.variants:
            if variant not in variants:
                message = f"The flag {each.key} has no variant {variant}; it has: {', '.join(variants) or 'none'}."
                yield Detail(field, DetailCode.UNKNOWN_REFERENCE, message)


def _unknown_segments(found: Sequence[Reference], known: Lookup) -> Iterator[Detail]:
    segments = known.segments({each.key for each in found})
    for each in found:
        if each.key not in segments:
            message = f"No segment has the key {each.key}; create it first."
            yield Detail(each.field, DetailCode.UNKNOWN_REFERENCE, message)


def _flags_named(flag: Flag) -> list[str]:
    return [each["flag"] for each in flag.prerequisites]


def _segments_named(segment: Segment) -> list[str]:
    return [each.key for each in references({"conditions": segment.conditions})]


def _rules_of_other_environments(document: Document, written: Collection[str]) -> Iterator[str]:
    for other in document["states"]:
        if other not in written:
            try:
                parse_flag(in_environment(document, other))
            except ValidationFailed as error:
                yield f"{error.details[0].field} in {other}"


def _flags_that_want_lost_variants(document: Document) -> Iterator[str]:
    left = {variant["key"] for variant in document.get("variants", ())}
    for other in Flag.objects.naming(document["key"]):
        for each in other.prerequisites:
            if each["flag"] == document["key"] and not left.issuperset(each.get("variants", ())):
                yield f"the prerequisites of {other.key}"


def _check_chain(key: str, found: Sequence[Reference], chains: Chains, noun: str) -> Iterator[Detail]:
    """Yield one detail where the things that ask for each other would form a circle, or too long a chain."""
    if circle := _circle(key, chains.needs):
        field = next(each.field for each in found if each.key == circle[1])
        message = f"Would depend on itself: {' → '.join(circle)}; remove one of these references."
        yield Detail(field, DetailCode.INVALID_VALUE, message)
        return
    down = _longest(key, chains.needs)
    chain = [*reversed(_longest(key, chains.asked_by)), *down[1:]]
    # Where something stands there twice, others form a circle, for which they are refused.
    if len(chain) > LONGEST_CHAIN and len(set(chain)) == len(chain):
        field = next(each.field for each in found if each.key == down[1])
        message = f"Would make a chain of {len(chain)} {noun}, {' → '.join(chain)}; the limit is {LONGEST_CHAIN}."
        yield Detail(field, DetailCode.OUT_OF_RANGE, message)


def _circle(key: str, needs: _Needs) -> list[str]:
    """The shortest way from a key back to itself, or nothing."""
    asked_by: dict[str, str] = {}
    waiting = deque([key])
    while waiting:
        at = waiting.popleft()
        for needed in needs.get(at, ()):
            if needed == key:
                way = [at]
                while way[-1] != key:
                    way.append(asked_by[way[-1]])
                return [*reversed(way), key]
            if needed not in asked_by:
                asked_by[needed] = at
                waiting.append(needed)
    return []


def _longest(key: str, needs: _Needs) -> tuple[str, ...]:
    """The longest chain that begins at a key, as far as anybody reads: a file may bring longer ones, and circles."""
    steps = [{key: key}]
    while len(steps) < _LONGEST_TOLD and (step := {needed: at for at in steps[-1] for needed in needs.get(at, ())}):
        steps.append(step)
    chain = [next(iter(steps[-1]))]
    for step in reversed(steps[1:]):
        chain.append(step[chain[-1]])
    return tuple(reversed(chain))


def _turned_round(needs: _Needs) -> _Needs:
    asked_by = defaultdict(list)
    for key, needed in needs.items():
        for each in needed:
            asked_by[each].append(key)
    return asked_by


def _refuse(found: Iterable[Detail]) -> None:
    if details := list(found):
        raise ValidationFailed(details)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
