"""A sample of the users of the last seven days, and the positions by which it is drawn. Pure.

A position is a hash of the user id. The sample has the users at the lowest positions, however often each of them comes.
Flags and experiments hash with seed 0 and a salt, so a position says nothing about the user's buckets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mmh3 import hash as murmur3

POSITIONS = 2**32
"""The number of positions."""
MAX_USERS = 10_000
"""The most users of a sample."""
PERIOD = timedelta(days=7)
"""How long a user who is not seen stays in the sample."""

_SEED = 0x5EED


class User(NamedTuple):
    """A user of the sample, with the attributes that it keeps."""

    user_id: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """Users who were seen since `since`, at most seven days ago, in the order of their positions.

    They are all users seen since then whose position is in the lowest `share` of all positions, from
    0 to 1.
    """

    users: Sequence[User]
    since: datetime
    share: float

    def first(self, number: int) -> Sample:
        """Return a smaller sample: the users at the lowest positions."""
        if number >= len(self.users):
            return self
        return Sample(self.users[:number], self.since, self.share * number / len(self.users))

    @property
    def all_users(self) -> int:
        """The estimated number of all users who were seen since then. It is exact if the sample has all of them."""
        return round(len(self.users) / self.share)


def position(user_id: str) -> int:
    """Return the user's position, from 0 to 2**32 - 1."""
    return murmur3(user_id, _SEED, False)
