"""Traces by OpenTelemetry: a span for each request, below the one that the client names in `traceparent`.

It needs the extra `traces`, and is on if one of OpenTelemetry's own variables names a receiver.
"""

from __future__ import annotations

import os
import time
from http import HTTPStatus
from typing import Any

from config.monitoring.watching import Answered, Watch

_SWITCHES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def are_wanted() -> bool:
    """Return whether the environment asks for traces."""
    is_off = (
        os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none"
    )
    return not is_off and any(map(os.environ.get, _SWITCHES))


def make_watch(exporter: Any = None) -> Watch:
    """Return a function that makes a span of each answer. Raises ImportError without the extra."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 (optional)
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    resource = Resource.create({} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "halyard"})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
    tracer, propagator = provider.get_tracer("halyard"), TraceContextTextMapPropagator()

    def watch(answered: Answered) -> None:
        environ, operation, status, _, _, seconds = answered
        end = time.time_ns()
        carrier = {
            name: environ[header]
            for name, header in (("traceparent", "HTTP_TRACEPARENT"), ("tracestate", "HTTP_TRACESTATE"))
            if header in environ
        }
        span = tracer.start_span(
            f"{environ['REQUEST_METHOD']} {operation}",
            context=propagator.extract(carrier),
            kind=SpanKind.SERVER,
            start_time=end - int(seconds * 1e9),
            attributes={
                "http.request.method": environ["REQUEST_METHOD"],
                "http.response.status_code": status,
                "url.path": environ["PATH_INFO"],
                "halyard.operation": operation,
                "halyard.request_id": answered.request_id,
            },
        )
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end)

    return watch
