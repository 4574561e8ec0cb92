"""The /v1/experiments operations: each parses, makes one call of the domain, and serialises."""

from __future__ import annotations

from typing import Any

import django_filters
import msgspec
from django.db.models import Q
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.bodies import Name, convert
from config.api.filters import StrictFilterBackend, TextFilter, refuse_parameters
from config.api.idempotency import idempotent
from config.api.pagination import KeysetPagination
from config.api.permissions import Access
from config.api.views import ApiViewSet
from config.documents import is_same
from config.models import Scope
from experiments.api import experiment_openapi
from experiments.api.experiment_serializers import (
    AssignmentRequestSerializer,
    AssignmentsRequestSerializer,
    ExperimentEntrySerializer,
    ExperimentSerializer,
    ExperimentUpdateSerializer,
    PhaseSerializer,
    ReopenSerializer,
    StopSerializer,
)
from experiments.api.permissions import require_flag
from experiments.exposures.assignment import Assignment, get_variant, get_variants
from experiments.lifecycle import changes as lifecycle
from experiments.lifecycle import new_phase
from experiments.models import Experiment, ExperimentQuerySet, Status


class ExperimentFilter(django_filters.FilterSet):
    status = django_filters.ChoiceFilter(choices=Status.choices, label="Only experiments of this status.")
    search = TextFilter(method="search_text", label="Part of the key or the description, in any case.")

    class Meta:
        model = Experiment
        fields = ()

    def search_text(self, experiments: ExperimentQuerySet, _name: str, text: str) -> ExperimentQuerySet:
        return experiments.filter(Q(key__icontains=text) | Q(description__icontains=text))


class ExperimentPagination(KeysetPagination):
    ordering = ("-created_at", "-id")


class AssignmentRequest(msgspec.Struct, forbid_unknown_fields=True):
    userId: Name
    attributes: dict[str, Any] = {}


