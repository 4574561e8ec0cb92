"""Storing exposures that events and imports report, while other transactions change the same exposures.

`recording` decides which events report an exposure, and to which experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from config.database.transactions import commit_in_two_phases
from experiments.exposures.attributes import storable_attributes
from experiments.exposures.storage import ExposureRow, insert_new, replace, replace_with_attributes
from experiments.models import Origin
from experiments.models.locks import UNEXPECTED, Expected, StoredExposure, lock_exposures, share_exposures
from experiments.models.phases import number_in

_CHANGEABLE = (Origin.REPORTED, Origin.IMPORTED)
"""An earlier report replaces the variant of these exposures. A variant that this service answered is final."""


Order = Callable[[str, str, datetime], Any]
"""A key that orders the variants that a user saw at one instant, given the user, a variant and the instant."""


class Report(NamedTuple):
    """A user saw a variant at a time, with these attributes."""

    variant: str
    at: datetime
    attributes: Mapping[str, Any]


@dataclass(slots=True)
class Reports:
    """The reports on one user and experiment in a batch, with the earliest report of each variant.

    Most users have a single report, so the other collections exist only if they are needed.
    """

    user_id: str
    starts: Sequence[datetime]
    """The start of each phase."""
    order: Order
    origin: Origin = Origin.REPORTED
    by_variant: dict[str, Report] = field(default_factory=dict)
    seen: set[tuple[datetime, str]] | None = None
    """When the user saw which variant while outside of the experiment. This is no exposure."""
    later: list[Report] | None = None
    """Later reports, which may have attributes that the earliest one lacks."""

    def add(self, report: Report) -> None:
        other = self.by_variant.get(report.variant)
        if other is None:
            self.by_variant[report.variant] = report
        else:
            self.by_variant[report.variant], later = sorted((other, report), key=attrgetter("at"))
            self.later = self.later or []
            self.later.append(later)

    def add_seen(self, variant: str, at: datetime) -> None:
        self.seen = self.seen or set()
        self.seen.add((at, variant))

    def others(self, variant: str, exposed_at: datetime) -> Iterator[datetime]:
        """Yield the times at which the user saw a variant other than the one that counts."""
        yield from (report.at for report in self.by_variant.values() if report.variant != variant)
        yield from (at for at, other in self.seen or () if other != variant and at >= exposed_at)

    def only(self) -> Report | None:
        """Return the report if there is one of a single variant, and the user saw nothing else."""
        return self.first() if len(self.by_variant) == 1 and not self.seen else None

    def first(self) -> Report:
        if len(self.by_variant) == 1:
            [report] = self.by_variant.values()
            return report
        return min(self.by_variant.values(), key=self._place)

    def precedes(self, exposure: StoredExposure) -> bool:
        """Return whether the first report counts in place of a stored exposure."""
        first = self.first()
        if first.at != exposure.exposed_at or first.variant == exposure.variant:
            return first.at < exposure.exposed_at
        stored = Report(exposure.variant, exposure.exposed_at, {})
        return self._place(first) < self._place(stored)

    def _place(self, report: Report) -> tuple[datetime, Any]:
        """Return the place of a report in the order of time. For an instant, the hash decides, whatever came first."""
        return report.at, self.order(self.user_id, report.variant, report.at)

    def attributes(self) -> dict[str, Any] | None:
        """Return the attributes of the first report. An import without any takes those of the next report that has
        some.

        Attributes describe the user, so it does not matter which variant a later report names.
        """
        if self.origin is not Origin.IMPORTED:
            return storable_attributes(self.first().attributes)
        reports = sorted([*self.by_variant.values(), *(self.later or ())], key=self._place)
        return next(filter(None, (storable_attributes(report.attributes) for report in reports)), None)

    def phase_at(self, time: datetime) -> int:
        return number_in(self.starts, time)


ReportsByUser = Mapping[UUID, Mapping[str, Reports]]
"""Reports by experiment and user, sorted by both."""


_mostly_known: dict[UUID, bool] = {}
"""Whether most users of the last reports on an experiment had an exposure, as far as this process knows."""


def store_reports(reported: ReportsByUser, *, are_many_changing: bool = False) -> int:
    """Store reports, and return how many users had no exposure before.

    With `are_many_changing`, stored exposures are locked at once. Otherwise only those that change are read again and
    locked.
    """
    return sum(_store(experiment_id, by_user, are_many_changing) for experiment_id, by_user in reported.items())


def _store(experiment_id: UUID, by_user: Mapping[str, Reports], are_many_changing: bool) -> int:
    """Insert first or update first, whichever will probably be enough. Both read the index for each user.

    An update returns the users without an exposure. Some may have been erased between the two.
    """
    number, left = 0, by_user
    if not _mostly_known.get(experiment_id):
        number = _insert(experiment_id, left)
        left = by_user if number < len(by_user) else {}
    while left:
        left = _update(experiment_id, left, are_many_changing)
        inserted = _insert(experiment_id, left)
        number += inserted
        left = left if inserted < len(left) else {}
    _mostly_known[experiment_id] = 2 * number < len(by_user)
    return number


def _insert(experiment_id: UUID, by_user: Mapping[str, Reports]) -> int:
    new = [_exposure(experiment_id, user_id, reports) for user_id, reports in by_user.items() if reports.by_variant]
    return insert_new(new)


def _update(experiment_id: UUID, by_user: Mapping[str, Reports], are_many_changing: bool) -> dict[str, Reports]:
    """Change stored exposures by the reports, and return the reports of users without an exposure.

    Exposures that `_insert` has just stored are as the reports say.
    """
    if are_many_changing:
        locked = lock_exposures(experiment_id, by_user)
        changes = _changes(locked.found, by_user)
    else:
        locked = share_exposures(experiment_id, _expected(by_user))
        changing = _changes(locked.found, by_user)
        changes = _changes(lock_exposures(experiment_id, changing).found, by_user) if changing else {}
    _write(changes.values())
    return {user_id: by_user[user_id] for user_id in sorted(locked.missing) if by_user[user_id].by_variant}


def _expected(by_user: Mapping[str, Reports]) -> dict[str, Expected]:
    """Return the exposures that the reports would leave as they are."""
    only = [reports.only() for reports in by_user.values()]
    timestamps = iter(msgspec.to_builtins([report.at for report in only if report]))
    expected = (Expected(report.variant, next(timestamps)) if report else UNEXPECTED for report in only)
    return dict(zip(by_user, expected, strict=True))


def _exposure(experiment_id: UUID, user_id: str, reports: Reports) -> ExposureRow:
    only = reports.only()
    first = only or reports.first()
    since = None if only else min(reports.others(first.variant, first.at), default=None)
    return ExposureRow(
        experiment_id,
        user_id,
        first.variant,
        first.at,
        reports.origin,
        since is not None,
        since,
        reports.phase_at(first.at),
        reports.attributes(),
    )


class _Change(NamedTuple):
    """What an exposure becomes. With `keeps_attributes`, stored attributes stay unless there are new ones."""

    row: ExposureRow
    keeps_attributes: bool = True


def _changes(exposures: Sequence[StoredExposure], by_user: Mapping[str, Reports]) -> dict[str, _Change]:
    """Return the exposures that the reports change, by user."""
    changes = ((exposure.user_id, _changed(exposure, by_user[exposure.user_id])) for exposure in exposures)
    return {user_id: change for user_id, change in changes if change}


def _write(changes: Collection[_Change]) -> None:
    """Write changed exposures, which are locked, with two statements."""
    if changes:
        commit_in_two_phases()
    replace([change.row for change in changes if change.keeps_attributes])
    replace_with_attributes([change.row for change in changes if not change.keeps_attributes])


def _changed(exposure: StoredExposure, reports: Reports) -> _Change | None:
    """Return what the reports make of a stored exposure; None if it stays the same."""
    before = _row(exposure)
    change = _moved(exposure, before, reports) if reports.by_variant else _Change(before)
    row = _with_others(change.row, exposure, reports)
    return None if row == before else change._replace(row=row)


def _with_others(row: ExposureRow, exposure: StoredExposure, reports: Reports) -> ExposureRow:
    """Return the exposure with the first time at which the user saw another variant."""
    if exposure.is_in_several_variants and exposure.in_several_since is None:
        return row  # that moment is unknown, and stays so
    times = [*reports.others(row.variant, row.exposed_at)]
    if row.variant != exposure.variant:
        times.append(exposure.exposed_at)
    if exposure.in_several_since is not None:
        times.append(exposure.in_several_since)
    return row._replace(is_in_several_variants=True, in_several_since=min(times)) if times else row


def _row(exposure: StoredExposure) -> ExposureRow:
    return ExposureRow(
        exposure.experiment_id,
        exposure.user_id,
        exposure.variant,
        exposure.exposed_at,
        exposure.origin,
        exposure.is_in_several_variants,
        exposure.in_several_since,
        exposure.phase,
        None,
    )


def _moved(exposure: StoredExposure, row: ExposureRow, reports: Reports) -> _Change:
    """Move an exposure to an earlier time. Unless its variant is final, it gets the variant of that time."""
    is_import = reports.origin == Origin.IMPORTED
    if exposure.origin in _CHANGEABLE and reports.precedes(exposure):
        new = _exposure(exposure.experiment_id, exposure.user_id, reports)
        new = new._replace(is_in_several_variants=row.is_in_several_variants, in_several_since=row.in_several_since)
        return _Change(new, keeps_attributes=is_import)
    if is_import and not exposure.has_attributes:
        row = row._replace(attributes=reports.attributes())
    seen = reports.by_variant.get(exposure.variant)
    if seen is None:
        return _Change(row)
    is_earlier, began = seen.at < exposure.exposed_at, min(seen.at, exposure.exposed_at)
    if is_earlier and not is_import and not exposure.has_attributes:
        row = row._replace(attributes=storable_attributes(seen.attributes))
    if is_import and exposure.origin == Origin.ASSIGNED:
        # The result is as if it had been imported first: in the phase of that moment.
        row = row._replace(origin=Origin.TOLD, exposed_at=began, phase=reports.phase_at(began))
    elif is_earlier:
        # An event does not change the phase in which this service assigned: the client's clock may be slow.
        is_assigned = exposure.origin == Origin.ASSIGNED
        row = row._replace(exposed_at=began, phase=exposure.phase if is_assigned else reports.phase_at(began))
    return _Change(row)
