"""How a figure comes about: what each condition of a metric leaves of the events, and what is made of the rest.

Counted afresh from events and exposures, so that anyone can hold it against the results, which rest on totals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from operator import add

from django.db.models import Count

from config.documents import Document
from config.timestamps import format_timestamp
from experiments.aggregates.statements import exposed_users
from experiments.design.phases import choices, chosen
from experiments.metrics.definition import Definition, Quantity
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment
from experiments.results.explanation_statements import Answer, Condition, Question, count, dialect, percentile


def explain(experiment: Experiment, place: int, variant: str, phase: str | None = None) -> Document:
    """How the figure of the metric at this place comes about in one variant, from what is stored now.

    `phase` is one of `phases.choices`. `steps` tell what each condition and all before it leave: `rows` events, of so
    many `users`. `sum` adds up the values of the users, each at most `cap`. `value` is that by exposed user, or for a
    ratio by `denominatorSum`.
    """
    return _Explanation(experiment, place, variant).of(phase)


def explain_all(experiment: Experiment) -> dict[str, dict[str, Document]]:
    """Every explanation, by the place of the metric as text and by variant: to keep when the events may go."""
    return {
        str(place): {variant: explain_choices(experiment, place, variant) for variant in experiment.variant_keys}
        for place in range(len(experiment.metrics))
    }


def explain_choices(experiment: Experiment, place: int, variant: str) -> Document:
    """The explanation and, of an experiment with several phases, under `choices` those of all that one may choose."""
    explanation = _Explanation(experiment, place, variant)
    if len(experiment.phases) < 2:
        return explanation.of(None)
    return {**explanation.of(None), "choices": {each: explanation.of(each) for each in choices(experiment.phases)}}


class _Explanation:
    """What is counted of one metric in one variant, phase by phase: what phases come to costs nothing more."""

    def __init__(self, experiment: Experiment, place: int, variant: str) -> None:
        definition = definitions_of(experiment)[place]
        conditions = list(_conditions_of_users(experiment, definition))
        value = _VALUES.get(definition.type, "")
        self._phases, self._question = experiment.phases, _question(definition.quantity, conditions, value)
        self._cap = _cap(experiment, definition, self._question)
        self._counted = count(experiment, variant, self._question, self._cap)
        self._divisor = None if definition.denominator is None else _question(definition.denominator, conditions)
        self._divided_by = None if self._divisor is None else count(experiment, variant, self._divisor, None)
        exposed = exposed_users(experiment).filter(variant=variant).order_by()
        self._users = dict(exposed.values_list("phase").annotate(users=Count("user_id")))

    def of(self, choice: str | None) -> Document:
        phases = chosen(self._phases, choice) or [1]
        where = "" if len(phases) >= len(self._phases) else f" in {_named(phases)}"
        counted, users = _together(self._counted, phases), sum(self._users.get(each, 0) for each in phases)
        explained = {
            "users": users,
            "steps": _steps(self._question, counted, where),
            "cap": self._cap,
            "cappedUsers": counted.capped,
            "sum": counted.total,
            "denominatorSteps": None,
            "denominatorSum": None,
            "value": counted.total / users if users else None,
        }
        if self._divisor is not None and self._divided_by is not None:
            divisor = _together(self._divided_by, phases)
            explained |= {
                "denominatorSteps": _steps(self._divisor, divisor, where),
                "denominatorSum": divisor.total,
                "value": counted.total / divisor.total if divisor.total else None,
            }
        return explained


def _together(counted: Mapping[int | None, Answer], phases: Sequence[int]) -> Answer:
    """What is left of the events of anybody, by the users who were exposed in these phases."""
    of_anybody, of_phases = (reduce(add, each) for each in (counted.values(), [counted[at] for at in phases]))
    return replace(of_phases, left=[of_anybody.left[0], *of_phases.left[1:]])


def _named(phases: Sequence[int]) -> str:
    *others, last = map(str, phases)
    return f"phases {', '.join(others)} and {last}" if others else f"phase {last}"


_EXPOSED = "by_exposed_users"
_VALUES = {"conversion": "any", "retention": "any", "mean": "mean"}
"""What is made of the events of one user, by type of metric, where it is not their number or sum."""


def _question(quantity: Quantity, conditions: Sequence[Condition], value: str = "") -> Question:
    usual = "sum" if quantity.property else "number"
    return Question(quantity.event, [*conditions, *_of_values(quantity)], value or usual, quantity.property)


def _conditions_of_users(experiment: Experiment, definition: Definition) -> Iterator[Condition]:
    """Who did it, for which experiment, and when. Each as the contract of results words it."""
    yield Condition(_EXPOSED, "By users who were exposed to the variant.", "base IS NOT NULL")
    own = ["", *experiment.references()]
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


def _where(condition: Condition, where: str) -> str:
    return f"{condition.description[:-1]}{where}." if condition.name == _EXPOSED else condition.description


def _steps(question: Question, counted: Answer, where: str) -> list[Document]:
    named = [
        ("events_of_the_name", f"Events named {question.event} in the environment."),
        *((each.name, _where(each, where)) for each in question.conditions),
        ("counted", "What is left counts."),
    ]
    left = [*counted.left, counted.left[-1]]
    return [
        {"name": name, "description": described, "rows": rows, "users": users}
        for (name, described), (rows, users) in zip(named, left, strict=True)
    ]
