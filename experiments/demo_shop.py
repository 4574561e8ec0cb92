"""The invented shop of the demo: its flags, segments, metrics and experiments, and the events of its users. Pure.

Events are drawn from a seed, so that two runs differ only in ids and dates. Their times are seconds since the beginning
of the history.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from flags.engine.bucketing import compile_split

Rules = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class State:
    """The state of a flag in one environment."""

    enabled: bool
    rules: Rules = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DemoFlag:
    """A flag with its states. `properties` are those that both states share."""

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


REVENUE_A_WEEK = "revenue-a-week"
CAME_BACK = "came-back"
PAGES_VIEWED = "pages-viewed"
PRODUCTS_ADDED = "products-added"

METRICS: Mapping[str, Mapping[str, Any]] = {
    REVENUE_A_WEEK: {
        "description": "What a user spends in euros within a week. The largest baskets are capped.",
        "type": "revenue",
        "event": "purchase",
        "currency": "EUR",
        "window_hours": 168,
        "cap_percentile": 99.0,
    },
    CAME_BACK: {
        "description": "Users who view a page again in the following days.",
        "type": "retention",
        "event": "page_view",
        "from_day": 1,
        "to_day": 8,
    },
    PAGES_VIEWED: {
        "description": "Users should not view far fewer pages than before.",
        "type": "count",
        "event": "page_view",
        "window_hours": 72,
        "cap_value": 100.0,
        "role": "guardrail",
        "margin": 0.25,
    },
    PRODUCTS_ADDED: {
        "description": "The products that a user puts into the cart within two days.",
        "type": "count",
        "event": "add_to_cart",
        "window_hours": 48,
        "cap_value": 20.0,
    },
}
"""The columns of each metric, by key."""

DAY = 24 * 3600.0
MAX_EVENTS_OF_A_USER = 8
"""The maximum of events of a user, without page views."""

_CURRENCIES = {"DE": "EUR", "US": "USD", "GB": "GBP", "FR": "EUR", "CH": "CHF"}
_COUNTRY_WEIGHTS = (35, 30, 15, 12, 8)
_PLATFORMS = {"web": 55, "ios": 25, "android": 20}
_PATHS = {"/": 20, "/search": 15, "/products": 45, "/cart": 12, "/account": 8}
_DELIVERED_TO = ["DE", "FR", "CH"]
_PRICES = (9.9, 14.5, 19.99, 24.9, 39.0, 49.95, 79.0, 129.0)


@dataclass(frozen=True, slots=True)
class Arm:
    """A variant, its weight, and the share of its users who convert."""

    key: str
    weight: float
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """An experiment and its outcome.

    `starts` and `stops` are positions in the history, 0 to 1. Users convert by an event named `metric`; `more` are
    further metrics. `exposed` is the share of users who see the experiment, and `usual_rate` the conversion rate of the
    others. `plan` has the columns of the plan, the owner, the hypothesis, the flag and its audience.
    """

    key: str
    description: str
    metric: str
    arms: tuple[Arm, ...]
    more: tuple[str, ...] = ()
    starts: float | None = None
    stops: float | None = None
    exposed: float = 0.0
    usual_rate: float = 0.0
    plan: Mapping[str, Any] = field(default_factory=dict)


CHECKOUT_BUTTON = Trial(
    "checkout-button",
    "Does a green button bring more people through the checkout than the blue one?",
    metric="purchase",
    arms=(Arm("blue", 50, rate=0.11), Arm("green", 50, rate=0.16)),
    more=(REVENUE_A_WEEK, PAGES_VIEWED),
    starts=0.5,
    exposed=0.6,
    usual_rate=0.08,
    plan={
        "planned_size": 2_800,
        "minimum_effect": 0.1,
        "owner": "Checkout team",
        "hypothesis": "A green button stands out from the page, so more people find it and buy.",
    },
)
SIGN_UP_FORM = Trial(
    "sign-up-form",
    "Is a form with one step better than one with three?",
    metric="sign_up",
    arms=(Arm("three-steps", 50, rate=0.31), Arm("one-step", 50, rate=0.4)),
    more=(CAME_BACK,),
    starts=0.05,
    stops=0.55,
    exposed=0.7,
    usual_rate=0.25,
    plan={
        "planned_size": 2_500,
        "minimum_effect": 0.1,
        "owner": "Growth team",
        "hypothesis": "People give up between the steps, so one step brings more sign-ups.",
    },
)
FREE_SHIPPING = Trial(
    "free-shipping-bar",
    "Above which amount should shipping be free?",
    metric="purchase",
    arms=(Arm("none", 50), Arm("from-30", 25), Arm("from-50", 25)),
    plan={
        "owner": "Delivery team",
        "hypothesis": "Free shipping above an amount makes people fill their baskets up to it.",
    },
)
DELIVERY_DATE = Trial(
    "delivery-date",
    "Does the date of delivery on the page of a product make more visitors of the web shop put it into the cart?",
    metric="add_to_cart",
    arms=(Arm("hidden", 50, rate=0.24), Arm("shown", 50, rate=0.33)),
    more=(PRODUCTS_ADDED,),
    starts=0.6,
    exposed=0.8,
    plan={
        "conditions": [
            {"attribute": "platform", "operator": "equals", "value": "web"},
            {"attribute": "country", "operator": "in", "value": _DELIVERED_TO},
        ],
        "flag": {"key": "delivery-date", "serves": {"hidden": "hidden", "shown": "shown"}},
        "owner": "Delivery team",
        "hypothesis": "Visitors who see when a product arrives need not look it up, so more of them order it.",
    },
)
"""This one drives a flag. Halyard's client in the browser evaluates it, and reports the exposures."""

