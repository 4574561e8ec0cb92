"""The definitions of metrics: what a metric computes from one user's events, and which definitions an experiment uses.

A started experiment uses the definitions of its start. A draft uses the current ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from config.documents import Document
from config.models import Environment
from events.counts.queries import missing_names
from events.counts.stopped import Stopped, stopped_events
from experiments.models import Experiment, Metric, Status

REVENUE = "revenue"
"""The event property that holds an amount of money, in the currency of the property `currency`."""

DEFAULT_MARGIN = 0.1
"""The margin of a guardrail without one of its own, as a share of the control's value."""

_SHARES = ("conversion", "retention", "funnel")
_LOWER_BOUNDS = ("greaterThan", "greaterThanOrEqual")
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a property of an event.

    `value` is a string, a number, a boolean, a tuple of these, or None for operators without a value.
    """

    property: str
    operator: str
    value: Any = None

    def as_json(self) -> dict[str, Any]:
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        return {"property": self.property, "operator": self.operator} | ({} if value is None else {"value": value})

    @classmethod
    def parse(cls, as_json: Mapping[str, Any]) -> Condition:
        value = as_json.get("value")
        return cls(as_json["property"], as_json["operator"], tuple(value) if isinstance(value, list) else value)


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is measured of one user's events of one name that meet all conditions.

    Without a `property`, it is the number of events. For the property `revenue`, only amounts in `currency` count. The
    currency is stored in upper case, and compared in any case.
    """

    event: str
    property: str = ""
    currency: str = ""
    where: tuple[Condition, ...] = ()

    def excludes_negatives(self) -> bool:
        """Return whether the definition alone rules out negative values: a number of events, or a bounded property."""
        if not self.property:
            return True
        bounds = (bound for bound in self.where if bound.property == self.property and bound.operator in _LOWER_BOUNDS)
        return any(bound.value >= 0 for bound in bounds)

    def as_json(self) -> dict[str, Any]:
        shown = {"event": self.event, "property": self.property, "currency": self.currency}
        return shown | _where_as_json(self.where)

    @classmethod
    def parse(cls, as_json: Mapping[str, Any]) -> Quantity:
        where = tuple(Condition.parse(condition) for condition in as_json.get("where", ()))
        currency = as_json.get("currency", "").upper()
        return cls(as_json["event"], as_json.get("property", ""), currency, where)


