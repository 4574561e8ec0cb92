"""The operation of events in the fast lane: track one event. Events of several requests are recorded together."""

from __future__ import annotations

from collections.abc import Sequence

from config import snapshot
from config.api.renderers import envelope
from config.models import Environment, Scope
from config.serving.fast_lane.operations import Call, Failed, Reply, register_together
from events.api.event_views import acknowledgement, count_outcomes
from events.api.inputs import read_event
from events.recording.ingest import Outcome, record_each
from events.recording.rows import NewEvent, of_client


def track(calls: Sequence[Call]) -> list[Reply | Failed | None]:
    snapshot.require_current_keys()
    events = [_read(call) for call in calls]
    valid = [(event, call.caller.environment) for event, call in zip(events, calls, strict=True) if event is not None]
    recorded = _record(valid, calls[0]) if valid else []
    # Django finds the same conflicts, and counts them.
    count_outcomes([outcome for outcome in recorded if outcome in (Outcome.ACCEPTED, Outcome.DUPLICATE)])
    outcomes = iter(recorded)
    return [None if event is None else _reply(event, next(outcomes)) for event in events]


def _read(call: Call) -> NewEvent | None:
    try:
        call.require_same_caller()
        event = read_event(call.body, at=call.now)
        return of_client(event) if call.caller.scope is Scope.CLIENT else event
    except Exception:  # Django meets the same exception, and answers it
        return None


def _record(events: Sequence[tuple[NewEvent, Environment]], call: Call) -> Sequence[Outcome | Exception]:
    try:
        with call.using_database():
            return record_each(events)
    except Exception as error:
        return [error] * len(events)


def _reply(event: NewEvent, outcome: Outcome | Exception) -> Reply | Failed | None:
    if isinstance(outcome, Exception):  # if it was stored after all, Django would store it again, with another id
        return Failed(outcome)
    if outcome is Outcome.CONFLICT:
        return None  # Django finds the same, and explains it
    return Reply(envelope(acknowledgement(event, outcome)), status=202)


register_together("/v1/events", track)
