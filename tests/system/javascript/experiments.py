"""An experiment that drives a flag, and what the service knows of its users."""

from __future__ import annotations

from typing import Any

from tests.system.server import Server


def start_experiment(server: Server, key: str, **audience: Any) -> None:
    """Create a flag and an experiment with the same key, which shows all of its users `treatment`, and start it."""
    flag = {"key": key, "enabled": True, "type": "string", "variants": [{"key": "old", "value": "old"}]}
    flag["variants"].append({"key": "new", "value": "new"})  # type: ignore[attr-defined]
    variants = [{"key": "control", "weight": 0}, {"key": "treatment", "weight": 1}]
    served = {"key": key, "serves": {"control": "old", "treatment": "new"}}
    experiment = {"key": key, "variants": variants, "metrics": [f"bought-{key}"], "flag": served, **audience}
    for path, body in (("/v1/flags", flag), ("/v1/experiments", experiment)):
        created = server.ask("POST", path, json=body)
        assert created.status_code == 201, created.text
    assert server.ask("POST", f"/v1/experiments/{key}/start").status_code == 200


def results(server: Server, key: str) -> tuple[int, float]:
    """Return the sample size and the conversion of the treatment."""
    found = server.ask("GET", f"/v1/experiments/{key}").json()["data"]["results"]["treatment"]
    return found["sampleSize"], found["conversion"]


def events(server: Server, **filters: str) -> list[dict[str, Any]]:
    """Return the events that match, oldest first."""
    found: list[dict[str, Any]] = server.ask("GET", "/v1/events", params=filters).json()["data"]
    return found[::-1]
