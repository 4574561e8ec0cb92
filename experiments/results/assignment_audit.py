"""The audit of all exposures of an experiment, read one after the other: a million take no more memory than ten.

Not here: how one is judged (`judging`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from django.db.models import BooleanField, Case, Min, QuerySet, TextField, Value, When
from django.db.models.functions import Least

from config.database.consistent_reads import read_consistently
from config.documents import Document
from config.timestamps import floor_to_second
from events.models import Event
from experiments.models import Experiment, Exposure, Origin
from experiments.models.documents import forced_until
from experiments.results.classification import Assignments, Cause, Design, Row, Tally, reads_attributes

_AT_ONCE = 5000
_USERS_A_QUERY = 500


def audit_assignments(experiment: Experiment, *, on_progress: Callable[[int], object] = lambda _: None) -> Assignments:
    """Hold every exposure of a started experiment against the configuration of its phase.

    `on_progress` hears of each some thousands.
    """
    design = design_of(experiment)
    tally = Tally(design)
    with read_consistently():
        rows: Iterator[Any] = exposures_of(experiment, design).iterator(chunk_size=_AT_ONCE)
        while some := list(islice(rows, _AT_ONCE)):
            suspects = tally.add(some)
            reported = _reported(experiment, [row for row, _ in suspects])
            for row, cause in suspects:
                is_reported = row[:2] in reported and reported[row[:2]] <= row[2]
                tally.blame(Cause.SELF_REPORTED if is_reported else cause, row[0])
            on_progress(len(some))
    return tally.result()


def design_of(experiment: Experiment) -> Design:
    """What the exposures of a started experiment are judged by. Who was forced once, the change log tells."""
    assert experiment.started_at is not None  # noqa: S101 (a draft has no exposures)
    return Design(
        key=experiment.key,
        phases=experiment.phases,
        start=floor_to_second(experiment.started_at),
        stop=experiment.stopped_at,
        group=experiment.group,
        forced=frozenset(experiment.forced_variants),
        once_forced=frozenset(forced_until(experiment)),
    )


def exposures_of(experiment: Experiment, design: Design) -> QuerySet[Exposure, Any]:
    """The exposures as rows to be judged. Attributes are not read where nothing asks for them."""
    is_assigned = Case(When(origin=Origin.ASSIGNED, then=True), default=False, output_field=BooleanField())
    known = "attributes" if reads_attributes(design) else Value(None, output_field=TextField())
    rows = Exposure.objects.filter(experiment=experiment).order_by()
    return rows.values_list("user_id", "variant", "exposed_at", is_assigned, "phase", "is_in_several_variants", known)


def assignments_document(found: Assignments) -> Document:
    """As results and the command tell it, without examples."""
    return {
        "exposures": found.exposures,
        "differing": found.differing,
        "share": found.share,
        **{str(cause): found.causes[cause] for cause in Cause},
        "inSeveralVariants": found.in_several_variants,
        "beforeStart": found.before_start,
        "afterStop": found.after_stop,
    }


def parse_assignments(document: Document) -> Assignments:
    """What `assignments_document` made."""
    return Assignments(
        exposures=document["exposures"],
        causes={cause: document[cause] for cause in Cause},
        in_several_variants=document["inSeveralVariants"],
        before_start=document["beforeStart"],
        after_stop=document["afterStop"],
    )


def _reported(experiment: Experiment, rows: Sequence[Row]) -> dict[tuple[str, str], datetime]:
    """Of these users, who reported which variant, and since when: it stays theirs when they then ask for one."""
    found: dict[tuple[str, str], datetime] = {}
    if rows:
        told = Event.objects.filter(environment=experiment.environment_id).naming(*experiment.references())
        for at in range(0, len(rows), _USERS_A_QUERY):
            users = [row[0] for row in rows[at : at + _USERS_A_QUERY]]
            some = told.exclude(variant="").filter(user_id__in=users).order_by().values_list("user_id", "variant")
            since = some.annotate(since=Min(Least("timestamp", "received_at")))
            found.update(((user_id, variant), moment) for user_id, variant, moment in since)
    return found
