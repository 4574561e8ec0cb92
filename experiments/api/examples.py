"""One experiment of the OpenAPI document, from its draft on."""

from __future__ import annotations

ID = "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59"
CREATED_AT = "2026-01-31T12:00:00.000000Z"
STARTED_AT = "2026-01-31T13:00:00.000000Z"

EVEN = [{"key": "control", "weight": 50}, {"key": "green", "weight": 50}]
DESIGN = {"key": "checkout-button", "description": "Green or blue?", "variants": EVEN, "metrics": ["purchase"]}
FLAG = {"key": "green-checkout", "serves": {"control": False, "green": True}}

_NOBODY = {"conversion": 0, "sampleSize": 0}
DRAFT = {
    "id": ID,
    **DESIGN,
    "status": "draft",
    "results": {"control": _NOBODY, "green": _NOBODY},
    "createdAt": CREATED_AT,
}
RUNNING = {
    **DRAFT,
    "status": "running",
    "results": {
        "control": {"conversion": 0.12, "sampleSize": 1000},
        "green": {"conversion": 0.15, "sampleSize": 1000},
    },
    "startedAt": STARTED_AT,
}
