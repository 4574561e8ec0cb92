"""How the OpenAPI document describes the operations of /v1/metrics."""

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
from config.errors import ErrorCode
from experiments.api.metric_serializers import MetricEntrySerializer, MetricSerializer, MetricUpdateSerializer

_KEY = key_in_path("metric_key", "metric")
_TYPES = (
    "A user's value is, by `type`: `conversion`: 1 with at least one event, else 0. `count`: the number of events. "
    "`revenue`: the sum of their `revenue` in one `currency`, other currencies are never added. `sum` and `mean`: "
    "of a numeric `property`. `ratio`: the event, or the sum of its `property`, over that of `denominator`, summed "
    "over all users. `retention`: 1 with an event from `fromDay` on and before `toDay` after the exposure. "
    "Properties that do not belong to the type are refused."
)
_VERSIONS = (
    "An experiment takes over its metrics' definitions when it starts. If a started experiment measures the metric "
    "as it is, a change of anything but the description makes a new `version`, which only later experiments measure."
)

list_metrics = extend_schema(
    operation_id="list_metrics",
    summary="List metrics",
    description="All metrics, ordered by key; they are common to all environments. "
    "Without `limit` the answer holds all of them; with it, the `Link` header names the next page.",
    parameters=[query("search", TEXT, "Part of the key or the description, in any case."), *paging()],
    responses={200: answer(MetricEntrySerializer(many=True), "The metrics."), **errors()},
)

retrieve = extend_schema(
    operation_id="get_metric",
    summary="Get a metric",
    description="The metric, and the experiments that name it. Send its `ETag` as `If-Match` to change only the "
    "version that you read.",
    parameters=[_KEY, *READING_WHOLE],
    responses={200: answer(MetricSerializer, "The metric."), **NOT_MODIFIED, **errors(ErrorCode.NOT_FOUND)},
)

create = extend_schema(
    operation_id="create_metric",
    summary="Create a metric",
    description="Defines what a name in the `metrics` of experiments computes. Without a definition, it is the "
    f"share of users with at least one event of that name. `key`, `type` and `event` are required. {_TYPES}",
    parameters=[*IDEMPOTENCY, REASON, LOCATION, WHOLE_ETAG],
    request=MetricSerializer,
    responses={
        201: answer(MetricSerializer, "The metric as it was created."),
        **errors(ErrorCode.ALREADY_EXISTS, ErrorCode.IDEMPOTENCY_CONFLICT, has_body=True),
    },
)

partial_update = extend_schema(
    operation_id="update_metric",
    summary="Update a metric",
    description=f"Properties that you send replace the old ones; the others stay. {_VERSIONS} You may edit what you "
    "read and send it back: properties that cannot be changed are accepted unchanged.",
    parameters=[_KEY, IF_MATCH, REASON, WHOLE_ETAG],
    request=MetricUpdateSerializer,
    responses={
        200: answer(MetricSerializer, "The metric as it is now."),
        **errors(ErrorCode.NOT_FOUND, ErrorCode.PRECONDITION_FAILED, has_body=True),
    },
)

destroy = extend_schema(
    operation_id="delete_metric",
    summary="Delete a metric",
    description="Refused while a draft or a running experiment in any environment names it. Stopped experiments keep "
    "their definition, and the history stays.",
    parameters=[_KEY, IF_MATCH, REASON],
    request=None,
    responses={204: None, **errors(ErrorCode.NOT_FOUND, ErrorCode.IN_USE, ErrorCode.PRECONDITION_FAILED)},
)
