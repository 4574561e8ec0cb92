"""What a metric computes of one user's events. Pure: how it is stored, and who may change it, is for others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

REVENUE = "revenue"
"""The property of an event that is an amount of money, in the currency that its property `currency` names."""

_SHARES = ("conversion", "retention")
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is taken of one user's events of this name: their number, or the sum of a property where it is a number.

    Of the property `revenue` only amounts in `currency` count.
    """

    event: str
    property: str = ""
    currency: str = ""

    def document(self) -> dict[str, str]:
        return {"event": self.event, "property": self.property, "currency": self.currency}


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric as an experiment measures it, from `delay` after the exposure on, for as long as `window`, if any.

    `version` counts the meanings that a metric of this key has had; 0 stands for a name that nobody has defined.
    `is_post_hoc`: the experiment has measured it since after its start, which makes it no other metric.
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
        """Whether it was named beforehand as what should improve."""
        return not self.is_guardrail and not self.is_post_hoc

    @property
    def is_share(self) -> bool:
        """Whether a user counts as 0 or 1."""
        return self.type in _SHARES

    @property
    def events(self) -> frozenset[str]:
        """The names of all events that it looks at."""
        return frozenset(quantity.event for quantity in (self.quantity, self.denominator) if quantity)

    @property
    def span(self) -> timedelta | None:
        """How long after the exposure the window ends; None where it has no end."""
        return None if self.window is None else self.delay + self.window

    def document(self) -> dict[str, Any]:
        """The definition as JSON, with the properties that a metric has under /v1/metrics."""
        is_retention = self.type == "retention"
        return {
            "key": self.key,
            "version": self.version,
            "type": self.type,
            **self.quantity.document(),
            # What the type says already, the metric does not say again.
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
        """The definition that `document()` made, or any other that `metrics.checks` finds nothing wrong with."""
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
    """The metric that decides an experiment: the first of the goals that were named beforehand."""
    return next((definition for definition in definitions if definition.is_registered_goal), None)


def undefined(name: str) -> Definition:
    """What a name measures that nobody has defined: the share of users with at least one event of that name."""
    return Definition(key=name, version=0, type="conversion", quantity=Quantity(name))


def _span(document: Mapping[str, Any]) -> tuple[timedelta, timedelta | None]:
    """How long after the exposure a metric begins to count, and for how long it does."""
    if document["type"] == "retention":
        return document["fromDay"] * _DAY, (document["toDay"] - document["fromDay"]) * _DAY
    hours = document["windowHours"]
    return document["delayHours"] * _HOUR, None if hours is None else hours * _HOUR
