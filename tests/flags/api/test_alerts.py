"""Bodies of alert managers, and what is read from them."""

from __future__ import annotations

from typing import Any

import pytest

from config.errors import DetailCode, ValidationFailed
from config.slugs import REASON_LENGTH
from flags.api.alerts import Alarm, read

# As version 0.28 of Alertmanager sends it.
ALERTMANAGER: dict[str, Any] = {
    "receiver": "halyard",
    "status": "firing",
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "HighErrorRate", "job": "shop", "severity": "critical"},
            "annotations": {"summary": "More than 5 % of\nrequests fail"},
            "startsAt": "2026-01-31T12:00:00.000Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://prometheus:9090/graph?g0.expr=up",
            "fingerprint": "b2b3c4d5e6f7a8b9",
        }
    ],
    "groupLabels": {"alertname": "HighErrorRate"},
    "commonLabels": {"alertname": "HighErrorRate", "job": "shop", "severity": "critical"},
    "commonAnnotations": {"summary": "More than 5 % of\nrequests fail"},
    "externalURL": "http://alertmanager:9093",
    "version": "4",
    "groupKey": '{}:{alertname="HighErrorRate"}',
    "truncatedAlerts": 0,
}
# As version 12 of Grafana sends it.
GRAFANA: dict[str, Any] = {
    "receiver": "halyard",
    "status": "firing",
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "Slow checkout", "grafana_folder": "Shop"},
            "annotations": {"description": "The checkout takes 3 s"},
            "startsAt": "2026-01-31T12:00:00Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "values": {"B": 3.02, "C": 1},
            "valueString": "[ var='B' labels={} value=3.02 ]",
            "generatorURL": "https://grafana.example.com/alerting/grafana/abc/view?orgId=1",
            "fingerprint": "57c6d9296de2ad39",
            "silenceURL": "https://grafana.example.com/alerting/silence/new",
            "dashboardURL": "",
            "panelURL": "",
            "orgId": 1,
        },
        {"status": "resolved", "labels": {"alertname": "Other"}},
    ],
    "title": "[FIRING:1] Slow checkout",
    "state": "alerting",
    "message": "**Firing**",
    "orgId": 1,
}


def test_read__alertmanager__is_an_alarm_with_its_alert_as_the_reason() -> None:
    assert read(ALERTMANAGER) == Alarm("Alert HighErrorRate (critical): More than 5 % of requests fail")


def test_read__grafana__is_an_alarm_with_the_alerts_that_fire() -> None:
    assert read(GRAFANA) == Alarm("Alert Slow checkout: The checkout takes 3 s")


def test_read__nothing_that_fires__asks_for_nothing() -> None:
    for alerts in [[], [{"status": "resolved"}], [{"status": "resolved"}, {"status": "resolved"}]]:
        assert read({"status": "resolved", "alerts": alerts}) is None, alerts


def test_read__many_alerts__are_named_up_to_three() -> None:
    alerts = [{"status": "firing", "labels": {"alertname": f"A{at}"}} for at in range(1_004)]
    assert read({"alerts": alerts}) == Alarm("Alert A0; Alert A1; Alert A2; and 1,001 more")


def test_read__alert_without_a_name__fires_all_the_same() -> None:
    for alert in [{}, {"labels": None}, {"labels": {"alertname": 1}}, {"labels": [], "annotations": {"summary": None}}]:
        assert read({"alerts": [{"status": "firing", **alert}]}) == Alarm("Alert without a name"), alert


def test_read__long_annotation__is_cut_to_the_length_of_a_reason() -> None:
    alarm = read({"alerts": [{"status": "firing", "annotations": {"message": "x" * 5_000}}]})
    assert alarm is not None
    assert len(alarm.reason) == REASON_LENGTH
    assert alarm.reason.endswith("x…")


def test_read__plain_reason__is_an_alarm_for_all_flags_or_for_some() -> None:
    assert read({"reason": "so"}) == Alarm("so")
    assert read({"reason": "so", "flags": ["a", "b", "a"]}) == Alarm("so", ["a", "b"])


def test_read__body_that_is_neither__is_refused_at_its_field(subtests: pytest.Subtests) -> None:
    for body, field, code in [
        ([], "body", DetailCode.INVALID_TYPE),
        ("x", "body", DetailCode.INVALID_TYPE),
        ({}, "reason", DetailCode.REQUIRED),
        ({"reason": " "}, "reason", DetailCode.REQUIRED),
        ({"reason": 1}, "reason", DetailCode.INVALID_TYPE),
        ({"reason": "x" * 1_001}, "reason", DetailCode.TOO_LONG),
        ({"reason": "so", "flag": "a"}, "flag", DetailCode.UNKNOWN_FIELD),
        ({"reason": "so", "flags": "a"}, "flags", DetailCode.INVALID_TYPE),
        ({"reason": "so", "flags": None}, "flags", DetailCode.INVALID_TYPE),
        ({"reason": "so", "flags": [1]}, "flags", DetailCode.INVALID_TYPE),
        ({"reason": "so", "flags": []}, "flags", DetailCode.OUT_OF_RANGE),
        ({"alerts": {}}, "alerts", DetailCode.INVALID_TYPE),
        ({"alerts": [1]}, "alerts", DetailCode.INVALID_TYPE),
        ({"alerts": [{}]}, "alerts[0].status", DetailCode.REQUIRED),
        ({"alerts": [{"status": "firing"}, {"status": "Firing"}]}, "alerts[1].status", DetailCode.INVALID_VALUE),
        ({"alerts": [{"status": ["firing"]}]}, "alerts[0].status", DetailCode.INVALID_VALUE),
    ]:
        with subtests.test(body=body, field=field):
            with pytest.raises(ValidationFailed) as refusal:
                read(body)
            [detail] = refusal.value.details
            assert (detail.field, detail.code) == (field, code)
