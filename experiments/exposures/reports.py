"""Storing exposures that events and imports report, while other transactions change the same exposures.

`recording` decides which events report an exposure, and to which experiment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from config.database.commit_order import CurrentArrival
from config.documents import Document
from experiments.design.phases import number_at
from experiments.exposures.attributes import kept_of
from experiments.exposures.storage import insert_new
from experiments.models import Exposure, Origin
from experiments.models.locks import ExposureKey, share_exposures

_CHANGEABLE = (Origin.REPORTED, Origin.IMPORTED)
"""The origins of exposures whose variant an earlier report replaces. A variant that this service answered is final."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report that a user saw a variant at a moment, with the attributes of the user."""

    variant: str
    at: datetime
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports on one user and experiment in a batch: the earliest report of each variant."""

    phases: list[Document]
    """The phases of the experiment."""
    origin: Origin = Origin.REPORTED
    by_variant: dict[str, Report] = field(default_factory=dict)
    seen: dict[str, datetime] = field(default_factory=dict)
    """By variant, the last moment at which the user saw it while outside of the experiment, which is no exposure."""

    def add(self, report: Report) -> None:
        earliest = self.by_variant.get(report.variant, report)
        self.by_variant[report.variant] = min(earliest, report, key=attrgetter("at"))

    def add_seen(self, variant: str, at: datetime) -> None:
        self.seen[variant] = max(self.seen.get(variant, at), at)

    def seen_since(self, at: datetime) -> set[str]:
        """Return all reported variants, without those that the user last saw before a moment while outside."""
        return {*self.by_variant, *(variant for variant, last in self.seen.items() if last >= at)}

    def first(self) -> Report:
        # For two variants at the same instant the order of keys decides, and not the order of arrival.
        return min(self.by_variant.values(), key=attrgetter("at", "variant"))

    def phase_of(self, report: Report) -> int:
        return number_at(self.phases, report.at)


def store(reported: dict[ExposureKey, Reports]) -> int:
    """Store the reports, and return how many users had no exposure before."""
    number = 0
    while reported:
        exposing = ((key, reports) for key, reports in reported.items() if reports.by_variant)
        inserted = insert_new([_exposure(*key, reports) for key, reports in exposing])
        number += len(inserted)
        others = {key: reports for key, reports in reported.items() if key not in inserted}
        stored = {(exposure.experiment_id, exposure.user_id): exposure for exposure in share_exposures(others)}
        for key, exposure in stored.items():
            _reconcile(exposure, others[key])
        # The remaining ones were stored and then erased by another transaction. They are new now.
        reported = {key: reports for key, reports in others.items() if key not in stored and reports.by_variant}
    return number


def _exposure(experiment_id: UUID, user_id: str, reports: Reports) -> Exposure:
    first = reports.first()
    return Exposure(
        experiment_id=experiment_id,
        user_id=user_id,
        variant=first.variant,
        exposed_at=first.at,
        origin=reports.origin,
        is_in_several_variants=len(reports.by_variant) > 1,
        phase=reports.phase_of(first),
        attributes=kept_of(first.attributes),
    )


def _reconcile(exposure: Exposure, reports: Reports) -> None:
    """Update a stored exposure with the reports, whatever other batches do to it at the same time."""
    this = Exposure.objects.filter(experiment_id=exposure.experiment_id, user_id=exposure.user_id)
    if reports.seen_since(exposure.exposed_at) - {exposure.variant} and not exposure.is_in_several_variants:
        _change(this, is_in_several_variants=True)
    if reports.by_variant:
        _move(this, exposure, reports)


def _move(this: QuerySet[Exposure], exposure: Exposure, reports: Reports) -> None:
    """Move the exposure to an earlier moment, and to the variant of that moment where its own is not final."""
    first = reports.first()
    at, variant = first.at, first.variant
    if (at, variant) < (exposure.exposed_at, exposure.variant):
        is_later = Q(exposed_at__gt=at) | Q(exposed_at=at, variant__gt=variant)
        changeable = this.filter(is_later, origin__in=_CHANGEABLE)
        moved = {"variant": variant, "exposed_at": at, "phase": reports.phase_of(first), "origin": reports.origin}
        _change(changeable, **moved, attributes=kept_of(first.attributes))
    seen = reports.by_variant.get(exposure.variant)
    if seen is None:
        return
    same_variant = this.filter(variant=exposure.variant)
    if reports.origin == Origin.IMPORTED and exposure.origin == Origin.ASSIGNED:
        # The result is as if it had been imported first: in the phase of that moment.
        began = min(seen.at, exposure.exposed_at)
        phase = number_at(reports.phases, began)
        _change(same_variant.filter(origin=Origin.ASSIGNED), origin=Origin.TOLD, exposed_at=began, phase=phase)
    if seen.at < exposure.exposed_at:
        # A final exposure begins earlier, with the attributes of that moment if it has none.
        _change(same_variant.filter(attributes__isnull=True), attributes=kept_of(seen.attributes))
        later = same_variant.filter(exposed_at__gt=seen.at)
        # An event does not change the phase in which this service assigned: the client's clock may be slow.
        _change(later.filter(origin=Origin.ASSIGNED), exposed_at=seen.at)
        _change(later, exposed_at=seen.at, phase=reports.phase_of(seen))


def _change(exposures: QuerySet[Exposure], **values: Any) -> None:
    exposures.update(**values, arrival=CurrentArrival())
