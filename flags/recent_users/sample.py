"""A sample of users, as it was read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple


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