class AssignmentsRequest(AssignmentRequest, forbid_unknown_fields=True):
    record: bool = False


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
        "open_phase": Access(Scope.MANAGE, "experiments.change_experiment"),
        "variant": Access(Scope.CLIENT, "experiments.add_exposure"),
        "variants": Access(Scope.CLIENT, "experiments.add_exposure"),
    }
    serializer_class = ExperimentSerializer
    pagination_class = ExperimentPagination
    filter_backends = (StrictFilterBackend,)
    filterset_class = ExperimentFilter
    lookup_url_kwarg = "experiment_key"
    lookup_field = "key"

    def get_queryset(self) -> ExperimentQuerySet:
        return Experiment.objects.in_environment(self.environment)

    def get_serializer_class(self) -> Any:
        return ExperimentEntrySerializer if self.action == "list" else ExperimentSerializer

    @experiment_openapi.list_experiments
    def list(self, request: Request) -> Response:
        return self.page(request)

    @experiment_openapi.retrieve
    def retrieve(self, request: Request, experiment_key: str) -> Response:
        refuse_parameters(request)
        self.refuse_body(request)
        return self._answer(lifecycle.get_experiment(experiment_key, self.environment))

    @experiment_openapi.create
    @idempotent
    def create(self, request: Request) -> Response:
        refuse_parameters(request)
        values = self.validated(request.data)
        experiment = lifecycle.create_experiment(**values, environment=self.environment, **self.provenance)
        location = request.build_absolute_uri(f"/v1/experiments/{experiment.key}")
        return self._answer(experiment, status=201, headers={"Location": location})

    @experiment_openapi.partial_update
    def partial_update(self, request: Request, experiment_key: str) -> Response:
        refuse_parameters(request)
        experiment = lifecycle.get_experiment(experiment_key, self.environment)
        lifecycle.check_version(experiment, self.if_match)  # before the body, which was read of that version
        sent = self.sent_changes(request)
        serializer = ExperimentUpdateSerializer(experiment, data=sent, partial=True, context={"at": self.now})
        serializer.is_valid(raise_exception=True)
        changes = serializer.validated_data
        forced = changes.get("forced_variants", experiment.forced_variants) or {}
        is_forcing = experiment.status == Status.RUNNING and not is_same(forced, experiment.forced_variants)
        if is_forcing and self.caller.scope is None:
            require_flag(request.user, experiment)
        experiment = lifecycle.update_experiment(**self._write(experiment_key), changes=changes)
        return self._answer(experiment)

    @experiment_openapi.destroy
    def destroy(self, request: Request, experiment_key: str) -> Response:
        refuse_parameters(request)
        self.refuse_body(request)
        lifecycle.delete_experiment(**self._write(experiment_key))
        return Response(status=204)

    @experiment_openapi.start
    def start(self, request: Request, experiment_key: str) -> Response:
        refuse_parameters(request)
        self.refuse_body(request)
        return self._answer(lifecycle.start_experiment(**self._step(request, experiment_key)))

    @experiment_openapi.stop
    def stop(self, request: Request, experiment_key: str) -> Response:
        refuse_parameters(request)
        values = self.validated(self.optional_body(request), StopSerializer)
        return self._answer(
            lifecycle.stop_experiment(**self._step(request, experiment_key) | values, clock=timezone.now)
        )

    @experiment_openapi.reopen
    def reopen(self, request: Request, experiment_key: str) -> Response:
        refuse_parameters(request)
        values = self.validated(self.optional_body(request), ReopenSerializer)
        return self._answer(lifecycle.reopen_experiment(**self._step(request, experiment_key) | values))

    @experiment_openapi.open_phase
    @idempotent
    def open_phase(self, request: Request, experiment_key: str) -> Response:
        refuse_parameters(request)
        changes = dict(self.validated(request.data, PhaseSerializer))
        common = self._step(request, experiment_key)
        common["reason"] = changes.pop("reason", common["reason"])
        experiment = new_phase.open_phase(**common, changes=changes)
        location = request.build_absolute_uri(f"/v1/experiments/{experiment.key}")
        return self._answer(experiment, status=201, headers={"Location": location})

    @experiment_openapi.variant
    def variant(self, request: Request, experiment_key: str) -> Response:
        refuse_parameters(request)
        body = convert(request.data, AssignmentRequest)
        if body is None:
            body = AssignmentRequest(**self.validated(request.data, AssignmentRequestSerializer))
        assignment = get_variant(
            key=experiment_key,
            environment=self.environment,
            user_id=body.userId,
            attributes=body.attributes,
            at=self.now,
        )
        answer = {"variant": assignment.variant, "experimentId": assignment.experiment_id}
        return Response(answer if assignment.reason is None else {**answer, **_participation(assignment)})

    @experiment_openapi.variants
    def variants(self, request: Request) -> Response:
        refuse_parameters(request)
        body = convert(request.data, AssignmentsRequest)
        if body is None:
            body = AssignmentsRequest(**self.validated(request.data, AssignmentsRequestSerializer))
        assignments = get_variants(
            environment=self.environment,
            user_id=body.userId,
            attributes=body.attributes,
            record=body.record,
            at=self.now,
        )
        return Response(
            [
                {
                    "experiment": key,
                    "experimentId": assignment.experiment_id,
                    "variant": assignment.variant,
                    **_participation(assignment),
                }
                for key, assignment in assignments.items()
            ]
        )

    def _answer(self, experiment: Experiment, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        body = ExperimentSerializer(experiment, context={"at": self.now}).data
        return self.versioned(body, experiment.etag, is_whole=False, status=status, headers=headers)

    def _write(self, key: str) -> dict[str, Any]:
        return {"key": key, "environment": self.environment, "if_match": self.if_match, **self.provenance}

    def _step(self, request: Request, key: str) -> dict[str, Any]:
        """Return the same arguments, after a check of the right to write the flag that the experiment drives."""
        if self.caller.scope is None:  # a signed-in user
            require_flag(request.user, lifecycle.get_experiment(key, self.environment))
        return self._write(key)


def _participation(assignment: Assignment) -> dict[str, Any]:
    """Return whether a user is in an experiment and, if not, the reason."""
    if assignment.reason is None:
        return {"inExperiment": True}
    return {"inExperiment": False, "reason": assignment.reason}
