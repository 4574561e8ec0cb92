"""The definition of a metric: what it computes from one user's events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

REVENUE = "revenue"
"""The event property that holds an amount of money. The event's property `currency` is its currency."""

_SHARES = ("conversion", "retention")
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity of one user's events of one name.

    It is their number, or the sum of a property over the events where it is a number. For the
    property `revenue`, only amounts in `currency` count.
    """

    event: str
    property: str = ""
    currency: str = ""

    def document(self) -> dict[str, str]:
        return {"event": self.event, "property": self.property, "currency": self.currency}


@dataclass(frozen=True, slots=True)
class Definition:
    """A metric as an experiment measures it.

    It counts events from `delay` after the exposure on, for the length of `window`, or without an end
    if that is None. `version` numbers the definitions that a metric of this key has had; 0 is a name
    without a definition. `is_post_hoc` says that the metric was added after the start of the
    experiment. It does not affect equality.
    """

    key: str
    version: int
    type: str
    quantity: Quantity
    denominator: Quantity | None = None
    delay: timedelta = timedelta(0)
    window: timedelta | None = None
    cap_value: float | None = None
    cap_percentile: float | None = None
    is_decrease_good: bool = False
    is_guardrail: bool = False
    is_post_hoc: bool = field(default=False, compare=False)

    @property
    def is_registered_goal(self) -> bool:
        """Return whether the metric was registered before the start as one that should improve."""
        return not self.is_guardrail and not self.is_post_hoc

    @property
    def is_share(self) -> bool:
        """Return whether each user counts as 0 or 1."""
        return self.type in _SHARES

    @property
    def events(self) -> frozenset[str]:
        """Return the names of all events that the metric reads."""
        return frozenset(quantity.event for quantity in (self.quantity, self.denominator) if quantity)

    @property
    def span(self) -> timedelta | None:
        """Return how long after the exposure the window ends; None where it has no end."""
        return None if self.window is None else self.delay + self.window

    def document(self) -> dict[str, Any]:
        """Return the definition as JSON, with the properties of a metric under /v1/metrics."""
        is_retention = self.type == "retention"
        return {
            "key": self.key,
            "version": self.version,
            "type": self.type,
            **self.quantity.document(),
            # The type revenue implies the property.
            "property": "" if self.type == REVENUE else self.quantity.property,
            "denominator": self.denominator.document() if self.denominator else None,
            "windowHours": None if is_retention or self.window is None else self.window // _HOUR,
            "delayHours": 0 if is_retention else self.delay // _HOUR,
            "fromDay": self.delay // _DAY if is_retention else None,
            "toDay": self.span // _DAY if is_retention and self.span is not None else None,
            "capValue": self.cap_value,
            "capPercentile": self.cap_percentile,
            "direction": "decrease" if self.is_decrease_good else "increase",
            "role": "guardrail" if self.is_guardrail else "goal",
            **({"isPostHoc": True} if self.is_post_hoc else {}),
        }

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Definition:
        """Return the definition from a document that `document()` made or that `check_meaning` accepts."""
        delay, window = _span(document)
        denominator = document["denominator"]
        return cls(
            key=document["key"],
            version=document["version"],
            type=document["type"],
            quantity=Quantity(
                document["event"],
                REVENUE if document["type"] == REVENUE else document["property"],
                document["currency"],
            ),
            denominator=None if denominator is None else Quantity(**denominator),
            delay=delay,
            window=window,
            cap_value=document["capValue"],
            cap_percentile=document["capPercentile"],
            is_decrease_good=document["direction"] == "decrease",
            is_guardrail=document["role"] == "guardrail",
            is_post_hoc=document.get("isPostHoc", False),
        )


def primary_of(definitions: Iterable[Definition]) -> Definition | None:
    """Return the primary metric, which decides an experiment: the first registered goal."""
    return next((definition for definition in definitions if definition.is_registered_goal), None)


def undefined(name: str) -> Definition:
    """Return the definition of a name without a metric: the share of users with an event of that name."""
    return Definition(key=name, version=0, type="conversion", quantity=Quantity(name))


def _span(document: Mapping[str, Any]) -> tuple[timedelta, timedelta | None]:
    """Return how long after the exposure a metric begins to count, and for how long."""
    if document["type"] == "retention":
        return document["fromDay"] * _DAY, (document["toDay"] - document["fromDay"]) * _DAY
    hours = document["windowHours"]
    return document["delayHours"] * _HOUR, None if hours is None else hours * _HOUR
