"""Explaining a figure: how many events each condition of a metric leaves, and what the rest add up to.

Explanations are computed from events and exposures, so that anyone can compare them with the results,
which are computed from totals.
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
from experiments.results.explanation_statements import (
    Condition,
    Selection,
    StepCounts,
    count_steps,
    dialect,
    find_percentile,
)


def explain(experiment: Experiment, metric_index: int, variant: str, phase: str | None = None) -> Document:
    """Return how the figure of a metric is computed in one variant, from what is stored now.

    `phase` is one of `design.phases.choices`. Each of the `steps` has the number of events (`rows`) that meet a
    condition and all before it, and the number of their `users`. `sum` adds up the values of the users, each at
    most `cap`. `value` is the sum divided by the exposed users, or for a ratio by `denominatorSum`.
    """
    return _Explanation(experiment, metric_index, variant).of(phase)


def explain_all(experiment: Experiment) -> dict[str, dict[str, Document]]:
    """Return all explanations by metric index (as text) and variant, to store before events are deleted."""
    return {
        str(index): {variant: _explain_choices(experiment, index, variant) for variant in experiment.variant_keys}
        for index in range(len(experiment.metrics))
    }


def _explain_choices(experiment: Experiment, metric_index: int, variant: str) -> Document:
    """Return the explanation. With several phases, it has the explanations of all choices of phases in `choices`."""
    explanation = _Explanation(experiment, metric_index, variant)
    if len(experiment.phases) < 2:
        return explanation.of(None)
    return {
        **explanation.of(None),
        "choices": {choice: explanation.of(choice) for choice in choices(experiment.phases)},
    }


class _Explanation:
    """The counts of one metric in one variant by phase, so that every choice of phases comes from the same queries."""

    def __init__(self, experiment: Experiment, metric_index: int, variant: str) -> None:
        definition = definitions_of(experiment)[metric_index]
        conditions = list(_conditions_of_users(experiment, definition))
        value = _VALUES.get(definition.type, "")
        self._phases, self._selection = experiment.phases, _select(definition.quantity, conditions, value)
        self._cap = _cap(experiment, definition, self._selection)
        self._counts = count_steps(experiment, variant, self._selection, self._cap)
        self._denominator, self._denominator_counts = None, None
        if definition.denominator is not None:
            self._denominator = _select(definition.denominator, conditions)
            self._denominator_counts = count_steps(experiment, variant, self._denominator, None)
        exposed = exposed_users(experiment).filter(variant=variant).order_by()
        self._users = dict(exposed.values_list("phase").annotate(users=Count("user_id")))

    def of(self, choice: str | None) -> Document:
        phases = chosen(self._phases, choice) or [1]
        suffix = "" if len(phases) >= len(self._phases) else f" in {_phase_names(phases)}"
        counts, users = _combine_phases(self._counts, phases), sum(self._users.get(number, 0) for number in phases)
        explained = {
            "users": users,
            "steps": _steps(self._selection, counts, suffix),
            "cap": self._cap,
            "cappedUsers": counts.capped,
            "sum": counts.total,
            "denominatorSteps": None,
            "denominatorSum": None,
            "value": counts.total / users if users else None,
        }
        if self._denominator is not None and self._denominator_counts is not None:
            denominator = _combine_phases(self._denominator_counts, phases)
            explained |= {
                "denominatorSteps": _steps(self._denominator, denominator, suffix),
                "denominatorSum": denominator.total,
                "value": counts.total / denominator.total if denominator.total else None,
            }
        return explained


def _combine_phases(counts: Mapping[int | None, StepCounts], phases: Sequence[int]) -> StepCounts:
    """Return the counts of the users exposed in these phases. The first step counts the events of all users."""
    of_all_users, of_phases = reduce(add, counts.values()), reduce(add, [counts[number] for number in phases])
    return replace(of_phases, left=[of_all_users.left[0], *of_phases.left[1:]])


def _phase_names(phases: Sequence[int]) -> str:
    *others, last = map(str, phases)
    return f"phases {', '.join(others)} and {last}" if others else f"phase {last}"


_EXPOSED = "by_exposed_users"
_VALUES = {"conversion": "any", "retention": "any", "mean": "mean"}
"""The value of one user by type of metric. The default is the number of their events, or their sum."""


def _select(quantity: Quantity, conditions: Sequence[Condition], value: str = "") -> Selection:
    default = "sum" if quantity.property else "number"
    return Selection(
        quantity.event, [*conditions, *_conditions_of_values(quantity)], value or default, quantity.property
    )


def _conditions_of_users(experiment: Experiment, definition: Definition) -> Iterator[Condition]:
    """Yield the conditions on the user, the experiment and the time of an event."""
    yield Condition(_EXPOSED, "By users who were exposed to the variant.", "base IS NOT NULL")
    own = ["", *experiment.references()]
    description = "That name this experiment, or none."
    yield Condition("of_the_experiment", description, f"experiment IN ({', '.join(['%s'] * len(own))})", own)
    yield Condition("after_exposure", "At or after the second of the exposure.", "counted_at >= base")
    if definition.delay or definition.window is not None:
        yield _in_the_window(definition)
    if experiment.stopped_at is not None:
        description = f"Not after the stop at {format_timestamp(experiment.stopped_at)}."
        yield Condition("before_the_stop", description, "counted_at <= %s", [experiment.stopped_at])


def _in_the_window(definition: Definition) -> Condition:
    start = definition.delay
    description, sql = f"At least {_hours(start)} after it", f"counted_at >= {dialect().later}"
    if definition.window is None:
        return Condition("in_the_window", f"{description}.", sql, [start.total_seconds()])
    end = start + definition.window
    description, sql = f"{description}, and less than {_hours(end)}.", f"{sql} AND counted_at < {dialect().later}"
    return Condition("in_the_window", description, sql, [start.total_seconds(), end.total_seconds()])


def _hours(duration: timedelta) -> str:
    hours = duration // timedelta(hours=1)
    return "1 hour" if hours == 1 else f"{hours:,} hours"


def _conditions_of_values(quantity: Quantity) -> Iterator[Condition]:
    if quantity.currency:
        is_same = "currency = %s"
        yield Condition("of_the_currency", f"In the currency {quantity.currency}.", is_same, [quantity.currency])
    if quantity.property:
        yield Condition("with_the_value", f"With a number as {quantity.property}.", "amount IS NOT NULL")


def _cap(experiment: Experiment, definition: Definition, selection: Selection) -> float | None:
    if definition.cap_percentile is None:
        return definition.cap_value
    return find_percentile(experiment, selection, definition.cap_percentile)


def _steps(selection: Selection, counts: StepCounts, suffix: str) -> list[Document]:
    """Return the steps. `suffix` names the phases in the condition on exposed users."""
    steps = [
        ("events_of_the_name", f"Events named {selection.event} in the environment."),
        *((condition.name, _describe(condition, suffix)) for condition in selection.conditions),
        ("counted", "What is left counts."),
    ]
    left = [*counts.left, counts.left[-1]]
    return [
        {"name": name, "description": description, "rows": rows, "users": users}
        for (name, description), (rows, users) in zip(steps, left, strict=True)
    ]


def _describe(condition: Condition, suffix: str) -> str:
    return f"{condition.description[:-1]}{suffix}." if condition.name == _EXPOSED else condition.description
