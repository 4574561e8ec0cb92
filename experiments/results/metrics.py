"""A metric as expressions over events: a condition is a `Q`, and a value of one user is an aggregate over the events.

The rows are exposures with one event of their user each (see `values.Source`). Explanations and quantiles use the same
conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial, reduce
from operator import and_, or_
from typing import Any

from django.db.models import (
    Case,
    Count,
    DateTimeField,
    Expression,
    F,
    FloatField,
    IntegerField,
    JSONField,
    Q,
    Sum,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Greatest, StrIndex
from django.db.models.lookups import (
    Exact,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from config.database.selects import Column
from experiments.metrics.conditions import as_boolean
from experiments.metrics.definition import REVENUE, Condition, Definition, Quantity
from experiments.results.expressions import (
    LETTERS,
    AddSeconds,
    Boolean,
    CountDistinct,
    ExactNumber,
    Float,
    Joined,
    JSONType,
    Number,
    NumberValue,
    Path,
    Scalar,
    StepsPassed,
    Text,
    UpperASCII,
    UTCDay,
)

NAME = Column("event_name", TextField())
COUNTED_AT = Column("counted_at", DateTimeField())
"""The moment of the event. One whose timestamp lies after its receipt counts at its receipt."""
REFERENCE = Column("reference", TextField())
"""The experiment that the event names, if any."""
PROPERTIES = Column("properties", JSONField())
BASE = Column("base", DateTimeField())
"""The moment of the exposure in whole seconds."""
ZERO = timedelta(0)
_ALWAYS = Q()

_COMPARISONS: Mapping[str, type[Any]] = {
    "greaterThan": GreaterThan,
    "greaterThanOrEqual": GreaterThanOrEqual,
    "lessThan": LessThan,
    "lessThanOrEqual": LessThanOrEqual,
}
_JSON_TYPES = {bool: "boolean", int: "number", float: "number", str: "string"}


# conditions on events


def is_of(quantity: Quantity) -> Q:
    """Return the condition for the events of a quantity: those of its name that meet its conditions."""
    return reduce(and_, map(meets, quantity.where), Q(Exact(NAME, Value(quantity.event))))


def is_of_any(quantities: Iterator[Quantity] | list[Quantity]) -> Q:
    return reduce(or_, map(is_of, dict.fromkeys(quantities)))


def meets(condition: Condition) -> Q:
    """Return whether a property meets a condition.

    A property is compared with values of its own JSON type alone, so one that is missing, null or of another type
    meets no comparison, not even a negative one. Compared with booleans, the texts true and false are booleans.
    `experiments.metrics.conditions.meets` says the same in Python.
    """
    name, value = Value(condition.property), condition.value
    match condition.operator:
        case "exists" | "notExists":
            return Q(IsNull(JSONType(PROPERTIES, name), condition.operator == "notExists"))
        case "contains":
            return Q(GreaterThan(StrIndex(Text(PROPERTIES, name), Value(value)), 0))
        case "startsWith":
            return Q(Exact(StrIndex(Text(PROPERTIES, name), Value(value)), 1))
        case "equals" | "in":
            return reduce(or_, (Q(is_member) for _, is_member in _memberships(name, value)))
        case "notEquals" | "notIn":
            return reduce(
                or_,
                (is_of_type & ~Q(is_member) for is_of_type, is_member in _memberships(name, value)),
            )
        case operator:
            return Q(_COMPARISONS[operator](ExactNumber(PROPERTIES, name), NumberValue(value)))


def _memberships(name: Value, value: Any) -> Iterator[tuple[Q, Any]]:
    """Yield, for each JSON type among the values of a condition, whether the property has it, and is one of them."""
    by_type: dict[str, list[Any]] = {}
    for member in map(as_boolean, value if isinstance(value, tuple) else (value,)):
        by_type.setdefault(_JSON_TYPES[type(member)], []).append(member)
    is_boolean = Q(IsNull(Boolean(PROPERTIES, name), False))
    for json_type, members in by_type.items():
        is_of_type = Q(Exact(JSONType(PROPERTIES, name), Value(json_type)))
        match json_type:
            case "boolean":
                yield is_boolean, In(Boolean(PROPERTIES, name), [Value(str(each).lower()) for each in members])
            case "number":
                yield is_of_type, In(ExactNumber(PROPERTIES, name), [*map(NumberValue, members)])
            case _:
                is_of_type = is_of_type & ~is_boolean if "boolean" in by_type else is_of_type
                yield is_of_type, In(Text(PROPERTIES, name), members)


# time


def since_exposure(age: timedelta) -> Expression:
    """Return the moment that lies this long after the exposure."""
    return AddSeconds(BASE, Value(age // timedelta(seconds=1))) if age else BASE


def in_window(definition: Definition) -> Q:
    """Return whether an event is in the window of a metric."""
    has_begun = Q(GreaterThanOrEqual(COUNTED_AT, since_exposure(definition.delay)))
    if definition.span is None:
        return has_begun
    return has_begun & Q(LessThan(COUNTED_AT, since_exposure(definition.span)))


def not_after(moment: datetime) -> Q:
    return Q(LessThanOrEqual(COUNTED_AT, Value(moment)))


def effective_day() -> Expression:
    """Return the day on which an event begins to count: its own, or that of the exposure if that is later."""
    return UTCDay(Greatest(COUNTED_AT, F("exposed_at")))


# amounts


def amount(quantity: Quantity) -> Expression:
    """Return the number that an event adds, or NULL where it adds none."""
    number = Number(PROPERTIES, Value(quantity.property))
    if not quantity.currency:
        return number
    return Case(When(is_in_currency(quantity), then=number), output_field=FloatField())


def is_in_currency(quantity: Quantity) -> Q:
    return Q(Exact(_currency(), Value(quantity.currency)))


def in_other_currency(quantity: Quantity) -> Q:
    """Return whether an event of a quantity has an amount that is not added: in another currency, or in none."""
    is_amount = Q(IsNull(Number(PROPERTIES, Value(REVENUE)), False))
    return is_of(quantity) & ~is_in_currency(quantity) & is_amount


def is_without_number(quantity: Quantity) -> Q:
    """Return whether an event has a value of another type, such as a text, in place of the number of a quantity.

    The event need not meet conditions on that property, because no text meets a comparison with a number.
    """
    where = tuple(condition for condition in quantity.where if condition.property != quantity.property)
    json_type = JSONType(PROPERTIES, Value(quantity.property))
    return is_of(replace(quantity, where=where)) & Q(IsNull(json_type, False)) & ~Q(Exact(json_type, Value("number")))


def _currency() -> Expression:
    return UpperASCII(Coalesce(Text(PROPERTIES, Value("currency")), Value("")))


# the figures of one user


FIGURES = (
    *("value", "denominator", "value_before", "denominator_before"),
    *("events", "other_currency", "without_number", "steps"),
)
"""What a metric stores of a user (see `experiments.models.UserValue`)."""

Combine = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of one user: what `combine` makes of one aggregate, or several, over the events of this user.

    From the same aggregates over the events of single days, `series` makes the figure at the end of each day.
    """

    aggregates: tuple[Any, ...]
    combine: Combine = lambda aggregate: aggregate

    def expression(self) -> Any:
        return self.combine(*self.aggregates)


