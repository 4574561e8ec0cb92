"""The flags of the invented shop, with their states in production and staging, and its segments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

Rules = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class State:
    """The state of a flag in one environment."""

    enabled: bool
    rules: Rules = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DemoFlag:
    """A flag with its two states, and the `properties` that both share."""

    key: str
    description: str
    production: State
    staging: State
    properties: Mapping[str, Any] = field(default_factory=dict)
    expires_in: timedelta | None = None
    is_archived: bool = False


@dataclass(frozen=True, slots=True)
class DemoSegment:
    """A segment of users."""

    key: str
    description: str
    conditions: list[dict[str, Any]]
    user_ids: list[str] = field(default_factory=list)


def _share(percentage: float) -> dict[str, Any]:
    return {"type": "percentage", "percentage": percentage}


def _conditions(*conditions: tuple[Any, ...]) -> list[dict[str, Any]]:
    names = ("attribute", "operator", "value")
    # An operator such as `exists` takes no value.
    return [dict(zip(names, condition, strict=False)) for condition in conditions]


def _where(*conditions: tuple[Any, ...], **others: Any) -> dict[str, Any]:
    return {"type": "attribute", "conditions": _conditions(*conditions), **others}


def _segment(key: str, **others: Any) -> dict[str, Any]:
    return {"type": "segment", "segment": key, **others}


def _split(**weights: float) -> dict[str, Any]:
    return {"split": [{"variant": key, "weight": weight} for key, weight in weights.items()]}


def _values(kind: str, **values: Any) -> dict[str, Any]:
    return {"type": kind, "variants": [{"key": key, "value": value} for key, value in values.items()]}


ON = State(enabled=True)
OFF = State(enabled=False)
_EVERYONE = State(enabled=True, rules=[_share(100)])
_COLLEAGUES = _where(("email", "endsWith", "@shop.example"))
_BANNER = {
    "type": "object",
    "properties": {"title": {"type": "string", "maxLength": 60}, "colour": {"enum": ["sun", "sea"]}},
    "required": ["title", "colour"],
}
_TESTERS = {"type": "users", "userIds": ["user-00007", "user-00042", "user-01234"]}

SEGMENTS = (
    DemoSegment("colleagues", "Everyone who works for the shop.", _conditions(("email", "endsWith", "@shop.example"))),
    DemoSegment(
        "good-customers",
        "Users with three purchases or more, and a few that support added.",
        _conditions(("purchases", "greaterThanOrEqual", 3)),
        ["user-00003", "user-00256"],
    ),
)

FLAGS = (
    DemoFlag("new-checkout", "The whole checkout on one page.", State(True, [_COLLEAGUES, _share(25)]), _EVERYONE),
    DemoFlag("dark-mode", "Dark colours, for those who choose them.", State(True, [_share(50)]), ON),
    DemoFlag("search-suggestions", "Suggestions while typing into the search field.", ON, ON),
    DemoFlag(
        "express-delivery",
        "Delivery on the next day, in areas of the courier.",
        State(True, [_where(("country", "in", ["DE", "CH"])), _where(("country", "equals", "FR"), percentage=12.5)]),
        _EVERYONE,
    ),
    DemoFlag(
        "loyalty-points",
        "Points for every purchase of good customers.",
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
    DemoFlag(
        "legacy-search",
        "The old search; off since the new one proved stable.",
        OFF,
        OFF,
        {"tags": ["search", "cleanup"], "owner": "Search team"},
        expires_in=-timedelta(days=3),
    ),
    DemoFlag("maintenance-banner", "Says that the shop closes for the night.", OFF, State(False, [_TESTERS])),
    DemoFlag(
        "product-layout",
        "The layout of the products that a search finds.",
        State(True, [_segment("colleagues", variant="list"), {**_share(100), **_split(grid=60, list=40)}]),
        ON,
        {**_values("string", grid="grid", list="list"), "off_variant": "grid", "tags": ["search"]},
    ),
    DemoFlag(
        "shipping-fee",
        "What delivery costs, in euros.",
        State(
            True,
            [_segment("good-customers", variant="free"), _where(("country", "equals", "CH"), variant="abroad")],
        ),
        State(True, [{**_share(100), "variant": "free"}]),
        {**_values("number", standard=4.9, abroad=9.9, free=0), "off_variant": "standard", "tags": ["checkout"]},
    ),
    DemoFlag(
        "welcome-banner",
        "The banner on the front page, as its text and colour.",
        State(True, [{**_share(50), "name": "Half of the visitors, to begin with", "variant": "sea"}]),
        ON,
        {
            **_values("object", sun={"title": "Hello!", "colour": "sun"}, sea={"title": "Ahoy!", "colour": "sea"}),
            "schema": _BANNER,
            "off_variant": "sun",
            "owner": "Marketing",
        },
        expires_in=timedelta(days=30),
    ),
    DemoFlag(
        "one-click-order",
        "An order with one click, for those who have the new checkout.",
        State(True, [_segment("good-customers")]),
        ON,
        {"prerequisites": [{"flag": "new-checkout"}], "tags": ["checkout"]},
    ),
    DemoFlag(
        "delivery-date",
        "Says on the page of a product when it would arrive. The experiment delivery-date drives it.",
        ON,
        State(True, [_COLLEAGUES]),
        {**_values("string", hidden="hidden", shown="shown"), "off_variant": "hidden", "owner": "Delivery team"},
    ),
    DemoFlag("summer-sale", "The sale of last summer.", OFF, OFF, {"tags": ["cleanup"]}, is_archived=True),
)
