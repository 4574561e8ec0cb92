"""What watches answers: the access log and traces, and errors that go to Sentry. Nothing does unless it is wanted."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
import sentry_sdk
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from config.monitoring import sentry, starting, traces
from config.monitoring.access_log import AccessLog
from config.monitoring.addresses import address_of
from config.monitoring.request_ids import current
from config.monitoring.watching import Answered, watchers

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("SENTRY_DSN", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    yield
    watchers.clear()


def answered(**changed: Any) -> Answered:
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/v1/events", "REMOTE_ADDR": "203.0.113.7"} | changed
    headers = [("X-Request-Id", "abc-1")]
    return Answered(environ, "track_event", int(changed.get("status", 202)), headers, 60, 0.0042)


@pytest.mark.parametrize("form", ["json", "text"])
def test_access_log__requests__have_a_line_each_once_they_are_written(form: str) -> None:
    out = StringIO()
    log = AccessLog(form, out=out)
    log.add(answered(QUERY_STRING="userId=ada"))
    log.add(answered(PATH_INFO="/x\nforged"))
    assert out.getvalue() == ""
    log.write()
    first, second = out.getvalue().splitlines()
    assert "ada" not in first
    assert "forged" in second
    if form == "json":
        assert {name: value for name, value in json.loads(first).items() if name != "time"} == {
            "level": "info", "logger": "access", "method": "POST", "path": "/v1/events", "status": 202, "ms": 4.2,
            "bytes": 60, "operation": "track_event", "request": "abc-1", "address": "203.0.113.7",
        }  # fmt: skip
    else:
        words = " INFO access POST /v1/events 202 4.2 ms 60 bytes track_event from 203.0.113.7 [request abc-1]"
        assert first.endswith(words)
    log.write()
    assert len(out.getvalue().splitlines()) == 2


@pytest.mark.parametrize("form", ["json", "text"])
def test_access_log__key_in_a_path__is_not_written(form: str) -> None:
    out = StringIO()
    log = AccessLog(form, out=out)
    log.add(answered(PATH_INFO="/v1/flags/hyd_m_SecretOfAKey"))
    log.write()
    assert "/v1/flags/hyd_m_..." in out.getvalue()
    assert "SecretOfAKey" not in out.getvalue()


def test_address__forwarding_header__counts_only_from_trusted_proxies(subtests: pytest.Subtests, settings: Any) -> None:
    settings.TRUSTED_PROXIES = ["10.0.0.0/8"]
    for sender, forwarded, address in [
        ("203.0.113.7", None, "203.0.113.7"),
        ("203.0.113.7", "198.51.100.1", "203.0.113.7"),
        ("10.1.2.3", "198.51.100.1", "198.51.100.1"),
        ("10.1.2.3", "1.1.1.1, 198.51.100.1, 10.9.9.9", "198.51.100.1"),
        ("10.1.2.3", "2001:db8::1", "2001:db8::1"),
        ("10.1.2.3", "10.5.5.5", "10.5.5.5"),
        ("10.1.2.3", "nonsense", "10.1.2.3"),
        ("10.1.2.3", "", "10.1.2.3"),
        ("", None, ""),
    ]:
        with subtests.test(sender=sender, forwarded=forwarded):
            headers = {} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded}
            assert address_of({"REMOTE_ADDR": sender, **headers}) == address


def test_watching__nothing_wanted__watches_nothing(settings: Any) -> None:
    settings.ACCESS_LOG = False
    assert starting.watch_requests() is None
    starting.watch_errors()
    assert watchers == []


def test_watching__access_log_wanted__is_written_by_what_is_returned(settings: Any, capsys: Any) -> None:
    settings.ACCESS_LOG = True
    write = starting.watch_requests()
    assert write is not None
    watchers[0](answered())
    write()
    assert "POST /v1/events 202" in capsys.readouterr().err


def test_traces__request__is_a_span_in_the_clients_own_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentelemetry.sdk.trace.export.BatchSpanProcessor", SimpleSpanProcessor)
    exporter = InMemorySpanExporter()
    watch = traces.make_watch(exporter)
    watch(answered(HTTP_TRACEPARENT=f"00-{TRACE}-{PARENT}-01"))
    watch(answered(status=503))
    first, second = exporter.get_finished_spans()
    assert (first.name, first.resource.attributes["service.name"]) == ("POST track_event", "halyard")
    assert f"{first.context.trace_id:032x}" == TRACE
    assert f"{first.parent.span_id:016x}" == PARENT
    assert first.attributes["halyard.request_id"] == "abc-1"
    assert first.end_time - first.start_time == 4_200_000
    assert (first.status.is_ok, second.status.is_ok) == (True, False)


def test_traces__usual_variables__switch_them_on(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    for variables, wanted in [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
    ]:
        with subtests.test(variables=variables, wanted=wanted):
            for name, value in variables.items():
                monkeypatch.setenv(name, value)
            assert traces.are_wanted() is wanted


def test_extras__not_installed__are_named_and_the_service_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def miss(*_: object) -> None:
        raise ImportError

    monkeypatch.setenv("SENTRY_DSN", "https://key@sentry.example/1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318")
    monkeypatch.setattr(sentry, "start", miss)
    monkeypatch.setattr(traces, "make_watch", miss)
    starting.watch_errors()
    starting.watch_requests()
    assert [message.partition(": ")[2] for message in caplog.messages] == [
        "install the package sentry-sdk, see the guide",
        "install the package opentelemetry-sdk, see the guide",
    ]


def test_sentry__error__is_sent_with_the_request_and_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setenv("SENTRY_DSN", "https://key@sentry.example/1")

    class Transport(sentry_sdk.transport.Transport):
        def capture_envelope(self, envelope: Any) -> None:
            sent.extend(item.payload.json for item in envelope.items)

    sentry.start(Transport)
    current.environ = {"HTTP_X_REQUEST_ID": "abc-1"}
    try:
        logging.getLogger("config.x").error("The key hyd_c_secret fails")
        sentry_sdk.flush()
    finally:
        current.environ = None
        sentry_sdk.init()
    [event] = sent
    assert event["logentry"]["message"] == "The key hyd_c_... fails"
    assert event["tags"]["request"] == "abc-1"
    assert "secret" not in json.dumps(event)
