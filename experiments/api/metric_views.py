"""The operations of /v1/metrics, each with its description for the OpenAPI document."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import StrictFilterBackend, TextFilter, refuse_parameters
from config.api.idempotency import idempotent
from config.api.pagination import KeysetPagination
from config.api.permissions import Access
from config.api.schema import answer, operation
from config.api.views import ApiViewSet
from config.change_log.writing import check_version
from config.errors import ErrorCode
from config.models import Scope
from experiments.api.metric_serializers import MetricEntrySerializer, MetricSerializer, MetricUpdateSerializer
from experiments.metrics import changes
from experiments.models import Metric

_TYPES = (
    "The `type` says what the value of a user is:\n\n"
    "- `conversion`: 1 with at least one event, else 0.\n"
    "- `count`: the number of events.\n"
    "- `revenue`: the sum of their `revenue` in one `currency`. Amounts in other currencies are not added.\n"
    "- `sum`, `mean`: the sum or the mean of a numeric `property`.\n"
    "- `ratio`: the number of events, or the sum of their `property`, divided by that of `denominator`. Each is summed "
    "over all users.\n"
    "- `retention`: 1 with an event from `fromDay` on and before `toDay` after the exposure, else 0.\n"
    "- `distinct`: the number of different values of `property`, or of days (UTC) without one.\n"
    "- `funnel`: 1 if the user's events pass all `steps` in their order, else 0.\n"
    "- `quantile`: not a value of a user, but the value below which the share `quantile` of all events' `property` "
    "lies. Events that share a value are spread evenly around it, at most half of the way to the next value.\n\n"
    "Events count only if they meet all conditions of `where`. Properties that do not belong to the type are refused."
)
_VERSIONS = (
    "An experiment copies the definitions of its metrics when it starts. If a started experiment measures the current "
    "version, a change of anything but the description makes a new `version`. Only experiments that start later "
    "measure it."
)


class MetricFilter(django_filters.FilterSet):
    search = TextFilter(method="search_text", label="Part of the key or the description, in any case.")

    class Meta:
        model = Metric
        fields = ()

    def search_text(self, metrics: QuerySet[Metric], _name: str, text: str) -> QuerySet[Metric]:
        return metrics.filter(Q(key__icontains=text) | Q(description__icontains=text))


class MetricPagination(KeysetPagination):
    ordering = ("key",)


@extend_schema(tags=["Metrics"])
class MetricViewSet(ApiViewSet):
    access = {
        "list": Access(Scope.SERVER, "experiments.view_metric"),
        "retrieve": Access(Scope.SERVER, "experiments.view_metric"),
        "create": Access(Scope.MANAGE, "experiments.add_metric", "Metrics"),
        "partial_update": Access(Scope.MANAGE, "experiments.change_metric", "Metrics"),
        "destroy": Access(Scope.MANAGE, "experiments.delete_metric", "Metrics"),
    }
    serializer_class = MetricSerializer
    pagination_class = MetricPagination
    filter_backends = (StrictFilterBackend,)
    filterset_class = MetricFilter
    lookup_url_kwarg = "metric_key"
    lookup_field = "key"
    etag_of = "answer"

    def get_queryset(self) -> QuerySet[Metric]:
        return Metric.objects.all()

    def get_serializer_class(self) -> Any:
        return MetricEntrySerializer if self.action == "list" else MetricSerializer

    @operation(
        "list_metrics",
        "List metrics",
        description="Returns all metrics, in order of their keys. They are common to all environments. With `limit`, "
        "the `Link` header has the address of the next page.",
        responses={200: answer(MetricEntrySerializer(many=True), "The metrics.")},
    )
    def list(self, request: Request) -> Response:
        return self.page(request)

    @operation(
        "get_metric",
        "Get a metric",
        description="Returns the metric, and the experiments that name it. To change only the version that you have "
        "read, send its `ETag` back as `If-Match`.",
        responses={200: answer(MetricSerializer, "The metric.")},
    )
    def retrieve(self, request: Request, metric_key: str) -> Response:
        self.refuse_input(request)
        return self._answer(changes.get_metric(metric_key))

    @operation(
        "create_metric",
        "Create a metric",
        description="Defines what a name in the `metrics` of experiments computes. Without a definition, that is the "
        "share of users with at least one event of the name. `key`, `type` and `event` are required; a funnel has "
        f"`steps` in place of `event`. {_TYPES}",
        responses={201: answer(MetricSerializer, "The created metric.")},
        errors=[ErrorCode.ALREADY_EXISTS],
    )
    @idempotent
    def create(self, request: Request) -> Response:
        refuse_parameters(request)
        metric = changes.create_metric(**self.validated(request.data), **self.provenance)
        location = request.build_absolute_uri(f"/v1/metrics/{metric.key}")
        return self._answer(metric, status=201, headers={"Location": location})

    @operation(
        "update_metric",
        "Update a metric",
        description=f"Properties that you send replace the old ones; the others stay. {_VERSIONS} You may edit what "
        "you read and send it back: properties that cannot be changed are accepted unchanged.",
        request=MetricUpdateSerializer,
        responses={200: answer(MetricSerializer, "The changed metric.")},
    )
    def partial_update(self, request: Request, metric_key: str) -> Response:
        refuse_parameters(request)
        metric = changes.get_metric(metric_key)
        check_version(metric, self.if_match)  # before the body, for what was read of another version differs
        sent = self.sent_changes(request)
        serializer = MetricUpdateSerializer(metric, data=sent, partial=True, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        return self._answer(changes.update_metric(**self._write(metric_key), changes=serializer.validated_data))

    @operation(
        "delete_metric",
        "Delete a metric",
        description="Deletes the metric. This is refused while a draft or a running experiment in any "
        "environment uses it. Stopped experiments keep their definition, and the history stays.",
        responses={204: None},
        errors=[ErrorCode.IN_USE],
    )
    def destroy(self, request: Request, metric_key: str) -> Response:
        self.refuse_input(request)
        changes.delete_metric(**self._write(metric_key))
        return Response(status=204)

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "environment": self.environment}

    def _write(self, key: str) -> dict[str, Any]:
        return {"key": key, "if_match": self.if_match, **self.provenance}

    def _answer(self, metric: Metric, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        body = MetricSerializer(metric, context=self.get_serializer_context()).data
        return self.versioned(body, metric.etag, status=status, headers=headers)
