"""The operation of experiments in the fast lane: the variant of a user that this process remembers."""

from __future__ import annotations

from config.api.authentication import Caller
from config.api.bodies import check, convert, decode
from config.api.renderers import envelope
from config.serving.fast_lane.operations import Call, Reply, register
from experiments.api.experiment_views import AssignmentRequest, assignment_answer
from experiments.exposures.assignment import get_remembered_variant, remembers
from flags.recent_users import noting


def get_variant(call: Call) -> Reply | None:
    request = convert(call.json(), AssignmentRequest)
    if request is None:
        return None
    environment = call.caller.environment
    assignment = get_remembered_variant(key=call.key, environment=environment, user_id=request.userId)
    if assignment is None:
        return None
    noting.notebook.see(environment, request.userId, request.attributes, call.now)
    return Reply(envelope(assignment_answer(assignment)))


def is_remembered(caller: Caller, key: str, body: bytes) -> bool:
    """Return whether this process remembers the variant that a body asks for. Raises DomainError."""
    request = convert(check(decode(body)), AssignmentRequest)
    return request is not None and remembers(key=key, environment=caller.environment, user_id=request.userId)


register("/v1/experiments/<key>/variant", get_variant, records=True, is_from_memory=is_remembered)
