"""The flags of the invented shop, as they stand in production and in staging."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Rules = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class State:
    """What one environment has of a flag."""

    enabled: bool
    rules: Rules = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DemoFlag:
    """A flag with its two states."""

    key: str
    description: str
    production: State
    staging: State


def _share(percentage: float) -> dict[str, Any]:
    return {"type": "percentage", "percentage": percentage}


def _where(*conditions: tuple[Any, ...], **share: float) -> dict[str, Any]:
    names = ("attribute", "operator", "value")
    # An operator such as `exists` takes no value.
    return {"type": "attribute", "conditions": [dict(zip(names, each, strict=False)) for each in conditions], **share}


ON = State(enabled=True)
OFF = State(enabled=False)
_EVERYONE = State(enabled=True, rules=[_share(100)])
_COLLEAGUES = _where(("email", "endsWith", "@shop.example"))
_TESTERS = {"type": "users", "userIds": ["user-00007", "user-00042", "user-01234"]}

FLAGS = (
    DemoFlag("new-checkout", "The whole checkout on one page.", State(True, [_COLLEAGUES, _share(25)]), _EVERYONE),
    DemoFlag("dark-mode", "Dark colours, for those who choose them.", State(True, [_share(50)]), ON),
    DemoFlag("search-suggestions", "Suggestions while one types into the search field.", ON, ON),
    DemoFlag(
        "express-delivery",
        "Delivery on the next day, where the courier goes.",
        State(True, [_where(("country", "in", ["DE", "CH"])), _where(("country", "equals", "FR"), percentage=12.5)]),
        _EVERYONE,
    ),
    DemoFlag(
        "loyalty-points",
        "Points on every purchase of good customers.",
        State(True, [_where(("plan", "equals", "plus"), ("purchases", "greaterThanOrEqual", 3))]),
        State(True, [_where(("plan", "exists"))]),
    ),
    DemoFlag("beta-dashboard", "The new account page, by invitation.", State(True, [_TESTERS, _COLLEAGUES]), ON),
    DemoFlag(
        "app-wallet",
        "Payment with the wallet of the phone, from version 5 of the app.",
        State(True, [_where(("platform", "in", ["ios", "android"]), ("appVersion", "startsWith", "5."))]),
        State(True, [_where(("platform", "notEquals", "web"))]),
    ),
    DemoFlag("support-chat", "A chat with support on every page.", State(False, [_share(10)]), ON),
    DemoFlag("legacy-search", "The old search; off since the new one holds.", OFF, OFF),
    DemoFlag("maintenance-banner", "Says that the shop closes for the night.", OFF, State(False, [_TESTERS])),
)
