"""How the OpenAPI document describes a new phase of an experiment, its end, and how that is taken back."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, extend_schema

from config.api.schema import IDEMPOTENCY, IF_MATCH, LOCATION, REASON, WHOLE_ETAG, answer, errors, key_in_path
from config.errors import ErrorCode
from experiments.api.examples import EVEN, FLAG, RUNNING, STARTED_AT
from experiments.api.experiment_serializers import (
    ExperimentSerializer,
    PhaseSerializer,
    ReopenSerializer,
    StopSerializer,
)
from experiments.lifecycle.new_phase import MOST_PHASES
from experiments.models import REOPENABLE_FOR

_KEY = key_in_path("experiment_key", "experiment")
_WHY = "A day at 10 % broke nothing."
_RAMPED_UP = {
    **RUNNING,
    "percentage": 50,
    "phases": [
        {
            "number": 1,
            "startedAt": STARTED_AT,
            "variants": EVEN,
            "percentage": 10,
            "conditions": [],
            "reason": "",
        },
        {
            "number": 2,
            "startedAt": "2026-02-01T13:00:00.000000Z",
            "variants": EVEN,
            "percentage": 50,
            "conditions": [],
            "reason": _WHY,
        },
    ],
}

open_phase = extend_schema(
    operation_id="open_phase",
    summary="Open a new phase of an experiment",
    description="The one way to change how a running experiment assigns users: by other weights, another percentage or "
    "other conditions, of which one at least must be sent and differ. Who was exposed before keeps the variant and "
    "counts for the phase it was in. A flag that the experiment drives changes at the same moment. Results cover the "
    "newest phase and those directly before it that split users alike: to let in more users, or others, costs nothing, "
    f"but with other weights a comparison begins anew. A `reason` is needed. At most {MOST_PHASES} phases.",
    parameters=[*IDEMPOTENCY, _KEY, IF_MATCH, REASON, LOCATION, WHOLE_ETAG],
    request=PhaseSerializer,
    responses={
        201: answer(ExperimentSerializer, "The experiment, in its new phase.", _RAMPED_UP),
        **errors(
            ErrorCode.EXPERIMENT_NOT_FOUND,
            ErrorCode.PRECONDITION_FAILED,
            ErrorCode.INVALID_TRANSITION,
            ErrorCode.EXPERIMENT_LOCKED,
            ErrorCode.IDEMPOTENCY_CONFLICT,
            has_body=True,
        ),
    },
    examples=[
        OpenApiExample("More users", value={"percentage": 50, "reason": _WHY}, request_only=True),
        OpenApiExample(
            "Fewer of a variant",
            value={
                "variants": [{"key": "control", "weight": 90}, {"key": "green", "weight": 10}],
                "reason": "Complaints about green.",
            },
            request_only=True,
        ),
    ],
)

_RUNNING = {**RUNNING, "flag": FLAG}
_STOPPED = {**_RUNNING, "status": "stopped", "winner": "green", "stoppedAt": "2026-02-14T13:00:00.000000Z"}

stop = extend_schema(
    operation_id="stop_experiment",
    summary="Stop an experiment",
    description="A running experiment becomes stopped: nothing after this moment counts for it, and it assigns no more "
    "variants. A flag that it drives goes by its other rules again. With a `winner`, all of this happens at "
    "once or not at all: it stops, its results freeze, everybody gets that variant, and the rules of its flag"
    " become those that serve the winner. The flag is not switched on or off. A `reason` is demanded where "
    "the users are not split as the weights say, where the winner harms a guardrail, where fewer users came "
    "than were planned, and where the verdict is not to ship that very variant; the control needs none for "
    "that where the verdict is `do_not_ship`. Takes a body, none, or an empty one.",
    parameters=[_KEY, IF_MATCH, REASON, WHOLE_ETAG],
    request=StopSerializer,
    responses={
        200: answer(ExperimentSerializer, "The stopped experiment.", _STOPPED),
        **errors(
            ErrorCode.EXPERIMENT_NOT_FOUND, ErrorCode.PRECONDITION_FAILED, ErrorCode.INVALID_TRANSITION, has_body=True
        ),
    },
    examples=[
        OpenApiExample("Undecided", value={}, request_only=True),
        OpenApiExample("A winner", value={"winner": "green"}, request_only=True),
        OpenApiExample(
            "Against the verdict",
            value={"winner": "green", "holdback": 5, "reason": "Support has half as many questions about it."},
            request_only=True,
        ),
    ],
)

reopen = extend_schema(
    operation_id="reopen_experiment",
    summary="Open an experiment again",
    description=f"Until {REOPENABLE_FOR.days} days after the stop, a stopped experiment runs again as if it had not "
    "been stopped: its flag gets the rules back that it had, the winner is none any more, and what was reported "
    "meanwhile counts. It is refused where its flag was changed in any way since, even where that was changed back, "
    "or where another experiment has its flag or its part of the group by now. Takes a body, none, or an empty one.",
    parameters=[_KEY, IF_MATCH, REASON, WHOLE_ETAG],
    request=ReopenSerializer,
    responses={
        200: answer(ExperimentSerializer, "The running experiment.", _RUNNING),
        **errors(
            ErrorCode.EXPERIMENT_NOT_FOUND,
            ErrorCode.PRECONDITION_FAILED,
            ErrorCode.INVALID_TRANSITION,
            ErrorCode.EXPERIMENT_LOCKED,
            ErrorCode.IN_USE,
            has_body=True,
        ),
    },
    examples=[
        OpenApiExample("Nothing", value={}, request_only=True),
        OpenApiExample("A reason", value={"reason": "It was stopped by mistake."}, request_only=True),
    ],
)
