"""A sample of the users of the last seven days, and the positions by which users are sampled. Pure.

A position is a hash of the user id, and the sample has the lowest positions. Flags and experiments hash with seed 0 and
a salt, so positions say nothing about buckets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mmh3 import hash as murmur3

POSITIONS = 2**32
MAX_USERS = 10_000
PERIOD = timedelta(days=7)
"""How long a user stays in the sample without being seen."""

_SEED = 0x5EED


class User(NamedTuple):
    """A user of the sample."""

    user_id: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """Users who were seen since `since`, in the order of their positions.

    They are all such users in the lowest `share` of positions, from 0 to 1.
    """

    users: Sequence[User]
    since: datetime
    share: float

    def first(self, number: int) -> Sample:
        """Return the sample of the `number` lowest positions."""
        if number >= len(self.users):
            return self
        return Sample(self.users[:number], self.since, self.share * number / len(self.users))

    @property
    def all_users(self) -> int:
        """The estimated number of all users since `since`. It is exact if `share` is 1."""
        return round(len(self.users) / self.share)


def position(user_id: str) -> int:
    """Return the user's position, from 0 to 2**32 - 1."""
    return murmur3(user_id, _SEED, False)
