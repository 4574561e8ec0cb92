"""The conditions of explanations, in words and in SQL over the columns of `happened` in `explanation_statements`.

The SQL of conditions on properties has the meaning of `metrics.conditions`, but shares nothing with that of the totals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson

from config.timestamps import format_timestamp
from experiments.metrics.conditions import OPERATORS
from experiments.metrics.definition import Condition as WhereCondition
from experiments.metrics.definition import Definition, Quantity
from experiments.models import Experiment
from experiments.results.explanation_statements import Condition, Selection, Sql, dialect

EXPOSED, MATURE = "by_exposed_users", "by_mature_users"
_SUMMARIES = {"conversion": "any", "retention": "any", "funnel": "any", "mean": "mean", "distinct": "distinct"}
"""How the value of one user follows from events by type of metric. The default is their number, or their sum."""


def select(definition: Definition, quantity: Quantity, conditions: Sequence[Condition]) -> Selection:
    """Return which events of a quantity count: those that meet these conditions on users and all on their values."""
    names = [step.event for step in definition.steps] or [quantity.event]
    summary = _SUMMARIES.get(definition.type) or ("sum" if quantity.property else "number")
    all_conditions = [*conditions, *_conditions_of_values(definition, quantity)]
    events, value = list(dict.fromkeys(names)), _value(definition, quantity)
    return Selection(events, all_conditions, summary, value, steps=len(definition.steps))


def describe_steps(definition: Definition) -> list[tuple[str, str]]:
    """Return the name and the description of the step of an explanation for each step of a funnel."""
    return [
        ("passed_the_step", f"By users who passed step {number}, {step.event}, and all steps before it in order.")
        for number, step in enumerate(definition.steps, 1)
    ]


# users and time


def conditions_of_users(
    experiment: Experiment, definition: Definition, end: datetime, *, is_read: bool
) -> Iterator[Condition]:
    """Yield the conditions on the user, the experiment and the time of an event. No window ends after `end`.

    `is_read` says that this is the one reading of a fixed analysis.
    """
    yield Condition(EXPOSED, "Events by users who were exposed to the variant.", "base IS NOT NULL")
    if definition.span is not None:
        description = f"Events by users whose window had passed at {format_timestamp(end)}."
        yield Condition(MATURE, description, f"{dialect().later} <= %s", [definition.span.total_seconds(), end])
    own = ["", *experiment.references()]
    description = "Events that name this experiment, or no experiment."
    yield Condition("of_the_experiment", description, f"experiment IN ({', '.join(['%s'] * len(own))})", own)
    yield Condition("after_exposure", "Events at or after the second of the exposure.", "counted_at >= base")
    if definition.delay or definition.window is not None:
        yield _in_the_window(definition)
    if experiment.stopped_at is not None:
        noun = "reading" if is_read else "stop"
        description = f"Events not after the {noun} at {format_timestamp(experiment.stopped_at)}."
        yield Condition("before_the_stop", description, "counted_at <= %s", [experiment.stopped_at])


def _in_the_window(definition: Definition) -> Condition:
    start = definition.delay
    description, sql = f"Events at least {_hours(start)} after the exposure", f"counted_at >= {dialect().later}"
    if definition.window is None:
        return Condition("in_the_window", f"{description}.", sql, [start.total_seconds()])
    end = start + definition.window
    description = f"{description}, and less than {_hours(end)} after it."
    sql = f"{sql} AND counted_at < {dialect().later}"
    return Condition("in_the_window", description, sql, [start.total_seconds(), end.total_seconds()])


def _hours(duration: timedelta) -> str:
    hours = duration // timedelta(hours=1)
    return "1 hour" if hours == 1 else f"{hours:,} hours"


# values and properties


def _conditions_of_values(definition: Definition, quantity: Quantity) -> Iterator[Condition]:
    if definition.type == "funnel":
        yield Condition("with_the_properties", "That meet the conditions of a step.", "value IS NOT NULL")
        return
    if quantity.where:
        where = _meets(quantity.where)
        description = "That meet the conditions on their properties."
        yield Condition("with_the_properties", description, where.text, where.parameters)
    if quantity.currency:
        description = _describe(definition, f"in the currency {quantity.currency}.")
        yield Condition("of_the_currency", description, "currency = %s", [quantity.currency])
    if quantity.property:
        kind = "a text, a number or a boolean" if definition.type == "distinct" else "a number"
        description = _describe(definition, f"with {kind} as {quantity.property}.")
        yield Condition("with_the_value", description, "value IS NOT NULL")


def _describe(definition: Definition, words: str) -> str:
    """Return the description of a condition, which goes on with the sentence of an earlier one on properties."""
    parts = [definition.quantity, *definition.steps, *([definition.denominator] if definition.denominator else [])]
    goes_on = definition.type in ("distinct", "quantile") or any(part.where for part in parts)
    return f"{words[0].upper()}{words[1:]}" if goes_on else f"Events {words}"


def _value(definition: Definition, quantity: Quantity) -> Sql:
    """Return what the value of a user is computed from (see `Selection`)."""
    if definition.steps:
        return _steps_met(definition.steps)
    if quantity.property:
        template = dialect().scalar if definition.type == "distinct" else dialect().amount
        return Sql(template, [quantity.property])
    return Sql(dialect().day if definition.type == "distinct" else "NULL")


def _steps_met(steps: Sequence[Quantity]) -> Sql:
    """Return a text with the digits of the steps that an event meets, 0 to 9, or NULL if there are none."""
    digits, parameters = [], []
    for number, step in enumerate(steps):
        where = _meets(step.where)
        digits.append(f"CASE WHEN name = %s AND {where.text} THEN '{number}' ELSE '' END")
        parameters += [step.event, *where.parameters]
    return Sql(f"NULLIF({' || '.join(digits)}, '')", parameters)


_SIGNS = {"greaterThan": ">", "greaterThanOrEqual": ">=", "lessThan": "<", "lessThanOrEqual": "<="}
_POSITIONS = {"contains": "> 0", "startsWith": "= 1"}


def _meets(where: Sequence[WhereCondition]) -> Sql:
    """Return SQL that says whether the properties of an event meet all conditions. NULL means that they do not."""
    conditions = [_holds(condition) for condition in where]
    parameters = [parameter for condition in conditions for parameter in condition.parameters]
    return Sql(" AND ".join(condition.text for condition in conditions) or "TRUE", parameters)


def _holds(condition: WhereCondition) -> Sql:
    is_negative = OPERATORS[condition.operator].is_negative
    if condition.value is None:
        return Sql(f"{dialect().stored} IS {'' if is_negative else 'NOT '}NULL", [condition.property])
    values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    comparison, compared_with = _comparison(condition.operator, values)
    types = ", ".join(dict.fromkeys(dialect().types[type(value)] for value in values))
    compared = dialect().compared.format(comparison, types)
    return Sql(f"NOT {compared}" if is_negative else compared, [compared_with, condition.property])


def _comparison(operator: str, values: Sequence[Any]) -> tuple[str, str]:
    """Return a comparison of a property with values, of which only one that tests for equality has several."""
    if operator in _SIGNS:
        return f"value {_SIGNS[operator]} {dialect().wanted}", orjson.dumps(values[0]).decode()
    if operator in _POSITIONS:
        return f"{dialect().position} {_POSITIONS[operator]}", values[0]
    return dialect().is_wanted, orjson.dumps(values).decode()
