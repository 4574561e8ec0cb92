"""How the OpenAPI document describes the operations of /v1/experiments, the steps of an experiment included."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema

from config.api.schema import (
    IDEMPOTENCY,
    IF_MATCH,
    LOCATION,
    NOT_MODIFIED,
    READING_WHOLE,
    REASON,
    TEXT,
    WHOLE_ETAG,
    answer,
    errors,
    key_in_path,
    paging,
    query,
)
from config.api.serializers import NoBodySerializer
from config.errors import ErrorCode
from experiments.api.experiment_serializers import (
    AssignmentRequestSerializer,
    AssignmentSerializer,
    AssignmentsRequestSerializer,
    ExperimentEntrySerializer,
    ExperimentSerializer,
    ExperimentUpdateSerializer,
    PhaseSerializer,
    ReopenSerializer,
    RunningAssignmentSerializer,
    StopSerializer,
)
from experiments.lifecycle.new_phase import MOST_PHASES
from experiments.models import REOPENABLE_FOR, Status

_KEY = key_in_path("experiment_key", "experiment")

list_experiments = extend_schema(
    operation_id="list_experiments",
    summary="List experiments",
    description="The experiments of the environment, newest first. Without `limit` the answer holds all of them; with "
    "it, the `Link` header names the next page.",
    parameters=[
        query("status", {"type": "string", "enum": Status.values}, "Only experiments of this status."),
        query("search", TEXT, "Part of the key or the description, in any case."),
        *paging(),
    ],
    responses={200: answer(ExperimentEntrySerializer(many=True), "The experiments."), **errors()},
)

retrieve = extend_schema(
    operation_id="get_experiment",
    summary="Get an experiment",
    description="The experiment with its results, which include everything that was acknowledged before the request. "
    "Each write of the experiment makes a new version. The `ETag` also changes with the results, so 304 says that "
    "nothing in the answer has changed.",
    parameters=[_KEY, *READING_WHOLE],
    responses={
        200: answer(ExperimentSerializer, "The experiment."),
        **NOT_MODIFIED,
        **errors(ErrorCode.EXPERIMENT_NOT_FOUND),
    },
)

create = extend_schema(
    operation_id="create_experiment",
    summary="Create an experiment",
    description="`key` and at least two `variants` with distinct keys are required. It starts as "
    "a draft. The first of `metrics` is the one that `results` reports: the share of exposed "
    "users with an event of that name. /v1/metrics defines what each name computes, and the start "
    "fixes these definitions. `tuningSampleSize` is the number of users at which the always-valid "
    "intervals are narrowest; it is fixed before the first look. Of the users who meet all "
    "`conditions` and whose bucket is in the experiment's share of a `group`, a `percentage` "
    "takes part. The request is refused if the share overlaps that of another draft or running "
    "experiment, or if a `flag` has no `serves`.",
    parameters=[*IDEMPOTENCY, REASON, LOCATION, WHOLE_ETAG],
    request=ExperimentSerializer,
    responses={
        201: answer(ExperimentSerializer, "The draft."),
        **errors(
            ErrorCode.ALREADY_EXISTS,
            ErrorCode.IN_USE,
            ErrorCode.IDEMPOTENCY_CONFLICT,
            has_body=True,
        ),
    },
)

partial_update = extend_schema(
    operation_id="update_experiment",
    summary="Change an experiment",
    description="Properties that you send replace the old ones, the others stay, and null removes a property. "
    "After the start, only the description and `forcedVariants` can be changed, and `metrics` can be added at the "
    "end. Adding a user to `forcedVariants` removes them from the results, past events included, unless the "
    "results are frozen. Added metrics are post hoc and decide nothing. You may edit what you read and send it "
    "back: properties that cannot be changed are accepted unchanged.",
    parameters=[_KEY, IF_MATCH, REASON, WHOLE_ETAG],
    request=ExperimentUpdateSerializer,
    responses={
        200: answer(ExperimentSerializer, "The changed experiment."),
        **errors(
            ErrorCode.EXPERIMENT_NOT_FOUND,
            ErrorCode.PRECONDITION_FAILED,
            ErrorCode.EXPERIMENT_LOCKED,
            ErrorCode.IN_USE,
            has_body=True,
        ),
    },
)

destroy = extend_schema(
    operation_id="delete_experiment",
    summary="Delete an experiment",
    description="Only a draft can be deleted; its history stays.",
    parameters=[_KEY, IF_MATCH, REASON],
    request=None,
    responses={
        204: None,
        **errors(
            ErrorCode.EXPERIMENT_NOT_FOUND,
            ErrorCode.PRECONDITION_FAILED,
            ErrorCode.EXPERIMENT_LOCKED,
        ),
    },
)

start = extend_schema(
    operation_id="start_experiment",
    summary="Start an experiment",
    description="A draft starts running and assigns variants. The definitions of its metrics are fixed at this moment. "
    "The flag that it drives gets the experiment's rule as its first rule, which cannot be changed until the "
    "experiment stops. The start is refused if another experiment drives that flag, or if the flag is archived. "
    "Send no body, an empty one or `{}`.",
    parameters=[_KEY, IF_MATCH, REASON, WHOLE_ETAG],
    request=NoBodySerializer,
    responses={
        200: answer(ExperimentSerializer, "The running experiment."),
        **errors(
            ErrorCode.EXPERIMENT_NOT_FOUND,
            ErrorCode.PRECONDITION_FAILED,
            ErrorCode.INVALID_TRANSITION,
            ErrorCode.IN_USE,
            has_body=True,
        ),
    },
)

variant = extend_schema(
    operation_id="get_variant",
    summary="Get the variant of a user",
    description="The same user always gets the same variant. The user's exposure is recorded, once and durably, "
    "before the answer. The exposure of a new user also stores the plain `attributes`. "
    "Once exposed, a user keeps the variant, even if conditions, percentage or weights change later. Users whom the "
    "experiment does not include see the control, and testers see their forced variant: then `inExperiment` is false, "
    "`reason` says why, and nothing is recorded. Once a winner is declared, all users see it.",
    parameters=[_KEY],
    request=AssignmentRequestSerializer,
    responses={
        200: answer(AssignmentSerializer, "The assignment."),
        **errors(ErrorCode.EXPERIMENT_NOT_FOUND, ErrorCode.EXPERIMENT_NOT_RUNNING, has_body=True),
    },
)

variants = extend_schema(
    operation_id="get_variants",
    summary="Get the variants of a user in all running experiments",
    description="The assignments are ordered by the keys of the experiments. With `record`, one transaction records an "
    "exposure to each experiment that includes the user. Otherwise nothing is recorded, and the variant is what Get "
    "Variant would answer now.",
    request=AssignmentsRequestSerializer,
    responses={
        200: answer(
            RunningAssignmentSerializer(many=True),
            "The assignments.",
        ),
        **errors(has_body=True),
    },
)


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
    description="A running experiment stops: nothing after this moment counts for it, and it "
    "assigns no more variants. A flag that it drives follows its other rules again. With a "
    "`winner`, all of this happens in one transaction: the experiment stops, its results freeze, "
    "all users get the winner, and the rules of its flag serve it. The flag is not switched on or "
    "off. A `reason` is required if the users are not split by the weights, if the winner harms a "
    "guardrail, if fewer users came than planned, or if the verdict is not to ship that variant. "
    "Shipping the control requires no reason if the verdict is `do_not_ship`. The body may be "
    "left out or empty.",
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
