"""Explaining a figure: how many events each condition of a metric leaves, and what the rest add up to.

An explanation applies the conditions of `metrics` one after the other to all events of the metric's names, so that
anyone can see which of them leaves an event out. It stores nothing, and reads no stored value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import reduce
from itertools import accumulate
from operator import add, and_
from typing import Any

from django.db.models import Case, Count, FloatField, IntegerField, Q, Sum, Value, When
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact, GreaterThan, GreaterThanOrEqual, In, IsNull

from config.database.selects import Column, rows_of, select_of
from config.documents import Document
from config.timestamps import floor_to_second, format_timestamp
from events.models import Event
from experiments.metrics.definition import Definition, Quantity
from experiments.models import Experiment, Exposure
from experiments.models.phases import choices, chosen, split_of
from experiments.results.caps import find_cap
from experiments.results.expressions import Number, Scalar
from experiments.results.metrics import (
    BASE,
    COUNTED_AT,
    PROPERTIES,
    REFERENCE,
    in_window,
    is_in_currency,
    is_of,
    is_of_any,
    not_after,
    steps_of,
    value_of,
)
from experiments.results.quantiles import values_of_events
from experiments.results.value_counts import ValueCounts
from experiments.results.values import Source, as_if_stopped, computed_values, source_of
from experiments.stats.types import name_phases


def explain(
    experiment: Experiment,
    metric: int,
    variant: str,
    phase: str | None = None,
    *,
    now: datetime,
    read_at: datetime | None = None,
) -> Document:
    """Return how the figure of a metric is computed in one variant, from what is stored now.

    `phase` is one of `design.phases.choices`. Each of the `steps` has the number of events (`rows`) that meet a
    condition and all before it, and the number of their `users`. `users` are those who count: with a window, the ones
    who are mature now or at the end of counting. `sum` adds up their values, each at most `cap`. `value` is the sum
    divided by the users, or for a ratio by `denominatorSum`; CUPED does not change it. Over phases with other weights,
    `value` adds up the values of the `strata`, each times its weight, where the first variant is the control. Once a
    fixed analysis is read, `read_at` is the moment of which everything is.
    """
    return _Explanation(experiment, metric, variant, now, read_at).of(phase)


def explain_all(
    experiment: Experiment, now: datetime, read_at: datetime | None = None
) -> dict[str, dict[str, Document]]:
    """Return all explanations by metric index (as text) and variant, to store before events are deleted."""
    return {
        str(index): {
            variant: _explain_choices(experiment, _Explanation(experiment, index, variant, now, read_at))
            for variant in experiment.variant_keys
        }
        for index in range(len(experiment.metrics))
    }


def _explain_choices(experiment: Experiment, explanation: _Explanation) -> Document:
    """Return the explanation. With several phases, it has the explanations of all choices of phases in `choices`."""
    if len(experiment.phases) < 2:
        return explanation.of(None)
    return {
        **explanation.of(None),
        "choices": {choice: explanation.of(choice) for choice in choices(experiment.phases)},
    }


class _Explanation:
    """The counts of one metric in one variant by phase, so that every choice of phases comes from the same queries."""

    def __init__(
        self, experiment: Experiment, metric: int, variant: str, now: datetime, read_at: datetime | None
    ) -> None:
        if read_at is not None:
            experiment = as_if_stopped(experiment, read_at)
        self._experiment, self._variant, self._source = experiment, variant, source_of(experiment)
        self._definition = definition = self._source.definitions[metric]
        end = experiment.counted_by(now)
        self._is_mature = _is_mature(definition, end)
        conditions = list(_conditions_of_users(self._source, definition, end, is_read=read_at is not None))
        # The cap at a percentile comes from all users, mature or not.
        self._cap = find_cap(definition, computed_values(self._source.of_metrics([metric])))
        self._part = self._explain_part(definition.quantity, conditions, self._cap)
        self._denominator = None
        if definition.denominator is not None:
            self._denominator = self._explain_part(definition.denominator, conditions, None)
        self._users = self._count_users()

    def _explain_part(self, quantity: Quantity, conditions: Sequence[_Condition], cap: float | None) -> _Part:
        definition = self._definition
        every = [*conditions, *_conditions_of_values(definition, quantity)]
        words = [(condition.name, condition.description) for condition in every]
        names = [*dict.fromkeys(step.event for step in definition.steps or [quantity])]
        source = replace(self._source, exposures=self._source.exposures.filter(variant=self._variant))
        counts = _count_steps(source, names, definition, quantity, [condition.holds for condition in every], cap)
        by_phase = {phase: counts.get(phase, _nothing(len(every), definition)) for phase in self._phases()}
        return _Part(names, [*words, *_describe_steps(definition)], _count_named(self._experiment, names), by_phase)

    def _phases(self) -> Sequence[int]:
        return range(1, max(1, len(self._experiment.phases)) + 1)

    def _count_users(self) -> Mapping[tuple[int, str], int]:
        """Return the users who count for the metric, by the phases and variants in which users were exposed."""
        users = Count("user_id", filter=self._is_mature)
        rows = self._source.exposures.values_list("phase", "variant").annotate(users=users)
        return {(phase, variant): number for phase, variant, number in rows}

    def of(self, choice: str | None) -> Document:
        every = self._experiment.phases
        phases = chosen(every, choice) or [1]
        suffix = "" if len(phases) >= len(every) else f" in {name_phases(phases)}"
        whole, strata = self._stratum(phases), self._strata(phases)
        return {
            "users": whole["users"],
            "steps": self._part.document(phases, suffix),
            "cap": self._cap,
            "cappedUsers": self._part.of(phases).capped,
            "sum": whole["sum"],
            "denominatorSteps": None if self._denominator is None else self._denominator.document(phases, suffix),
            "denominatorSum": whole["denominatorSum"],
            "strata": strata,
            "value": whole["value"] if strata is None else _combine_strata(strata),
        }

    def _stratum(self, phases: Sequence[int]) -> Document:
        """Return users, sum and value of some phases together."""
        users, total = self._users_in(phases).get(self._variant, 0), self._part.of(phases).total
        divisor = None if self._denominator is None else self._denominator.of(phases).total
        divided_by = users if divisor is None else divisor
        value = total / divided_by if divided_by else None
        if self._definition.quantile is not None:
            value = self._find_quantile(self._definition.quantile, phases)
        return {"phases": list(phases), "users": users, "sum": total, "denominatorSum": divisor, "value": value}

    def _find_quantile(self, share: float, phases: Sequence[int]) -> float | None:
        """Return the quantile of the variant, whose values are spread as those of all variants together."""
        from experiments.stats.quantiles import find_values  # noqa: PLC0415 (see `study`)

        users = self._users_in(phases)
        exposures = self._source.exposures.filter(self._is_mature, phase__in=[*phases])
        values = values_of_events(self._definition, replace(self._source, exposures=exposures), ["variant"])
        counts = ValueCounts(values, ["variant"], {(variant,): number for variant, number in users.items()})
        return dict(zip(users, find_values(share, counts), strict=True)).get(self._variant)

    def _strata(self, phases: Sequence[int]) -> list[Document] | None:
        """Return the phases of each split, with the weight of their users; None if there is one split."""
        by_split: dict[tuple[Fraction, ...], list[int]] = {}
        for number in phases if self._experiment.phases else ():
            if any(phase == number for phase, _ in self._users):
                by_split.setdefault(split_of(self._experiment.phases[number - 1]), []).append(number)
        if len(by_split) < 2:
            return None
        used, group = self._compared_in(list(by_split.values()))
        users = [sum(self._users_in(numbers)[key] for key in group) for numbers in by_split.values()]
        total = sum(number for number, numbers in zip(users, by_split.values(), strict=True) if numbers in used)
        return [
            {**self._stratum(numbers), "weight": number / total if numbers in used else 0.0}
            for number, numbers in zip(users, by_split.values(), strict=True)
        ]

    def _compared_in(self, splits: Sequence[Sequence[int]]) -> tuple[Sequence[Sequence[int]], set[str]]:
        """Return the splits that the variant's value comes from, and the variants whose users weigh them.

        A treatment is compared with the first variant where both have two users. The treatments of the same splits are
        weighed together. The first variant is shown as in the comparison with the most of its users.
        """
        control, *treatments = self._experiment.variant_keys
        compared_in = {
            key: [split for split in splits if min(self._users_in(split)[one] for one in (control, key)) >= 2]
            for key in treatments
        }
        used = compared_in.get(self._variant)
        if used is None:
            used = max(compared_in.values(), key=lambda those: sum(self._users_in(split)[control] for split in those))
        return used, {control, *(key for key, others in compared_in.items() if others == used)}

    def _users_in(self, phases: Sequence[int]) -> Counter[str]:
        """Return the users who count, by variant."""
        users: Counter[str] = Counter()
        for (phase, variant), number in self._users.items():
            if phase in phases:
                users[variant] += number
        return users


def _combine_strata(strata: Sequence[Document]) -> float | None:
    parts = [(stratum["weight"], stratum["value"]) for stratum in strata if stratum["weight"]]
    if not parts or any(value is None for _, value in parts):
        return None
    return float(sum(weight * value for weight, value in parts))


@dataclass(frozen=True, slots=True)
class _StepCounts:
    """The numbers of events and users that the conditions leave, and what the values of these users add up to.

    `left` begins with the events by exposed users; each further entry applies one more condition or step. `total` is
    the sum of the values of the users, each at most the cap. `capped` is the number of users with a greater value.
    """

    left: Sequence[tuple[int, int]]
    total: float
    capped: int

    def __add__(self, other: _StepCounts) -> _StepCounts:
        """Return the counts of both groups of users, which have no user in common."""
        steps = zip(self.left, other.left, strict=True)
        left = [(rows + other_rows, users + other_users) for (rows, users), (other_rows, other_users) in steps]
        return _StepCounts(left, self.total + other.total, self.capped + other.capped)


@dataclass(frozen=True, slots=True)
class _Part:
    """One quantity of a metric: the names of its events, its steps in words, and what they leave by phase.

    `named` has the numbers of all events of the names, and of their users.
    """

    names: Sequence[str]
    steps: Sequence[tuple[str, str]]
    named: tuple[int, int]
    by_phase: Mapping[int, _StepCounts]

    def of(self, phases: Sequence[int]) -> _StepCounts:
        """Return the counts of the users exposed in these phases."""
        return reduce(add, [self.by_phase[number] for number in phases])

    def document(self, phases: Sequence[int], suffix: str) -> list[Document]:
        """Return the steps of some phases as JSON. `suffix` names the phases in the condition on exposed users."""
        left = [self.named, *self.of(phases).left]
        steps = [
            ("events_of_the_name", f"Events named {' or '.join(self.names)} in the environment."),
            *((name, f"{words[:-1]}{suffix}." if name == _EXPOSED else words) for name, words in self.steps),
            ("counted", "All of these events count."),
        ]
        return [
            {"name": name, "description": description, "rows": rows, "users": users}
            for (name, description), (rows, users) in zip(steps, [*left, left[-1]], strict=True)
        ]


# counting


def _count_named(experiment: Experiment, names: Sequence[str]) -> tuple[int, int]:
    """Return the numbers of all events of these names in the environment, and of their users."""
    events = Event.objects.filter(environment=experiment.environment_id, name__in=names).order_by()
    of_users = events.values("user_id").annotate(number=Count("id"))
    counted = of_users.aggregate(rows=Coalesce(Sum("number"), 0), users=Count("user_id"))
    return counted["rows"], counted["users"]


def _count_steps(
    source: Source,
    names: Sequence[str],
    definition: Definition,
    quantity: Quantity,
    conditions: Sequence[Q],
    cap: float | None,
) -> Mapping[int, _StepCounts]:
    """Return the counts of the exposures of a source by phase: one statement with a row for each user."""
    met = [*accumulate(conditions, and_)]
    of_user: dict[str, Any] = {f"left_{index}": Count("user_id", filter=when) for index, when in enumerate(met)}
    if definition.steps:
        of_user["passed"] = steps_of(definition, met[-1]).expression()
    else:
        # For a quantile, the value of a user is the number of events, but the sum is that of their amounts.
        summed = replace(definition, type="sum") if definition.type == "quantile" else definition
        of_user["value"] = value_of(summed, quantity, met[-1]).expression()
    users = rows_of(Exposure, select_of(source.joined(names).values("user_id", "phase").annotate(**of_user)))
    events = [Column(f"left_{index}", IntegerField()) for index in range(len(met))]
    value: Any = Column("value", FloatField())
    figures: dict[str, Any] = {}
    for index, number in enumerate(events):
        figures[f"rows_{index}"] = Sum(number)
        figures[f"users_{index}"] = Count("user_id", filter=Q(GreaterThan(number, 0)))
    if definition.steps:
        passed = Column("passed", IntegerField())
        for step in range(1, len(definition.steps) + 1):
            has_passed = Q(GreaterThanOrEqual(passed, step))
            figures[f"rows_{len(met) + step - 1}"] = Sum(events[-1], filter=has_passed)
            figures[f"users_{len(met) + step - 1}"] = Count("user_id", filter=has_passed)
        value = Case(When(Exact(passed, len(definition.steps)), then=Value(1.0)), output_field=FloatField())
    is_above = Q() if cap is None else Q(GreaterThan(value, cap))
    # Not Least, which is the cap on PostgreSQL where a user has no value.
    capped = value if cap is None else Case(When(is_above, then=Value(cap)), default=value, output_field=FloatField())
    figures["total"] = Sum(capped)
    figures["capped"] = Count("user_id", filter=is_above) if cap is not None else Value(0)
    length = len(met) + len(definition.steps)
    rows: Any = users.values("phase").annotate(**figures)
    return {
        row["phase"]: _StepCounts(
            [(row[f"rows_{index}"] or 0, row[f"users_{index}"]) for index in range(length)],
            float(row["total"] or 0),
            row["capped"],
        )
        for row in rows
    }


def _nothing(conditions: int, definition: Definition) -> _StepCounts:
    return _StepCounts([(0, 0)] * (conditions + len(definition.steps)), 0.0, 0)


# conditions in words


_EXPOSED = "by_exposed_users"


@dataclass(frozen=True, slots=True)
class _Condition:
    """One condition that an event must meet, in words and as a `Q`."""

    name: str
    description: str
    holds: Q


def _is_mature(definition: Definition, end: datetime) -> Q:
    """Return whether an exposure is so old that the window of the metric is over."""
    if definition.span is None:
        return Q()
    return Q(exposed_at__lt=floor_to_second(end - definition.span) + timedelta(seconds=1))


def _conditions_of_users(
    source: Source, definition: Definition, end: datetime, *, is_read: bool
) -> Iterator[_Condition]:
    """Yield the conditions on the user, the experiment and the time of an event. No window ends after `end`.

    `is_read` says that this is the one reading of a fixed analysis.
    """
    yield _Condition(_EXPOSED, "Events by users who were exposed to the variant.", Q(IsNull(BASE, False)))
    if definition.span is not None:
        description = f"Events by users whose window had passed at {format_timestamp(end)}."
        yield _Condition("by_mature_users", description, _is_mature(definition, end))
    is_own = Q(In(REFERENCE, source.own_references()))
    yield _Condition("of_the_experiment", "Events that name this experiment, or no experiment.", is_own)
    since = Q(GreaterThanOrEqual(COUNTED_AT, BASE))
    yield _Condition("after_exposure", "Events at or after the second of the exposure.", since)
    if definition.delay or definition.window is not None:
        yield _Condition("in_the_window", _describe_window(definition), in_window(definition))
    until = source.until_of(definition)
    if until is not None:
        noun = "reading" if is_read else "stop" if until == source.until else "end of counting"
        description = f"Events not after the {noun} at {format_timestamp(until)}."
        yield _Condition("before_the_stop", description, not_after(until))


def _describe_window(definition: Definition) -> str:
    begin = f"Events at least {_hours(definition.delay)} after the exposure"
    return f"{begin}." if definition.span is None else f"{begin}, and less than {_hours(definition.span)} after it."


def _hours(duration: timedelta) -> str:
    hours = duration // timedelta(hours=1)
    return "1 hour" if hours == 1 else f"{hours:,} hours"


def _conditions_of_values(definition: Definition, quantity: Quantity) -> Iterator[_Condition]:
    if definition.steps:
        yield _Condition("with_the_properties", "That meet the conditions of a step.", is_of_any([*definition.steps]))
        return
    if quantity.where:
        yield _Condition("with_the_properties", "That meet the conditions on their properties.", is_of(quantity))
    if quantity.currency:
        description = _describe(definition, f"in the currency {quantity.currency}.")
        yield _Condition("of_the_currency", description, is_in_currency(quantity))
    if quantity.property:
        kind = "a text, a number or a boolean" if definition.type == "distinct" else "a number"
        description = _describe(definition, f"with {kind} as {quantity.property}.")
        expression = Scalar if definition.type == "distinct" else Number
        has_value = Q(IsNull(expression(PROPERTIES, Value(quantity.property)), False))
        yield _Condition("with_the_value", description, has_value)


def _describe(definition: Definition, words: str) -> str:
    """Return the description of a condition, which goes on with the sentence of an earlier one on properties."""
    parts = [definition.quantity, *definition.steps, *([definition.denominator] if definition.denominator else [])]
    goes_on = definition.type in ("distinct", "quantile") or any(part.where for part in parts)
    return f"{words[0].upper()}{words[1:]}" if goes_on else f"Events {words}"


def _describe_steps(definition: Definition) -> list[tuple[str, str]]:
    """Return the name and the description of the step of an explanation for each step of a funnel."""
    return [
        ("passed_the_step", f"By users who passed step {number}, {step.event}, and all steps before it in order.")
        for number, step in enumerate(definition.steps, 1)
    ]
