"""What alert managers send: the alerts of Prometheus Alertmanager and of Grafana, and a plain reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from config.errors import Detail, DetailCode, ValidationFailed
from config.slugs import REASON_LENGTH

FIRING, RESOLVED = "firing", "resolved"
_MAX_NAMED = 3
_ANNOTATIONS = ("summary", "description", "message")


@dataclass(frozen=True, slots=True)
class Alarm:
    """`flags`: the flags to switch off; None means all flags of the kill switch."""

    reason: str
    flags: Sequence[str] | None = None


def read(body: Any) -> Alarm | None:
    """Return what to switch off, or None if all alerts are resolved. Raises ValidationFailed."""
    if not isinstance(body, dict):
        raise _invalid("body", DetailCode.INVALID_TYPE, "Must be a JSON object.")
    return _read_alerts(body) if "alerts" in body else _read_plain(body)


def _read_plain(body: Mapping[str, Any]) -> Alarm:
    if unknown := sorted(body.keys() - {"reason", "flags"}):
        message = "There is no such field. Send `reason`, or the `alerts` of Alertmanager or Grafana."
        raise _invalid(unknown[0], DetailCode.UNKNOWN_FIELD, message)
    if "reason" not in body:
        raise _invalid("reason", DetailCode.REQUIRED, "Must say why; the history of the flags shows it.")
    reason, flags = body["reason"], body.get("flags")
    if not isinstance(reason, str):
        raise _invalid("reason", DetailCode.INVALID_TYPE, "Must be a string.")
    if not reason.strip():
        raise _invalid("reason", DetailCode.REQUIRED, "Must say why; the history of the flags shows it.")
    if len(reason) > REASON_LENGTH:
        raise _invalid("reason", DetailCode.TOO_LONG, f"Must be at most {REASON_LENGTH:,} characters.")
    if "flags" in body and (not isinstance(flags, list) or not all(isinstance(key, str) for key in flags)):
        raise _invalid("flags", DetailCode.INVALID_TYPE, "Must be a list of keys of flags.")
    if flags is not None and not flags:
        raise _invalid("flags", DetailCode.OUT_OF_RANGE, "Must name a flag; leave it out for all of them.")
    return Alarm(reason, flags if flags is None else list(dict.fromkeys(flags)))


def _read_alerts(body: Mapping[str, Any]) -> Alarm | None:
    """Read the alerts. Unknown fields are ignored, because they differ between versions of these programs."""
    alerts = body["alerts"]
    if not isinstance(alerts, list) or not all(isinstance(alert, dict) for alert in alerts):
        raise _invalid("alerts", DetailCode.INVALID_TYPE, "Must be a list of objects.")
    firing = [alert for index, alert in enumerate(alerts) if _status(alert, index) == FIRING]
    return Alarm(_describe(firing)) if firing else None


def _status(alert: Mapping[str, Any], index: int) -> str:
    status = alert.get("status")
    if status not in (FIRING, RESOLVED):
        code = DetailCode.INVALID_VALUE if "status" in alert else DetailCode.REQUIRED
        raise _invalid(f"alerts[{index}].status", code, f"Must be {FIRING} or {RESOLVED}.")
    return str(status)


def _describe(firing: Sequence[Mapping[str, Any]]) -> str:
    more = len(firing) - _MAX_NAMED
    shown = "; ".join(" ".join(_words(alert)) for alert in firing[:_MAX_NAMED])
    text = f"{shown}{f'; and {more:,} more' if more > 0 else ''}"
    return text if len(text) <= REASON_LENGTH else f"{text[: REASON_LENGTH - 1]}…"


def _words(alert: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of `Alert HighErrorRate (critical): More than 5 % of requests fail`."""
    labels, annotations = _strings(alert.get("labels")), _strings(alert.get("annotations"))
    said = next((annotations[name] for name in _ANNOTATIONS if annotations.get(name)), "")
    severity = f" ({labels['severity']})" if labels.get("severity") else ""
    yield f"Alert {labels.get('alertname') or 'without a name'}{severity}{':' if said else ''}"
    if said:
        yield said


def _strings(labels: Any) -> dict[str, str]:
    named = labels if isinstance(labels, dict) else {}
    return {name: " ".join(text.split()) for name, text in named.items() if isinstance(text, str)}


def _invalid(field: str, code: DetailCode, message: str) -> ValidationFailed:
    return ValidationFailed([Detail(field, code, message)])
