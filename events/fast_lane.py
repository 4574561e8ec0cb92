"""The operation of events in the fast lane: track one event."""

from __future__ import annotations

from config import snapshot
from config.api.renderers import envelope
from config.database.waiting import require_waiting
from config.errors import ValidationFailed
from config.serving.fast_lane.operations import Call, Failed, Reply, register
from events.api.event_views import CONFLICT, acknowledgement
from events.api.inputs import read_event
from events.recording.ingest import Outcome, record_one


def track(call: Call) -> Reply | Failed:
    require_waiting()
    event = read_event(call.body, at=call.now)
    snapshot.require_current_keys()
    try:
        with call.using_database():
            outcome = record_one(event, call.caller.environment)
    except Exception as error:  # if it was stored after all, Django would store it once more, with another id
        return Failed(error)
    if outcome is Outcome.CONFLICT:
        raise ValidationFailed([CONFLICT])  # Django finds the same, and explains it
    return Reply(envelope(acknowledgement(event, outcome)), status=202)


register("/v1/events", track, records=True)
