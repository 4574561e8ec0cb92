"""Who belongs to a segment."""

from __future__ import annotations

from flags.engine.types import Context, Segment


def is_member(key: str, context: Context) -> bool:
    """Return whether the user is in the segment of this key. Nobody is in one that does not exist."""
    known = context.memberships.get(key)
    if known is None:
        segment = context.configuration.segments.get(key)
        known = context.memberships[key] = segment is not None and _holds(segment, context)
    return known


def _holds(segment: Segment, context: Context) -> bool:
    if context.user_id in segment.user_ids:
        return True
    return bool(segment.tests) and all(test(context) for test in segment.tests)
