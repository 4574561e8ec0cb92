"""Storing exposures that events and imports report, while other transactions change the same exposures.

`recording` decides which events report an exposure, and to which experiment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from experiments.design.phases import number_in
from experiments.exposures.attributes import kept_of
from experiments.exposures.storage import ExposureRow, insert_new, replace, replace_with_attributes
from experiments.models import Origin
from experiments.models.locks import ExposureKey, StoredExposure, lock_exposures, share_exposures

_CHANGEABLE = (Origin.REPORTED, Origin.IMPORTED)
"""The origins of exposures whose variant an earlier report replaces. A variant that this service answered is final."""


class Report(NamedTuple):
    """A report that a user saw a variant at a moment, with the attributes of the user."""

    variant: str
    at: datetime
    attributes: Mapping[str, Any]


@dataclass(slots=True)
class Reports:
    """The reports on one user and experiment in a batch: the earliest report of each variant."""

    starts: Sequence[datetime]
    """The starts of the experiment's phases."""
    origin: Origin = Origin.REPORTED
    by_variant: dict[str, Report] = field(default_factory=dict)
    seen: set[tuple[datetime, str]] = field(default_factory=set)
    """When the user saw which variant while outside of the experiment, which is no exposure."""
    later: list[Report] = field(default_factory=list)
    """The other reports, which may have attributes that the earliest one lacks."""

    def add(self, report: Report) -> None:
        other = self.by_variant.get(report.variant)
        if other is None:
            self.by_variant[report.variant] = report
        else:
            self.by_variant[report.variant], later = sorted((other, report), key=attrgetter("at"))
            self.later.append(later)

    def add_seen(self, variant: str, at: datetime) -> None:
        self.seen.add((at, variant))

    def others(self, variant: str, exposed_at: datetime) -> Iterator[datetime]:
        """Yield the moments at which the user saw another variant than the one that they count for."""
        yield from (report.at for report in self.by_variant.values() if report.variant != variant)
        yield from (at for at, other in self.seen if other != variant and at >= exposed_at)

    def first(self) -> Report:
        # For two variants at the same instant the order of keys decides, and not the order of arrival.
        return min(self.by_variant.values(), key=attrgetter("at", "variant"))

    def attributes(self) -> dict[str, Any] | None:
        """Return the attributes of the first report. An import without any takes those of the earliest that has some.

        They describe the user, so it does not matter which variant a later report names.
        """
        if self.origin != Origin.IMPORTED:
            return kept_of(self.first().attributes)
        reports = sorted([*self.by_variant.values(), *self.later], key=attrgetter("at", "variant"))
        return next(filter(None, (kept_of(report.attributes) for report in reports)), None)

    def phase_at(self, moment: datetime) -> int:
        return number_in(self.starts, moment)


def store(reported: dict[ExposureKey, Reports], *, are_many_changing: bool = False) -> int:
    """Store the reports, and return how many users had no exposure before.

    Stored exposures are locked at once where many will change; otherwise those that change are read again with a lock.
    """
    number, hold = 0, lock_exposures if are_many_changing else share_exposures
    while reported:
        inserted = insert_new([_exposure(*key, reports) for key, reports in reported.items() if reports.by_variant])
        number += len(inserted)
        if len(inserted) == len(reported):
            break
        others = {key: reports for key, reports in reported.items() if key not in inserted}
        stored = hold(others)
        changes = _changes(stored, others)
        if changes and not are_many_changing:
            changes = _changes(lock_exposures(changes), others)
        _write(changes.values())
        # The remaining ones were stored and then erased by another transaction. They are new now.
        found = {(exposure.experiment_id, exposure.user_id) for exposure in stored}
        reported = {key: reports for key, reports in others.items() if key not in found and reports.by_variant}
    return number


def _exposure(experiment_id: UUID, user_id: str, reports: Reports) -> ExposureRow:
    first = reports.first()
    since = min(reports.others(first.variant, first.at), default=None)
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
    """What an exposure becomes. With `keeps_attributes` its stored attributes stay unless there are new ones."""

    row: ExposureRow
    keeps_attributes: bool = True


def _changes(stored: Sequence[StoredExposure], reported: Mapping[ExposureKey, Reports]) -> dict[ExposureKey, _Change]:
    """Return what becomes of those of the exposures that the reports change."""
    keyed = (((exposure.experiment_id, exposure.user_id), exposure) for exposure in stored)
    changes = ((key, _changed(exposure, reported[key])) for key, exposure in keyed)
    return {key: change for key, change in changes if change}


def _write(changes: Collection[_Change]) -> None:
    """Write changed exposures, which are locked, with two statements for all of them."""
    replace([change.row for change in changes if change.keeps_attributes])
    replace_with_attributes([change.row for change in changes if not change.keeps_attributes])


def _changed(stored: StoredExposure, reports: Reports) -> _Change | None:
    """Return what the reports make of a stored exposure; None if it stays as it is."""
    before = _row(stored)
    change = _moved(stored, before, reports) if reports.by_variant else _Change(before)
    row = _with_others(change.row, stored, reports)
    return None if row == before else change._replace(row=row)


def _with_others(row: ExposureRow, stored: StoredExposure, reports: Reports) -> ExposureRow:
    """Return the exposure with the first moment at which the user saw another variant."""
    if stored.is_in_several_variants and stored.in_several_since is None:
        return row  # that moment is unknown, and stays so
    moments = [*reports.others(row.variant, row.exposed_at)]
    if row.variant != stored.variant:
        moments.append(stored.exposed_at)
    if stored.in_several_since is not None:
        moments.append(stored.in_several_since)
    return row._replace(is_in_several_variants=True, in_several_since=min(moments)) if moments else row


def _row(stored: StoredExposure) -> ExposureRow:
    return ExposureRow(
        stored.experiment_id,
        stored.user_id,
        stored.variant,
        stored.exposed_at,
        stored.origin,
        stored.is_in_several_variants,
        stored.in_several_since,
        stored.phase,
        None,
    )


def _moved(stored: StoredExposure, row: ExposureRow, reports: Reports) -> _Change:
    """Move an exposure to an earlier moment, and to the variant of that moment if its own is not final."""
    first, is_import = reports.first(), reports.origin == Origin.IMPORTED
    if stored.origin in _CHANGEABLE and (first.at, first.variant) < (stored.exposed_at, stored.variant):
        new = _exposure(stored.experiment_id, stored.user_id, reports)
        new = new._replace(is_in_several_variants=row.is_in_several_variants, in_several_since=row.in_several_since)
        return _Change(new, keeps_attributes=is_import)
    if is_import and not stored.has_attributes:
        row = row._replace(attributes=reports.attributes())
    seen = reports.by_variant.get(stored.variant)
    if seen is None:
        return _Change(row)
    is_earlier, began = seen.at < stored.exposed_at, min(seen.at, stored.exposed_at)
    if is_earlier and not is_import and not stored.has_attributes:
        row = row._replace(attributes=kept_of(seen.attributes))
    if is_import and stored.origin == Origin.ASSIGNED:
        # The result is as if it had been imported first: in the phase of that moment.
        row = row._replace(origin=Origin.TOLD, exposed_at=began, phase=reports.phase_at(began))
    elif is_earlier:
        # An event does not change the phase in which this service assigned: the client's clock may be slow.
        is_assigned = stored.origin == Origin.ASSIGNED
        row = row._replace(exposed_at=began, phase=stored.phase if is_assigned else reports.phase_at(began))
    return _Change(row)
