"""Values that tests of writes share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from config.models import Change
from flags.models import Flag
from tests.conftest import ACTOR, NOON

HALF = [{"type": "percentage", "percentage": 50}]
WRITE = {"actor": ACTOR, "now": NOON}
COLOURS = [{"key": "blue", "value": "#00f"}, {"key": "green", "value": "#0f0"}, {"key": "red", "value": "#f00"}]
EVERYTHING = {
    "type": "string",
    "variants": COLOURS,
    "off_variant": "red",
    "default_variant": "green",
    "schema": {"type": "string", "maxLength": 4},
    "prerequisites": [{"flag": "base"}],
    "tags": ["shop", "Ärger"],
    "owner": "team-checkout",
    "expires_at": NOON + timedelta(days=30),
    "client_visible": False,
}
NOTHING = {
    "type": "",
    "variants": [],
    "off_variant": "",
    "default_variant": "",
    "schema": None,
    "prerequisites": [],
    "tags": [],
    "owner": "",
    "expires_at": None,
    "client_visible": True,
}


def revision() -> int:
    return Change.objects.latest_revision()


def properties(flag: Flag) -> dict[str, Any]:
    return {name: getattr(flag, name) for name in EVERYTHING}


def share(variant: str) -> list[dict[str, Any]]:
    return [{"type": "percentage", "percentage": 50, "variant": variant}]
