"""How the OpenAPI document describes a new phase of an experiment, its end, and how that is taken back."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema

from config.api.schema import IDEMPOTENCY, IF_MATCH, LOCATION, REASON, WHOLE_ETAG, answer, errors, key_in_path
from config.errors import ErrorCode
from experiments.api.experiment_serializers import (
    ExperimentSerializer,
    PhaseSerializer,
    ReopenSerializer,
    StopSerializer,
)
from experiments.lifecycle.new_phase import MOST_PHASES
from experiments.models import REOPENABLE_FOR

_KEY = key_in_path("experiment_key", "experiment")

open_phase = extend_schema(
    operation_id="open_phase",
    summary="Open a new phase of an experiment",
    description="A new phase changes how a running experiment assigns users: by other weights, another percentage or "
    "other conditions. At least one of these must be sent and differ. Users who were exposed before keep their "
    "variant and count for their phase. A flag that the experiment drives changes at the same moment. Results cover "
    "the newest phase and those directly before it with the same split: including more or other users costs nothing, "
    f"but other weights start a new comparison. A `reason` is required. There can be at most {MOST_PHASES} phases.",
    parameters=[*IDEMPOTENCY, _KEY, IF_MATCH, REASON, LOCATION, WHOLE_ETAG],
    request=PhaseSerializer,
    responses={
        201: answer(ExperimentSerializer, "The experiment, in its new phase."),
        **errors(
            ErrorCode.EXPERIMENT_NOT_FOUND,
            ErrorCode.PRECONDITION_FAILED,
            ErrorCode.INVALID_TRANSITION,
            ErrorCode.EXPERIMENT_LOCKED,
            ErrorCode.IDEMPOTENCY_CONFLICT,
            has_body=True,
        ),
    },
)


stop = extend_schema(
    operation_id="stop_experiment",
    summary="Stop an experiment",
    description="A running experiment stops: nothing after this moment counts for it, and it assigns no more "
    "variants. A flag that it drives follows its other rules again. With a `winner`, all of this happens in one "
    "transaction: the experiment stops, its results freeze, all users get the winner, and the rules of its flag "
    "serve it. The flag is not switched on or off. A `reason` is required if the users are not split by the "
    "weights, if the winner harms a guardrail, if fewer users came than planned, or if the verdict is not to ship "
    "that variant. The control as the winner needs none if the verdict is `do_not_ship`. The body may be left out "
    "or empty.",
    parameters=[_KEY, IF_MATCH, REASON, WHOLE_ETAG],
    request=StopSerializer,
    responses={
        200: answer(ExperimentSerializer, "The stopped experiment."),
        **errors(
            ErrorCode.EXPERIMENT_NOT_FOUND, ErrorCode.PRECONDITION_FAILED, ErrorCode.INVALID_TRANSITION, has_body=True
        ),
    },
)

reopen = extend_schema(
    operation_id="reopen_experiment",
    summary="Open an experiment again",
    description=f"Until {REOPENABLE_FOR.days} days after the stop, a stopped experiment runs again as if it had not "
    "been stopped: its flag gets its previous rules back, the winner is removed, and what was reported in the "
    "meantime counts. It is refused if its flag was changed since, even if that change was reverted, or if another "
    "experiment now has its flag or its share of the group. The body may be left out or empty.",
    parameters=[_KEY, IF_MATCH, REASON, WHOLE_ETAG],
    request=ReopenSerializer,
    responses={
        200: answer(ExperimentSerializer, "The running experiment."),
        **errors(
            ErrorCode.EXPERIMENT_NOT_FOUND,
            ErrorCode.PRECONDITION_FAILED,
            ErrorCode.INVALID_TRANSITION,
            ErrorCode.EXPERIMENT_LOCKED,
            ErrorCode.IN_USE,
            has_body=True,
        ),
    },
)