@dataclass(frozen=True, slots=True)
class Definition:
    """A metric as an experiment measures it.

    Events count from `delay` after the exposure for the length of `window`, or without an end if it is None. `version`
    counts the definitions that metrics with this key have had. It is 0 for a name without a metric. `is_post_hoc` marks
    metrics that were added after the start, and does not affect equality.

    A funnel has at least two `steps`; `quantity` is the first. `quantile` is the share of events below the value of a
    quantile metric. At most one of the two margins is set.
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
    steps: tuple[Quantity, ...] = ()
    quantile: float | None = None
    margin: float | None = None
    margin_absolute: float | None = None

    @property
    def is_registered_goal(self) -> bool:
        """Return whether the start registered the metric as one that should improve."""
        return not self.is_guardrail and not self.is_post_hoc

    @property
    def is_share(self) -> bool:
        """Return whether the value of each user is 0 or 1."""
        return self.type in _SHARES

    @property
    def adds_amounts(self) -> bool:
        """Return whether values are sums of amounts, and not numbers of events or of distinct values."""
        return bool(self.quantity.property) and self.type not in ("distinct", "quantile")

    @property
    def numbers(self) -> tuple[Quantity, ...]:
        """Return the quantities whose property must be a number, because their amounts are added or ordered."""
        if self.type == "distinct":
            return ()
        return tuple(part for part in (self.quantity, self.denominator) if part and part.property)

    @property
    def is_non_negative(self) -> bool:
        """Return whether the definition alone rules out negative values, in the denominator too."""
        if self.is_share or self.type == "distinct":
            return True
        return self.quantity.excludes_negatives() and (
            self.denominator is None or self.denominator.excludes_negatives()
        )

    @property
    def counts_mature_users(self) -> bool:
        """Return whether only users whose window is over count."""
        return self.window is not None

    @property
    def relative_margin(self) -> float | None:
        """Return the relative margin in force; None for goals, and for absolute margins."""
        if not self.is_guardrail or self.margin_absolute is not None:
            return None
        return DEFAULT_MARGIN if self.margin is None else self.margin

    @property
    def outcomes(self) -> frozenset[str]:
        """Return the events that the metric counts as outcomes. Those of the denominator are not."""
        return frozenset(quantity.event for quantity in (self.quantity, *self.steps))

    @property
    def events(self) -> frozenset[str]:
        """Return the names of all events that the metric reads."""
        return self.outcomes | ({self.denominator.event} if self.denominator else frozenset())

    @property
    def span(self) -> timedelta | None:
        """Return the time from the exposure to the end of the window; None without a window."""
        return None if self.window is None else self.delay + self.window

    def as_json(self) -> dict[str, Any]:
        """Return the definition with the properties of a metric under /v1/metrics."""
        is_retention = self.type == "retention"
        return {
            "key": self.key,
            "version": self.version,
            "type": self.type,
            "event": self.quantity.event,
            # The type revenue implies the property.
            "property": "" if self.type == REVENUE else self.quantity.property,
            "currency": self.quantity.currency,
            "denominator": self.denominator.as_json() if self.denominator else None,
            "windowHours": None if is_retention or self.window is None else self.window // _HOUR,
            "delayHours": 0 if is_retention else self.delay // _HOUR,
            "fromDay": self.delay // _DAY if is_retention else None,
            "toDay": self.span // _DAY if is_retention and self.span is not None else None,
            "capValue": self.cap_value,
            "capPercentile": self.cap_percentile,
            "direction": "decrease" if self.is_decrease_good else "increase",
            "role": "guardrail" if self.is_guardrail else "goal",
            **self._optional_as_json(),
            **({"isPostHoc": True} if self.is_post_hoc else {}),
        }

    def _optional_as_json(self) -> dict[str, Any]:
        """Return the properties that are left out while they are empty, so that stored definitions stay equal."""
        steps = [{"event": step.event, **_where_as_json(step.where)} for step in self.steps]
        values = {
            **({} if self.steps else _where_as_json(self.quantity.where)),
            "steps": steps or None,
            "quantile": self.quantile,
            "margin": self.margin,
            "marginAbsolute": self.margin_absolute,
        }
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def parse(cls, as_json: Mapping[str, Any]) -> Definition:
        """Return the definition from JSON that `as_json` made, or that `check_meaning` accepts."""
        delay, window = _span(as_json)
        denominator = as_json["denominator"]
        steps = tuple(Quantity.parse(step) for step in as_json.get("steps", ()))
        implied = {"property": REVENUE} if as_json["type"] == REVENUE else {}
        return cls(
            key=as_json["key"],
            version=as_json["version"],
            type=as_json["type"],
            quantity=steps[0] if steps else Quantity.parse({**as_json, **implied}),
            denominator=None if denominator is None else Quantity.parse(denominator),
            delay=delay,
            window=window,
            cap_value=as_json["capValue"],
            cap_percentile=as_json["capPercentile"],
            is_decrease_good=as_json["direction"] == "decrease",
            is_guardrail=as_json["role"] == "guardrail",
            is_post_hoc=as_json.get("isPostHoc", False),
            steps=steps,
            quantile=as_json.get("quantile"),
            margin=as_json.get("margin"),
            margin_absolute=as_json.get("marginAbsolute"),
        )


def _where_as_json(where: Iterable[Condition]) -> dict[str, Any]:
    conditions = [condition.as_json() for condition in where]
    return {"where": conditions} if conditions else {}


def primary_of(definitions: Iterable[Definition]) -> Definition | None:
    """Return the primary metric, which decides the experiment: the first registered goal."""
    return next((definition for definition in definitions if definition.is_registered_goal), None)


def undefined(name: str) -> Definition:
    """Return the definition of a name without a metric: the share of users with an event of this name."""
    return Definition(key=name, version=0, type="conversion", quantity=Quantity(name))


def _span(as_json: Mapping[str, Any]) -> tuple[timedelta, timedelta | None]:
    """Return when the window begins after the exposure, and its length."""
    if as_json["type"] == "retention":
        return as_json["fromDay"] * _DAY, (as_json["toDay"] - as_json["fromDay"]) * _DAY
    hours = as_json["windowHours"]
    return as_json["delayHours"] * _HOUR, None if hours is None else hours * _HOUR


COLUMNS = {
    "type": "type",
    "event": "event",
    "property": "property",
    "currency": "currency",
    "denominator": "denominator",
    "where": "where",
    "steps": "steps",
    "quantile": "quantile",
    "windowHours": "window_hours",
    "delayHours": "delay_hours",
    "fromDay": "from_day",
    "toDay": "to_day",
    "capValue": "cap_value",
    "capPercentile": "cap_percentile",
    "direction": "direction",
    "role": "role",
    "margin": "margin",
    "marginAbsolute": "margin_absolute",
}
"""The column of each JSON property that defines what a metric computes."""
LEFT_OUT_WHILE_EMPTY = ("where", "steps", "quantile", "margin", "marginAbsolute")
"""JSON leaves these properties out while they are empty, so that older and newer JSON compare as equal."""


def meaning(metric: Metric) -> Document:
    """Return what a metric computes: all properties except its key, description and version."""
    return without_empty({name: getattr(metric, column) for name, column in COLUMNS.items()})


def without_empty(as_json: Document) -> Document:
    return {
        name: value for name, value in as_json.items() if name not in LEFT_OUT_WHILE_EMPTY or value not in (None, [])
    }


def definition_of(metric: Metric) -> Definition:
    return Definition.parse({"key": metric.key, "version": metric.version, **meaning(metric)})


def definitions_of(experiment: Experiment) -> list[Definition]:
    """Return the definitions of the experiment's metrics, in their order. This takes a query for drafts only."""
    if experiment.status == Status.DRAFT:
        return current_definitions(experiment.metrics)
    if not experiment.definitions:  # started before metrics could be defined
        return [undefined(name) for name in experiment.metrics]
    return [Definition.parse(as_json) for as_json in experiment.definitions]


