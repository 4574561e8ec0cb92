"""The assignment audit of an experiment: every exposure compared with the hash and the configuration of its phase.

It reads exposures as a stream, so that a million need no more memory than ten. `classification` compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from django.db.models import BooleanField, Case, Exists, Min, OuterRef, QuerySet, TextField, Value, When
from django.db.models.functions import Least, TruncSecond

from config.database.transactions import read_consistently
from config.documents import Document
from config.timestamps import floor_to_second
from events.models import Event
from experiments.metrics.definition import definitions_of
from experiments.models import Experiment, Exposure, Origin
from experiments.models.documents import forced_until
from experiments.results.classification import AssignmentAudit, Cause, Design, Row, Tally, reads_attributes
from experiments.results.values import exposed_users

_BATCH = 5000
_USERS_A_QUERY = 500


def audit_assignments(
    experiment: Experiment, *, on_progress: Callable[[int], object] = lambda _: None
) -> AssignmentAudit:
    """Compare every exposure of a started experiment with the configuration of its phase.

    This takes seconds for a million users. `on_progress` is called with the number of exposures of each batch.
    """
    design = design_of(experiment)
    tally = Tally(design)
    with read_consistently():
        rows: Iterator[Any] = exposures_of(experiment, design).iterator(chunk_size=_BATCH)
        while batch := list(islice(rows, _BATCH)):
            suspects = tally.add(batch)
            reported = _reported_since(experiment, [row for row, _ in suspects])
            for row, cause in suspects:
                is_reported = row[:2] in reported and reported[row[:2]] <= row[2]
                tally.add_cause(Cause.SELF_REPORTED if is_reported else cause, row[0])
            on_progress(len(batch))
    return tally.result()


def count_events_before_exposure(experiment: Experiment) -> int:
    """Return how many events of the metrics exposed users sent from the start until their exposure.

    A large number suggests that exposures are reported too late, or not where the change is visible. This takes
    seconds for a million users.
    """
    assert experiment.started_at is not None  # noqa: S101 (a draft has no exposures)
    exposures = exposed_users(experiment).filter(user_id=OuterRef("user_id"))
    later = exposures.annotate(base=TruncSecond("exposed_at", tzinfo=UTC)).filter(
        base__gt=Least(OuterRef("timestamp"), OuterRef("received_at"))
    )
    names = {name for definition in definitions_of(experiment) for name in definition.events}
    events = Event.objects.filter(environment=experiment.environment_id, name__in=names)
    since_start = events.referring_to("", *experiment.references()).counted_from(floor_to_second(experiment.started_at))
    return since_start.filter(Exists(later)).count()


def design_of(experiment: Experiment) -> Design:
    """Return what the exposures of a started experiment are compared with.

    The users who were forced in the past come from the change log.
    """
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
    """Return the exposures as rows to be classified. Their attributes are read only if a condition needs them."""
    is_assigned = Case(When(origin=Origin.ASSIGNED, then=True), default=False, output_field=BooleanField())
    attributes = "attributes" if reads_attributes(design) else Value(None, output_field=TextField())
    rows = Exposure.objects.filter(experiment=experiment).order_by()
    columns = ("user_id", "variant", "exposed_at", is_assigned, "phase", _is_in_several(experiment), attributes)
    return rows.values_list(*columns)


def _is_in_several(experiment: Experiment) -> Case:
    """Return whether the user had seen another variant by the stop; what came later does not count."""
    since_then = {} if experiment.stopped_at is None else {"in_several_since__gt": experiment.stopped_at}
    later = [When(**since_then, then=False)] if since_then else []
    return Case(*later, default="is_in_several_variants", output_field=BooleanField())


def assignment_audit_document(audit: AssignmentAudit) -> Document:
    """Return the JSON of results and of the command, without examples."""
    return {
        "exposures": audit.exposures,
        "differing": audit.differing,
        "share": audit.share,
        **{str(cause): audit.causes[cause] for cause in Cause},
        "inSeveralVariants": audit.in_several_variants,
        "beforeStart": audit.before_start,
        "afterStop": audit.after_stop,
    }


def parse_assignment_audit(document: Document) -> AssignmentAudit:
    """Return the audit of which `assignment_audit_document` returned this document."""
    return AssignmentAudit(
        exposures=document["exposures"],
        causes={cause: document[cause] for cause in Cause},
        in_several_variants=document["inSeveralVariants"],
        before_start=document["beforeStart"],
        after_stop=document["afterStop"],
    )


def _reported_since(experiment: Experiment, rows: Sequence[Row]) -> dict[tuple[str, str], datetime]:
    """Return the first moment at which events reported a variant, by user and variant, for the users of these rows.

    A user who then asks for a variant keeps the reported one.
    """
    since: dict[tuple[str, str], datetime] = {}
    if rows:
        events = Event.objects.filter(environment=experiment.environment_id).referring_to(*experiment.references())
        for start in range(0, len(rows), _USERS_A_QUERY):
            users = [row[0] for row in rows[start : start + _USERS_A_QUERY]]
            reports = events.exclude(variant="").exclude(is_doubted=True).filter(user_id__in=users).order_by()
            first = reports.values_list("user_id", "variant").annotate(since=Min(Least("timestamp", "received_at")))
            since.update(((user_id, variant), moment) for user_id, variant, moment in first)
    return since
