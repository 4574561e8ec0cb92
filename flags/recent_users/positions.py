"""Positions of users: a hash by which a sample of users is drawn, however often each of them comes.

The sample has the users at the lowest positions. Flags and experiments hash with seed 0 and a salt,
so whether a user is in the sample says nothing about the user's buckets.
"""

from __future__ import annotations

from datetime import timedelta

from mmh3 import hash as murmur3

POSITIONS = 2**32
"""The number of positions."""
MOST = 10_000
"""The most users of a sample."""
PERIOD = timedelta(days=7)
"""How long a user who is not seen stays in the sample."""

_SEED = 0x5EED


def position(user_id: str) -> int:
    """Return the user's position, from 0 to 2**32 - 1."""
    return murmur3(user_id, _SEED, False)
