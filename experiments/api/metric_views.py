"""The /v1/metrics operations: each parses, makes one call of the domain, and serialises."""

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
from config.api.views import ApiViewSet
from config.change_log.preconditions import check_version
from config.models import Scope
from experiments.api import metric_openapi
from experiments.api.metric_serializers import MetricEntrySerializer, MetricSerializer, MetricUpdateSerializer
from experiments.metrics import changes
from experiments.models import Metric


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

    def get_queryset(self) -> QuerySet[Metric]:
        return Metric.objects.all()

    def get_serializer_class(self) -> Any:
        return MetricEntrySerializer if self.action == "list" else MetricSerializer

    @metric_openapi.list_metrics
    def list(self, request: Request) -> Response:
        return self.page(request)

    @metric_openapi.retrieve
    def retrieve(self, request: Request, metric_key: str) -> Response:
        refuse_parameters(request)
        self.refuse_body(request)
        return self._answer(changes.get_metric(metric_key))

    @metric_openapi.create
    @idempotent
    def create(self, request: Request) -> Response:
        refuse_parameters(request)
        metric = changes.create_metric(**self.validated(request.data), **self.provenance)
        location = request.build_absolute_uri(f"/v1/metrics/{metric.key}")
        return self._answer(metric, status=201, headers={"Location": location})

    @metric_openapi.partial_update
    def partial_update(self, request: Request, metric_key: str) -> Response:
        refuse_parameters(request)
        metric = changes.get_metric(metric_key)
        check_version(metric, self.if_match)  # before the body, for what was read of another version differs
        sent = self.sent_changes(request)
        serializer = MetricUpdateSerializer(metric, data=sent, partial=True, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        return self._answer(changes.update_metric(**self._write(metric_key), changes=serializer.validated_data))

    @metric_openapi.destroy
    def destroy(self, request: Request, metric_key: str) -> Response:
        refuse_parameters(request)
        self.refuse_body(request)
        changes.delete_metric(**self._write(metric_key))
        return Response(status=204)

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "environment": self.environment}

    def _write(self, key: str) -> dict[str, Any]:
        return {"key": key, "if_match": self.if_match, **self.provenance}

    def _answer(self, metric: Metric, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        body = MetricSerializer(metric, context=self.get_serializer_context()).data
        return self.versioned(body, metric.etag, is_whole=False, status=status, headers=headers)
