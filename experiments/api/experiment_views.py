"""The /v1/experiments operations: each parses, makes one call of the domain, and serialises."""

from __future__ import annotations

from typing import Annotated, Any

import django_filters
from django.db.models import Q
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from msgspec import UNSET
from rest_framework.request import Request
from rest_framework.response import Response

from config.answers import Answer, described, one_of
from config.api.authentication import Caller
from config.api.bodies import UserRequest
from config.api.filters import ChoiceFilter, StrictFilterBackend, SwitchFilter, TextFilter, refuse_parameters
from config.api.idempotency import idempotent
from config.api.pagination import KeysetPagination
from config.api.permissions import Access
from config.api.renderers import envelope
from config.api.schema import answer, operation
from config.api.serializers import NoBodySerializer
from config.api.structs import schema_of
from config.api.views import ApiViewSet
from config.documents import Document, is_same
from config.errors import ErrorCode
from config.models import Scope
from config.serving.fast_lane import Call, Fast, Reply
from config.slugs import NAME_LENGTH
from experiments.api.experiment_serializers import (
    Assignment,
    AssignmentRequestSerializer,
    AssignmentsRequestSerializer,
    ExperimentEntrySerializer,
    ExperimentSerializer,
    ExperimentUpdateSerializer,
    PhaseSerializer,
    ReopenSerializer,
    RunningAssignment,
    StopSerializer,
)
from experiments.api.permissions import require_flag
from experiments.exposures.assignment import Assignment as UserAssignment
from experiments.exposures.assignment import get_remembered_variant, get_variant, get_variants, remembers
from experiments.lifecycle import changes as lifecycle
from experiments.lifecycle import new_phase
from experiments.lifecycle.checklist import Check, Level, check_experiment
from experiments.lifecycle.new_phase import MAX_PHASES
from experiments.models import REOPENABLE_FOR, Experiment, ExperimentQuerySet, Status
from experiments.models.documents import get_experiment
from flags.usage import recent_users

_ASSIGNMENTS = schema_of(list[RunningAssignment])


class ExperimentFilter(django_filters.FilterSet):
    status = ChoiceFilter(Status.values, label="Only experiments of this status.")
    search = TextFilter(method="search_text", label="Part of the key or the description, in any case.")

    owner = TextFilter(field_name="owner", max_length=NAME_LENGTH, label="The owner of the experiment, exactly.")
    archived = SwitchFilter(
        method="choose_archived", label="`true`: only archived experiments. `false`, as by default: only the others."
    )

    class Meta:
        model = Experiment
        fields = ()

    def filter_queryset(self, queryset: ExperimentQuerySet) -> Any:
        has_archived = self.form.cleaned_data["archived"] is not None
        return super().filter_queryset(queryset if has_archived else queryset.current())

    def choose_archived(self, experiments: ExperimentQuerySet, _name: str, is_archived: bool) -> ExperimentQuerySet:
        return experiments.archived() if is_archived else experiments.current()

    def search_text(self, experiments: ExperimentQuerySet, _name: str, text: str) -> ExperimentQuerySet:
        return experiments.filter(Q(key__icontains=text) | Q(description__icontains=text))


class ExperimentPagination(KeysetPagination):
    ordering = ("-created_at", "-id")


class AssignmentsRequest(UserRequest, forbid_unknown_fields=True):
    record: bool = False


def assignment_answer(assignment: UserAssignment) -> Document:
    """Return the answer of Get Variant."""
    in_experiment = UNSET if assignment.reason is None else False
    return Assignment.of(assignment, in_experiment=in_experiment).as_json()


def answer_remembered_variant(call: Call) -> Reply | None:
    """Answer Get Variant in the fast lane, for users whose variant this process remembers."""
    request = call.read()
    if request is None:
        return None
    environment = call.caller.environment
    assignment = get_remembered_variant(key=call.key, environment=environment, user_id=request.userId)
    if assignment is None:
        return None
    recent_users.of_process.record(environment, request.userId, request.attributes, call.now)
    return Reply(envelope(assignment_answer(assignment)))


def is_remembered(caller: Caller, key: str, request: UserRequest) -> bool:
    return remembers(key=key, environment=caller.environment, user_id=request.userId)


