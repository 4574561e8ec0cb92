"""The users of an experiment, a page at a time, with their variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.models import Experiment, Exposure, Origin

USERS_A_PAGE = 50
ORIGINS = {
    Origin.ASSIGNED: "assigned by Halyard",
    Origin.REPORTED: "reported by an event",
    Origin.IMPORTED: "imported",
    Origin.TOLD: "imported",
}
"""Where an exposure comes from, in words."""


@dataclass(frozen=True, slots=True)
class ExposedUser:
    """A user with the variant that counts, and where the exposure comes from."""

    exposure: Exposure
    origin: str


@dataclass(frozen=True, slots=True)
class UserPage:
    """Users in the order of their ids. `next` is the last id of the page; it is empty on the last page."""

    users: Sequence[ExposedUser]
    next: str


def read_users(experiment: Experiment, *, variant: str = "", after: str = "") -> UserPage:
    """Return the users after an id, with one query; with `variant`, only its users."""
    rows = Exposure.objects.filter(experiment=experiment, user_id__gt=after).order_by("user_id").defer("attributes")
    if variant:
        rows = rows.filter(variant=variant)
    read = list(rows[: USERS_A_PAGE + 1])
    shown = read[:USERS_A_PAGE]
    more = shown[-1].user_id if len(read) > USERS_A_PAGE else ""
    return UserPage([ExposedUser(row, ORIGINS[Origin(row.origin)]) for row in shown], more)