TRIALS = (SIGN_UP_FORM, CHECKOUT_BUTTON, FREE_SHIPPING, DELIVERY_DATE)


@dataclass(frozen=True, slots=True)
class Shopper:
    """A user of the shop. `arrival` is the second of the first visit."""

    id: str
    country: str
    platform: str
    arrival: float


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An event to record, at a second of the history."""

    second: float
    user_id: str
    name: str
    properties: Mapping[str, Any]


def draw(*, users: int, events: int, days: int, seed: int) -> list[Occurrence]:
    """Return `events` events, oldest first. There must be at least MAX_EVENTS_OF_A_USER for each user."""
    random = Random(seed)  # noqa: S311 (nothing here is a secret)
    span = days * DAY
    crowd = [_draw_user(random, number, span) for number in range(1, users + 1)]
    occurrences = [event for user in crowd for event in _story(random, user, span)]
    browsing = Random(seed + 1)  # noqa: S311
    occurrences += [event for user in crowd for event in _browse(browsing, user, span)]
    occurrences += _draw_views(random, crowd, events - len(occurrences), span)
    return sorted(occurrences, key=lambda event: event.second)


def _draw_user(random: Random, number: int, span: float) -> Shopper:
    [country] = random.choices(list(_CURRENCIES), _COUNTRY_WEIGHTS)
    [platform] = random.choices(list(_PLATFORMS), list(_PLATFORMS.values()))
    # Four in ten users arrived before the history begins.
    arrival = max(0.0, random.random() * 1.6 - 0.64) * span
    return Shopper(f"user-{number:05}", country, platform, arrival)


def _story(random: Random, user: Shopper, span: float) -> Iterator[Occurrence]:
    """Yield the exposures, sign-ups and purchases of a user."""
    for trial in (SIGN_UP_FORM, CHECKOUT_BUTTON):
        begin = _begin(trial, user, span)
        end = span if trial.stops is None else trial.stops * span
        if begin < end and random.random() < trial.exposed:
            yield from _take_part(random, user, trial, _moment(random, begin, end, span), end)
        elif random.random() < trial.usual_rate:
            yield _convert(random, user, trial.metric, _moment(random, user.arrival, span, span))


def _browse(random: Random, user: Shopper, span: float) -> Iterator[Occurrence]:
    """Yield what the client in the browser reports: the exposure, and products for the cart."""
    trial = DELIVERY_DATE
    if user.platform != "web" or user.country not in _DELIVERED_TO or random.random() >= trial.exposed:
        return
    seen = _moment(random, _begin(trial, user, span), span, span)
    variant = _variant(trial, user)
    seen_by = {"platform": user.platform, "country": user.country}
    yield Occurrence(seen, user.id, "experiment_exposure", {**seen_by, "experimentId": trial.key, "variant": variant})
    rate = next(arm.rate for arm in trial.arms if arm.key == variant)
    if random.random() < rate:
        added = seen + (span - seen) * random.random() ** 4
        yield Occurrence(added, user.id, trial.metric, {})
        if random.random() < 0.4:
            yield Occurrence(added + (span - added) * random.random() ** 4, user.id, trial.metric, {})


def _begin(trial: Trial, user: Shopper, span: float) -> float:
    """Return the first second at which a user can see a trial."""
    return max(user.arrival, (trial.starts or 0.0) * span)


def _variant(trial: Trial, user: Shopper) -> str:
    return compile_split(((arm.key, arm.weight) for arm in trial.arms), trial.key)(user.id)


def _take_part(random: Random, user: Shopper, trial: Trial, seen: float, end: float) -> Iterator[Occurrence]:
    variant = _variant(trial, user)
    properties = {"platform": user.platform, "country": user.country}
    yield Occurrence(seen, user.id, "experiment_viewed", {"experimentId": trial.key, "variant": variant, **properties})
    rate = next(arm.rate for arm in trial.arms if arm.key == variant)
    if random.random() < rate:
        # Most users who convert do so soon.
        converted = seen + (end - seen) * random.random() ** 4
        yield _convert(random, user, trial.metric, converted)
        if trial.metric == "purchase" and random.random() < 0.3:
            yield _convert(random, user, trial.metric, converted + (end - converted) * random.random())


def _convert(random: Random, user: Shopper, name: str, second: float) -> Occurrence:
    properties: dict[str, Any] = {"platform": user.platform, "country": user.country}
    if name == "purchase":
        [price] = random.choices(_PRICES)
        properties |= {"revenue": price, "currency": _CURRENCIES[user.country]}
    return Occurrence(second, user.id, name, properties)


def _draw_views(random: Random, crowd: Sequence[Shopper], count: int, span: float) -> Iterator[Occurrence]:
    """Yield page views. A few users have many of them."""
    eagerness = [(1 - random.random()) ** -0.5 for _ in crowd]
    paths = random.choices(list(_PATHS), list(_PATHS.values()), k=count)
    for user, path in zip(random.choices(crowd, eagerness, k=count), paths, strict=True):
        second = _moment(random, user.arrival, span, span)
        yield Occurrence(second, user.id, "page_view", {"path": path, "platform": user.platform})


def _moment(random: Random, begin: float, end: float, span: float) -> float:
    """Draw a second between two others.

    The hour of the day at which the history ends is the most likely one, and the hour opposite the least.
    """
    while True:
        second = begin + random.random() * (end - begin)
        if random.random() < 0.55 + 0.45 * math.cos((span - second) / DAY * math.tau):
            return second
