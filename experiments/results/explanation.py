"""How a figure comes about: what each condition of a metric leaves of the events, and what is made of the rest.

Counted afresh from events and exposures, so that anyone can hold it against the results, which rest on totals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from config.documents import Document
from config.timestamps import format_timestamp
from experiments.exposures import references
from experiments.metrics.definition import Definition, Quantity
from experiments.metrics.frozen import definitions_of
from experiments.models import Experiment
from experiments.results.explanation_statements import Answer, Condition, Question, count, dialect, percentile
from experiments.totals.queries import exposed_users


def explain(experiment: Experiment, place: int, variant: str) -> Document:
    """How the figure of the metric at this place comes about in one variant, from what is stored now.

    `steps` tell what each condition and all before it leave: `rows` events, of so many `users`. `sum` adds up the
    values of the users, each at most `cap`. `value` is that by exposed user, or for a ratio by `denominatorSum`.
    """
    definition = definitions_of(experiment)[place]
    conditions = list(_conditions_of_users(experiment, definition))
    question = _question(definition.quantity, conditions, _VALUES.get(definition.type, ""))
    cap = _cap(experiment, definition, question)
    counted = count(experiment, variant, question, cap)
    users = exposed_users(experiment).filter(variant=variant).count()
    explained = {
        "users": users,
        "steps": _steps(question, counted),
        "cap": cap,
        "cappedUsers": counted.capped,
        "sum": counted.total,
        "denominatorSteps": None,
        "denominatorSum": None,
        "value": counted.total / users if users else None,
    }
    if definition.denominator is not None:
        explained |= _ratio(experiment, variant, counted.total, _question(definition.denominator, conditions))
    return explained


def explain_all(experiment: Experiment) -> dict[str, dict[str, Document]]:
    """Every explanation, by the place of the metric as text and by variant: to keep when the events may go."""
    return {
        str(place): {variant: explain(experiment, place, variant) for variant in experiment.variant_keys}
        for place in range(len(experiment.metrics))
    }


_VALUES = {"conversion": "any", "retention": "any", "mean": "mean"}
"""What is made of the events of one user, by type of metric, where it is not their number or sum."""


def _question(quantity: Quantity, conditions: Sequence[Condition], value: str = "") -> Question:
    usual = "sum" if quantity.property else "number"
    return Question(quantity.event, [*conditions, *_of_values(quantity)], value or usual, quantity.property)


def _conditions_of_users(experiment: Experiment, definition: Definition) -> Iterator[Condition]:
    """Who did it, for which experiment, and when. Each as the contract of results words it."""
    yield Condition("by_exposed_users", "By users who were exposed to the variant.", "base IS NOT NULL")
    own = ["", *references(experiment)]
    described = "That name this experiment, or none."
    yield Condition("of_the_experiment", described, f"experiment IN ({', '.join(['%s'] * len(own))})", own)
    yield Condition("after_exposure", "At or after the second of the exposure.", "counted_at >= base")
    if definition.delay or definition.window is not None:
        yield _in_the_window(definition)
    if experiment.stopped_at is not None:
        described = f"Not after the stop at {format_timestamp(experiment.stopped_at)}."
        yield Condition("before_the_stop", described, "counted_at <= %s", [experiment.stopped_at])


def _in_the_window(definition: Definition) -> Condition:
    start = definition.delay
    described, sql = f"At least {_hours(start)} after it", f"counted_at >= {dialect().later}"
    if definition.window is None:
        return Condition("in_the_window", f"{described}.", sql, [start.total_seconds()])
    end = start + definition.window
    described, sql = f"{described}, and less than {_hours(end)}.", f"{sql} AND counted_at < {dialect().later}"
    return Condition("in_the_window", described, sql, [start.total_seconds(), end.total_seconds()])


def _hours(duration: timedelta) -> str:
    hours = duration // timedelta(hours=1)
    return "1 hour" if hours == 1 else f"{hours:,} hours"


def _of_values(quantity: Quantity) -> Iterator[Condition]:
    if quantity.currency:
        is_same = "currency = %s"
        yield Condition("of_the_currency", f"In the currency {quantity.currency}.", is_same, [quantity.currency])
    if quantity.property:
        yield Condition("with_the_value", f"With a number as {quantity.property}.", "amount IS NOT NULL")


def _cap(experiment: Experiment, definition: Definition, question: Question) -> float | None:
    if definition.cap_percentile is None:
        return definition.cap_value
    return percentile(experiment, question, definition.cap_percentile)


def _ratio(experiment: Experiment, variant: str, numerator: float, question: Question) -> Document:
    counted = count(experiment, variant, question, None)
    return {
        "denominatorSteps": _steps(question, counted),
        "denominatorSum": counted.total,
        "value": numerator / counted.total if counted.total else None,
    }


def _steps(question: Question, counted: Answer) -> list[Document]:
    named = [
        ("events_of_the_name", f"Events named {question.event} in the environment."),
        *((condition.name, condition.description) for condition in question.conditions),
        ("counted", "What is left counts."),
    ]
    left = [*counted.left, counted.left[-1]]
    return [
        {"name": name, "description": described, "rows": rows, "users": users}
        for (name, described), (rows, users) in zip(named, left, strict=True)
    ]