@extend_schema(tags=["Experiments"])
class ExperimentViewSet(ApiViewSet):
    access = {
        "list": Access(Scope.SERVER, "experiments.view_experiment"),
        "retrieve": Access(Scope.SERVER, "experiments.view_experiment"),
        "create": Access(Scope.MANAGE, "experiments.add_experiment"),
        "partial_update": Access(Scope.MANAGE, "experiments.change_experiment"),
        "destroy": Access(Scope.MANAGE, "experiments.delete_experiment"),
        "start": Access(Scope.MANAGE, "experiments.change_experiment"),
        "stop": Access(Scope.MANAGE, "experiments.change_experiment"),
        "reopen": Access(Scope.MANAGE, "experiments.change_experiment"),
        "archive": Access(Scope.MANAGE, "experiments.change_experiment"),
        "unarchive": Access(Scope.MANAGE, "experiments.change_experiment"),
        "open_phase": Access(Scope.MANAGE, "experiments.change_experiment"),
        "variant": Access(Scope.CLIENT, "experiments.add_exposure"),
        "variants": Access(Scope.CLIENT, "experiments.add_exposure"),
    }
    bodies = {"variant": UserRequest, "variants": AssignmentsRequest}
    fast_lane = {"variant": Fast(answer_remembered_variant, is_from_memory=is_remembered)}
    answers_from_memory = ("variant", "variants")
    serializer_class = ExperimentSerializer
    pagination_class = ExperimentPagination
    filter_backends = (StrictFilterBackend,)
    filterset_class = ExperimentFilter
    lookup_url_kwarg = "experiment_key"
    lookup_field = "key"
    etag_of = "answer"

    def get_queryset(self) -> ExperimentQuerySet:
        return Experiment.objects.in_environment(self.environment)

    def get_serializer_class(self) -> Any:
        return ExperimentEntrySerializer if self.action == "list" else ExperimentSerializer

    @operation(
        "list_experiments",
        "List experiments",
        description="Returns the experiments of the environment that are not archived, the newest first. With "
        "`limit`, the `Link` header has the address of the next page.",
        responses={200: answer(ExperimentEntrySerializer(many=True), "The experiments.")},
    )
    def list(self, request: Request) -> Response:
        return self.page(request)

    @operation(
        "get_experiment",
        "Get an experiment",
        description="Returns the experiment with its results, which include everything that was acknowledged before "
        "the request. Each write of the experiment makes a new version. The `ETag` also changes with the results, so "
        "304 says that nothing in the answer has changed.",
        responses={200: answer(ExperimentSerializer, "The experiment.")},
    )
    def retrieve(self, request: Request, experiment_key: str) -> Response:
        self.refuse_input(request)
        return self._answer(lifecycle.get_experiment(experiment_key, self.environment))

    @operation(
        "create_experiment",
        "Create an experiment",
        description="Creates a draft. `key` and at least two `variants` with distinct keys are required. `metrics` "
        "names metrics, or events; `/v1/metrics` defines what each name computes. `results` reports the first of "
        "them, as the share of exposed users with an event of that name.\n\n"
        "A user takes part who meets all `conditions`, whose bucket is in the experiment's share of a `group`, and "
        "who is within the `percentage`. The request is refused if the share of the group overlaps that of another "
        "draft or running experiment, if a `flag` has no `serves`, or if it has fewer rules than `flag.position`.\n\n"
        "The start fixes the definitions of the metrics, and the plan: `plannedSampleSize`, `minimumEffect`, "
        "`analysis`, `minimumDays`, `lookbackDays` and `tuningSampleSize`.",
        responses={201: answer(ExperimentSerializer, "The draft.")},
        errors=[ErrorCode.ALREADY_EXISTS, ErrorCode.IN_USE],
    )
    @idempotent
    def create(self, request: Request) -> Response:
        refuse_parameters(request)
        values = self.validated(request.data)
        experiment = lifecycle.create_experiment(**values, environment=self.environment, **self.provenance)
        location = request.build_absolute_uri(f"/v1/experiments/{experiment.key}")
        return self._answer(experiment, status=201, headers={"Location": location})

    @operation(
        "update_experiment",
        "Change an experiment",
        description="Properties that you send replace the old ones, the others stay, and null removes a property. "
        "After the start, only the description, `owner`, `hypothesis` and `forcedVariants` can be changed, and "
        "`metrics` can be added at the end. Adding a user to `forcedVariants` removes them from the results, past "
        "events included, unless the results are frozen. Added metrics are post hoc and decide nothing. You may edit "
        "what you read and send it back: properties that cannot be changed are accepted unchanged.",
        request=ExperimentUpdateSerializer,
        responses={200: answer(ExperimentSerializer, "The changed experiment.")},
        errors=[ErrorCode.EXPERIMENT_LOCKED, ErrorCode.IN_USE],
    )
    def partial_update(self, request: Request, experiment_key: str) -> Response:
        refuse_parameters(request)
        experiment = lifecycle.get_experiment(experiment_key, self.environment)
        lifecycle.check_version(experiment, self.if_match)  # before the body, which was read of that version
        sent = self.sent_changes(request)
        serializer = ExperimentUpdateSerializer(experiment, data=sent, partial=True, context={"now": self.now})
        serializer.is_valid(raise_exception=True)
        changes = serializer.validated_data
        forced = changes.get("forced_variants", experiment.forced_variants) or {}
        is_forcing = experiment.status == Status.RUNNING and not is_same(forced, experiment.forced_variants)
        if is_forcing and self.caller.scope is None:
            require_flag(request.user, experiment)
        experiment = lifecycle.update_experiment(**self._write(experiment_key), changes=changes)
        return self._answer(experiment)

    @operation(
        "delete_experiment",
        "Delete an experiment",
        description="Deletes a draft. Its history stays. An experiment that has started cannot be deleted.",
        responses={204: None},
        errors=[ErrorCode.EXPERIMENT_LOCKED],
    )
    def destroy(self, request: Request, experiment_key: str) -> Response:
        self.refuse_input(request)
        lifecycle.delete_experiment(**self._write(experiment_key))
        return Response(status=204)

    @operation(
        "start_experiment",
        "Start an experiment",
        description="Starts a draft, which assigns variants from now on. The definitions of its metrics are fixed at "
        "this moment. The flag that it drives gets the experiment's rule, before all its rules or at `flag.position`. "
        "The rule and those before it cannot be changed until the experiment stops. The start is refused if another "
        "experiment drives that flag, if the flag is archived, or if it has fewer rules than `flag.position`. Send no "
        "body, an empty one or `{}`.",
        request=NoBodySerializer,
        responses={200: answer(ExperimentSerializer, "The running experiment.")},
        errors=[ErrorCode.INVALID_TRANSITION, ErrorCode.IN_USE],
    )
    def start(self, request: Request, experiment_key: str) -> Response:
        self.refuse_input(request)
        return self._answer(lifecycle.start_experiment(**self._step(request, experiment_key)))

    @operation(
        "stop_experiment",
        "Stop an experiment",
        description="Stops a running experiment: nothing after this moment counts for it, and it assigns no more "
        "variants. A flag that it drives follows its other rules again. The body may be left out or empty.\n\n"
        "With a `winner`, the results also freeze, Get Variant answers the winner to all users, and the flag serves it "
        "to the users that `shipTo` names. All of this happens in one transaction. If the flag is off, `enable` must "
        "say whether to switch it on.\n\n"
        "The stop cuts off the windows of users who were exposed shortly before: `waiting` in the results says for how "
        "many users, by metric and variant. With `keepCounting`, nobody is exposed any more either, but their events "
        "count until all windows are over, at `countsUntil`. The results freeze a day later.\n\n"
        "A winner requires a `reason` in these cases:\n\n"
        "- The users are not split by the weights.\n"
        "- The winner harms a guardrail, or a guardrail is undecided.\n"
        "- The shortest run is not over.\n"
        "- Fewer users came than planned.\n"
        "- Windows are open that the stop cuts off. With `keepCounting`, it cuts off none.\n"
        "- Shipping to everyone removes rules of the flag.\n"
        "- Shipping to everyone, or switching the flag on, changes what recent users see who are not in the "
        "experiment.\n"
        "- The verdict is not to ship that variant. The control requires no reason if it is `do_not_ship`.",
        request=StopSerializer,
        responses={200: answer(ExperimentSerializer, "The stopped experiment.")},
        errors=[ErrorCode.INVALID_TRANSITION],
    )
    def stop(self, request: Request, experiment_key: str) -> Response:
        refuse_parameters(request)
        values = self.validated(self.optional_body(request), StopSerializer)
        return self._answer(
            lifecycle.stop_experiment(**self._step(request, experiment_key) | values, clock=timezone.now)
        )

    @operation(
        "reopen_experiment",
        "Open an experiment again",
        description="Lets a stopped experiment run again as if it had not been stopped. Its flag gets its previous "
        "rules back, and is off again if the stop switched it on. The winner is removed, and what was reported in the "
        f"meantime counts. This is possible for {REOPENABLE_FOR.days} days after the stop. It is refused if its flag "
        "was changed since, even if that change was reverted. It is also refused if another experiment now has its "
        "flag or its share of the group. The body may be left out or empty.",
        request=ReopenSerializer,
        responses={200: answer(ExperimentSerializer, "The running experiment.")},
        errors=[ErrorCode.INVALID_TRANSITION, ErrorCode.EXPERIMENT_LOCKED, ErrorCode.IN_USE],
    )
    def reopen(self, request: Request, experiment_key: str) -> Response:
        refuse_parameters(request)
        values = self.validated(self.optional_body(request), ReopenSerializer)
        return self._answer(lifecycle.reopen_experiment(**self._step(request, experiment_key) | values))

    @operation(
        "archive_experiment",
        "Archive an experiment",
        description="Lists no longer show the experiment. Its results and history stay, and a draft gives its share of "
        "a group back. A running experiment is refused, and an archived one stays as it is. An archived experiment "
        "cannot start or be reopened. Send no body, an empty one or `{}`.",
        request=NoBodySerializer,
        responses={200: answer(ExperimentSerializer, "The archived experiment.")},
        errors=[ErrorCode.INVALID_TRANSITION],
    )
    def archive(self, request: Request, experiment_key: str) -> Response:
        self.refuse_input(request)
        return self._answer(lifecycle.archive_experiment(**self._write(experiment_key)))

    @operation(
        "unarchive_experiment",
        "Take an experiment out of the archive",
        description="Lists show the experiment again. It is refused if another experiment now has a draft's share of "
        "its group. An experiment that is not archived stays as it is; a running one is refused. Send no body, an "
        "empty one or `{}`.",
        request=NoBodySerializer,
        responses={200: answer(ExperimentSerializer, "The experiment.")},
        errors=[ErrorCode.INVALID_TRANSITION, ErrorCode.IN_USE],
    )
    def unarchive(self, request: Request, experiment_key: str) -> Response:
        self.refuse_input(request)
        return self._answer(lifecycle.unarchive_experiment(**self._write(experiment_key)))

    @operation(
        "open_phase",
        "Open a new phase of an experiment",
        description="Changes how a running experiment assigns users: by other weights, another percentage or other "
        "conditions. At least one of these must be sent and differ. A `reason` is required. There can be at most "
        f"{MAX_PHASES} phases.\n\n"
        "Users who were exposed before keep their variant and count for their phase. A flag that the experiment "
        "drives changes at the same moment. Results cover all phases. Phases with the same split are pooled. Those "
        "with other weights are combined as strata, over the phases in which both variants of a comparison had users.",
        request=PhaseSerializer,
        responses={201: answer(ExperimentSerializer, "The experiment, in its new phase.")},
        errors=[ErrorCode.INVALID_TRANSITION, ErrorCode.EXPERIMENT_LOCKED],
    )
    @idempotent
    def open_phase(self, request: Request, experiment_key: str) -> Response:
        refuse_parameters(request)
        changes = dict(self.validated(request.data, PhaseSerializer))
        common = self._step(request, experiment_key)
        common["reason"] = changes.pop("reason", common["reason"])
        experiment = new_phase.open_phase(**common, changes=changes)
        location = request.build_absolute_uri(f"/v1/experiments/{experiment.key}")
        return self._answer(experiment, status=201, headers={"Location": location})

    @operation(
        "get_variant",
        "Get the variant of a user",
        description="Returns the variant that the user sees. The same user always gets the same variant, even if "
        "conditions, percentage or weights change later. The user's exposure is recorded once, before the answer. It "
        "stores the plain `attributes` of the request.\n\n"
        "Users whom the experiment does not include see the control, and testers see their forced variant. "
        "`inExperiment` is then false, `reason` says why, and nothing is recorded. If the experiment drives a flag, "
        "users whom the flag does not lead to it are not included either: if the flag is off, a prerequisite is not "
        "met, or an earlier rule matches. Once a winner is declared, all users see it.",
        request=AssignmentRequestSerializer,
        responses={200: answer(schema_of(Assignment), "The assignment.")},
        errors=[ErrorCode.EXPERIMENT_NOT_RUNNING],
    )
    def variant(self, request: Request, experiment_key: str) -> Response:
        refuse_parameters(request)
        body = self.read_body(request, AssignmentRequestSerializer)
        assignment = get_variant(
            key=experiment_key,
            environment=self.environment,
            user_id=body.userId,
            attributes=body.attributes,
            now=self.now,
            require=self.require_current_caller,
        )
        recent_users.of_process.record(self.environment, body.userId, body.attributes, self.now)
        return Response(assignment_answer(assignment))

    @operation(
        "get_variants",
        "Get the variants of a user in all running experiments",
        description="Returns the assignments in the order of the experiments' keys. With `record`, one transaction "
        "records an exposure to each experiment that includes the user. Otherwise nothing is recorded, and the "
        "variant is what Get Variant would answer now.",
        request=AssignmentsRequestSerializer,
        responses={200: answer(_ASSIGNMENTS, "The assignments.")},
    )
    def variants(self, request: Request) -> Response:
        refuse_parameters(request)
        body = self.read_body(request, AssignmentsRequestSerializer)
        assignments = get_variants(
            environment=self.environment,
            user_id=body.userId,
            attributes=body.attributes,
            record=body.record,
            now=self.now,
            require=self.require_current_caller,
        )
        recent_users.of_process.record(self.environment, body.userId, body.attributes, self.now)
        return Response(
            [
                RunningAssignment.of(assignment, experiment=key, in_experiment=assignment.reason is None).as_json()
                for key, assignment in assignments.items()
            ]
        )

    def _answer(self, experiment: Experiment, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        body = ExperimentSerializer(experiment, context={"now": self.now}).data
        return self.versioned(body, experiment.etag, status=status, headers=headers)

    def _write(self, key: str) -> dict[str, Any]:
        return {"key": key, "environment": self.environment, "if_match": self.if_match, **self.provenance}

    def _step(self, request: Request, key: str) -> dict[str, Any]:
        """Return the same arguments, after a check of the right to write the flag that the experiment drives."""
        if self.caller.scope is None:  # a signed-in user
            require_flag(request.user, lifecycle.get_experiment(key, self.environment))
        return self._write(key)


class Finding(Answer):
    """One thing that was checked, and its result."""

    check: Annotated[str, one_of(Check), described("What was checked.")]
    status: Annotated[str, one_of(Level), described("The result; `unknown` if it cannot be known yet.")]
    message: Annotated[str, described("Why, and what to do about it.")]


_EXAMPLE = {
    "check": "metric_seen",
    "status": "warning",
    "message": "purchase: no event purchase in the last 7 days; check that it is tracked.",
}


@extend_schema(tags=["Experiments"])
class ChecklistViewSet(ApiViewSet):
    access = {"list": Access(Scope.SERVER, "experiments.view_experiment")}

    @operation(
        "check_experiment",
        "Check an experiment before its start",
        description="Checks what could make the results of an experiment unreliable, and returns a finding for each "
        "check. Checks of metrics have a finding for each metric. The findings do not prevent the start.\n\n"
        "- Metrics: their events came lately, one of them decides, and their tests were calibrated.\n"
        "- Users: the split, the flag, how many recent users the start affects, the group, and running experiments "
        "that may share users.\n"
        "- Plan: how long the planned size takes, and whether it suffices for the smallest effect and the guardrails. "
        "Also the shortest run and the look-back.",
        responses={200: answer(schema_of(list[Finding]), "The findings.", [_EXAMPLE])},
    )
    def list(self, request: Request, experiment_key: str) -> Response:
        self.refuse_input(request)
        findings = check_experiment(get_experiment(experiment_key, self.environment), self.now)
        return Response([Finding.of(finding).as_json() for finding in findings])