def longest_span(experiment: Experiment) -> timedelta | None:
    """Return how long after an exposure the last window of the user ends; None where no metric has a window."""
    return max(
        (definition.span for definition in definitions_of(experiment) if definition.span is not None), default=None
    )


def outcome_names(experiment: Experiment) -> frozenset[str]:
    """Return the names of events that are outcomes. Such events never create exposures.

    They are the keys of the metrics and the events that the metrics count, with all steps of funnels. The denominator
    of a ratio is no outcome, because it may be the exposure itself. Metrics that were added after the start change
    nothing: an event that could expose users before still can.
    """
    registered = [definition for definition in definitions_of(experiment) if not definition.is_post_hoc]
    return frozenset(definition.key for definition in registered).union(
        *(definition.outcomes for definition in registered)
    )


def current_definitions(names: list[str]) -> list[Definition]:
    """Return the current definitions of these names, with at most one query."""
    metrics = {metric.key: metric for metric in Metric.objects.filter(key__in=names)} if names else {}
    return [definition_of(metrics[name]) if name in metrics else undefined(name) for name in names]


def never_received(definitions: Iterable[Definition], environment: Environment) -> set[str]:
    """Return the events of these metrics that the environment never received, with one query."""
    return missing_names(environment, (name for definition in definitions for name in definition.events))


def stopped(definitions: Iterable[Definition], environment: Environment, now: datetime) -> dict[str, Stopped]:
    """Return the events of these metrics that used to come steadily and then stopped, with one query."""
    return stopped_events(environment, (name for definition in definitions for name in definition.events), now)
