"""What events report of users, on its way into the table of exposures, whatever others do there at the same time.

Which events report an exposure, and of which experiment, is for `exposures`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from config.arrivals import CurrentArrival
from config.documents import Document
from events.rows import NewEvent
from experiments.attributes import kept_of_event
from experiments.exposure_rows import Whose, hold, insert_new
from experiments.models import Exposure, Origin
from experiments.phases import number_at

_CHANGED_BY = {Origin.REPORTED: [Origin.REPORTED], Origin.IMPORTED: [Origin.REPORTED, Origin.IMPORTED]}
"""Whose variant gives way to an earlier one. What the operator knows goes before what events say."""


@dataclass(frozen=True, slots=True)
class Reports:
    """What a batch of events says of one user in one experiment: for each variant, the event that saw it first."""

    phases: list[Document]
    """Of the experiment."""
    origin: Origin = Origin.REPORTED
    by_variant: dict[str, NewEvent] = field(default_factory=dict)

    def add(self, variant: str, event: NewEvent) -> None:
        self.by_variant[variant] = min(self.by_variant.get(variant, event), event, key=attrgetter("counted_at"))

    def first(self) -> NewEvent:
        # Two variants at the same instant: the order of their keys decides, so that the order of arrival does not.
        return min(self.by_variant.values(), key=attrgetter("counted_at", "variant"))

    def phase_of(self, event: NewEvent) -> int:
        return number_at(self.phases, event.counted_at)


def store(reported: dict[Whose, Reports]) -> int:
    """Store them, and return how many users are new."""
    number = 0
    while reported:
        new = insert_new([_exposure(*whose, reports) for whose, reports in reported.items()])
        number += len(new)
        known = {whose: reports for whose, reports in reported.items() if whose not in new}
        found = {(exposure.experiment_id, exposure.user_id): exposure for exposure in hold(known)}
        for whose, exposure in found.items():
            _reconcile(exposure, known[whose])
        # The others were there, and then erased. They are new now.
        reported = {whose: reports for whose, reports in known.items() if whose not in found}
    return number


def _exposure(experiment_id: UUID, user_id: str, reports: Reports) -> Exposure:
    first = reports.first()
    return Exposure(
        experiment_id=experiment_id,
        user_id=user_id,
        variant=first.variant,
        exposed_at=first.counted_at,
        origin=reports.origin,
        is_in_several_variants=len(reports.by_variant) > 1,
        phase=reports.phase_of(first),
        attributes=kept_of_event(first.properties),
    )


def _reconcile(exposure: Exposure, reports: Reports) -> None:
    """Bring a stored exposure in line with what was reported, whatever other batches do to it at the same time."""
    first, seen_in = reports.first(), reports.by_variant
    at, variant = first.counted_at, first.variant
    if seen_in.keys() == {exposure.variant} and exposure.exposed_at <= at:
        return  # nothing new, as for nearly every row of nearly every batch
    mine = Exposure.objects.filter(experiment_id=exposure.experiment_id, user_id=exposure.user_id)
    if seen_in.keys() - {exposure.variant} and not exposure.is_in_several_variants:
        _change(mine, is_in_several_variants=True)
    if (at, variant) < (exposure.exposed_at, exposure.variant):
        is_later = Q(exposed_at__gt=at) | Q(exposed_at=at, variant__gt=variant)
        changeable = mine.filter(is_later, origin__in=_CHANGED_BY[reports.origin])
        moved = {"variant": variant, "exposed_at": at, "phase": reports.phase_of(first), "origin": reports.origin}
        _change(changeable, **moved, attributes=kept_of_event(first.properties))
    seen = seen_in.get(exposure.variant)
    if seen is not None and seen.counted_at < exposure.exposed_at:
        # What was assigned begins earlier, and keeps what was known of the user then.
        assigned = mine.filter(variant=exposure.variant, exposed_at__gt=seen.counted_at)
        _change(assigned.filter(attributes__isnull=True), attributes=kept_of_event(seen.properties))
        _change(assigned, exposed_at=seen.counted_at, phase=reports.phase_of(seen))


def _change(exposures: QuerySet[Exposure], **values: Any) -> None:
    exposures.update(**values, arrival=CurrentArrival())
