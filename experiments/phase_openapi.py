"""How the OpenAPI document describes a new phase of an experiment."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, extend_schema

from config.api.schema import IDEMPOTENCY, LOCATION, REASON, answer, errors, key_in_path
from config.errors import ErrorCode
from experiments.examples import EVEN, RUNNING, STARTED_AT
from experiments.phase_changes import MOST_PHASES
from experiments.phase_serializers import PhaseSerializer
from experiments.serializers import ExperimentSerializer

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
    parameters=[*IDEMPOTENCY, key_in_path("experiment_key", "experiment"), REASON, LOCATION],
    request=PhaseSerializer,
    responses={
        201: answer(ExperimentSerializer, "The experiment, in its new phase.", _RAMPED_UP),
        **errors(
            ErrorCode.EXPERIMENT_NOT_FOUND,
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
