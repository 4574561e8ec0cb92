"""Flags that a browser test starts with, and what has become of them."""

from __future__ import annotations

from typing import Any

from config.models import Environment
from flags.changes.flag_changes import create_flag, get_flag
from flags.models import Flag
from tests.conftest import ACTOR, NOON


def flag_in_production(**fields: Any) -> Flag:
    production = Environment.objects.get(key="production")
    return create_flag(**{"key": "new-checkout", **fields}, environment=production, actor=ACTOR, now=NOON)


def stored(key: str = "new-checkout", environment: str = "production") -> Flag:
    return get_flag(key, Environment.objects.get(key=environment))