def figures_of(definition: Definition, *, has_history: bool, counts: Q = _ALWAYS) -> Mapping[str, Figure]:
    """Return the figures of a metric that can differ from 0, by name; `value` of a funnel follows from its `steps`.

    Without a history, nothing before the exposure counts. Events and exposures must together meet `counts`.
    """
    return dict(_figures_of(definition, has_history, counts))


def _figures_of(definition: Definition, has_history: bool, counts: Q) -> Iterator[tuple[str, Figure]]:
    quantity, denominator = definition.quantity, definition.denominator
    window, before = in_window(definition) & counts, Q(LessThan(COUNTED_AT, BASE)) & counts
    if definition.steps:
        yield "steps", steps_of(definition, window)
    else:
        yield "value", value_of(definition, quantity, window)
        if has_history and definition.type != "quantile":
            yield "value_before", value_of(definition, quantity, before)
    if denominator:
        yield "denominator", value_of(definition, denominator, window)
        if has_history:
            yield "denominator_before", value_of(definition, denominator, before)
    since = Q(GreaterThanOrEqual(COUNTED_AT, BASE)) & counts
    yield "events", Figure((_count(is_of(quantity) & since),))
    with_currency = [part for part in (quantity, denominator) if part and part.currency]
    if with_currency:
        yield "other_currency", Figure((_count(reduce(or_, map(in_other_currency, with_currency)) & window),))
    if definition.numbers:
        yield "without_number", Figure((_count(reduce(or_, map(is_without_number, definition.numbers)) & since),))


def value_of(definition: Definition, quantity: Quantity, when: Q) -> Figure:
    """Return what a metric computes from the events of a quantity that meet a condition."""
    counts = is_of(quantity) & when
    if definition.is_share:
        return Figure((_count(counts),), _is_any)
    if definition.type == "distinct":
        listed = Scalar(PROPERTIES, Value(quantity.property)) if quantity.property else UTCDay(COUNTED_AT)
        return Figure((CountDistinct(listed, filter=counts),))
    if not quantity.property:
        return Figure((_count(counts),))
    if definition.type == "quantile":
        return Figure((Count(amount(quantity), filter=counts),))
    if definition.type == "mean":
        return Figure((Sum(amount(quantity), filter=counts), Count(amount(quantity), filter=counts)), _mean)
    return Figure((Sum(amount(quantity), filter=counts),), Float)


def steps_of(definition: Definition, when: Q) -> Figure:
    """Return how many steps of a funnel the events that meet a condition pass in order."""
    met = [
        Case(When(is_of(step), then=Value(letter)), default=Value(""))
        for step, letter in zip(definition.steps, LETTERS, strict=False)
    ]
    letters = Joined(Value("|"), *met)
    counts = is_of_any([*definition.steps]) & when
    return Figure((Path(letters, COUNTED_AT, filter=counts),), partial(StepsPassed, steps=len(met)))


def _count(condition: Q) -> Count:
    return Count("user_id", filter=condition)


def _is_any(number: Any) -> Case:
    return Case(When(GreaterThan(number, 0), then=Value(1)), default=Value(0), output_field=IntegerField())


def _mean(total: Any, number: Any) -> Float:
    return Float(total / number)
