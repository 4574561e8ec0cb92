"""What events and imports report of users, on its way into the table of exposures, whatever others do there meanwhile.

Which events report an exposure, and of which experiment, is for `exposures`.
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

_NOT_TOLD = (Origin.REPORTED, Origin.IMPORTED)
"""Whose variant gives way to an earlier one, whoever knows of it; what this service has told stands."""


@dataclass(frozen=True, slots=True)
class Report:
    """That a user saw a variant at a moment, and what was known of the user then."""

    variant: str
    at: datetime
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reports:
    """What a batch says of one user in one experiment: for each variant, the report of who saw it first."""

    phases: list[Document]
    """Of the experiment."""
    origin: Origin = Origin.REPORTED
    by_variant: dict[str, Report] = field(default_factory=dict)
    seen: dict[str, datetime] = field(default_factory=dict)
    """By variant, when the user saw it last while the experiment took nobody like them in: that exposes nobody."""

    def add(self, report: Report) -> None:
        known = self.by_variant.get(report.variant, report)
        self.by_variant[report.variant] = min(known, report, key=attrgetter("at"))

    def add_seen(self, variant: str, at: datetime) -> None:
        self.seen[variant] = max(self.seen.get(variant, at), at)

    def seen_since(self, at: datetime) -> set[str]:
        """All variants that are reported, but for those that the user saw as an outsider before a moment."""
        return {*self.by_variant, *(variant for variant, last in self.seen.items() if last >= at)}

    def first(self) -> Report:
        # Two variants at the same instant: the order of their keys decides, so that the order of arrival does not.
        return min(self.by_variant.values(), key=attrgetter("at", "variant"))

    def phase_of(self, report: Report) -> int:
        return number_at(self.phases, report.at)


def store(reported: dict[ExposureKey, Reports]) -> int:
    """Store them, and return how many users are new."""
    number = 0
    while reported:
        exposing = ((whose, reports) for whose, reports in reported.items() if reports.by_variant)
        new = insert_new([_exposure(*whose, reports) for whose, reports in exposing])
        number += len(new)
        known = {whose: reports for whose, reports in reported.items() if whose not in new}
        found = {(exposure.experiment_id, exposure.user_id): exposure for exposure in share_exposures(known)}
        for whose, exposure in found.items():
            _reconcile(exposure, known[whose])
        # The others were there, and then erased. They are new now.
        reported = {whose: reports for whose, reports in known.items() if whose not in found and reports.by_variant}
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
    """Bring a stored exposure in line with what was reported, whatever other batches do to it at the same time."""
    mine = Exposure.objects.filter(experiment_id=exposure.experiment_id, user_id=exposure.user_id)
    if reports.seen_since(exposure.exposed_at) - {exposure.variant} and not exposure.is_in_several_variants:
        _change(mine, is_in_several_variants=True)
    if reports.by_variant:
        _move(mine, exposure, reports)


def _move(mine: QuerySet[Exposure], exposure: Exposure, reports: Reports) -> None:
    """Let it begin earlier, where it did; what was not told yet may turn out to be another variant."""
    first = reports.first()
    at, variant = first.at, first.variant
    if (at, variant) < (exposure.exposed_at, exposure.variant):
        is_later = Q(exposed_at__gt=at) | Q(exposed_at=at, variant__gt=variant)
        changeable = mine.filter(is_later, origin__in=_NOT_TOLD)
        moved = {"variant": variant, "exposed_at": at, "phase": reports.phase_of(first), "origin": reports.origin}
        _change(changeable, **moved, attributes=kept_of(first.attributes))
    seen = reports.by_variant.get(exposure.variant)
    if seen is None:
        return
    told = mine.filter(variant=exposure.variant)
    if reports.origin == Origin.IMPORTED and exposure.origin == Origin.ASSIGNED:
        # It is as if it had been imported first: in the phase of that moment.
        began = min(seen.at, exposure.exposed_at)
        phase = number_at(reports.phases, began)
        _change(told.filter(origin=Origin.ASSIGNED), origin=Origin.TOLD, exposed_at=began, phase=phase)
    if seen.at < exposure.exposed_at:
        # What was told begins earlier, and keeps what was known of the user then.
        _change(told.filter(attributes__isnull=True), attributes=kept_of(seen.attributes))
        later = told.filter(exposed_at__gt=seen.at)
        # An event does not change by which phase this service has assigned: the clock of its client may be slow.
        _change(later.filter(origin=Origin.ASSIGNED), exposed_at=seen.at)
        _change(later, exposed_at=seen.at, phase=reports.phase_of(seen))


def _change(exposures: QuerySet[Exposure], **values: Any) -> None:
    exposures.update(**values, arrival=CurrentArrival())
