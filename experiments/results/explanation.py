"""Explaining a figure: how many events each condition of a metric leaves, and what the rest add up to.

Explanations are computed from events and exposures, so that anyone can compare them with the results,
which are computed from totals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import reduce
from operator import add

from django.db.models import Count, Q

from config.documents import Document
from config.timestamps import floor_to_second
from experiments.aggregates.statements import exposed_users
from experiments.design.phases import choices, chosen, split_of
from experiments.metrics.definition import Definition, Quantity
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment
from experiments.results.explanation_conditions import EXPOSED, MATURE, conditions_of_users, describe_steps, select
from experiments.results.explanation_statements import (
    Condition,
    Selection,
    StepCounts,
    count_steps,
    count_values,
    find_percentile,
)
from experiments.stats.types import name_phases


def explain(
    experiment: Experiment,
    metric_index: int,
    variant: str,
    phase: str | None = None,
    *,
    at: datetime,
    read_at: datetime | None = None,
) -> Document:
    """Return how the figure of a metric is computed in one variant, from what is stored now.

    `phase` is one of `design.phases.choices`. Each of the `steps` has the number of events (`rows`) that meet a
    condition and all before it, and the number of their `users`. `users` are those who count: with a window, the ones
    who are mature at `at` or at the stop. `sum` adds up their values, each at most `cap`. `value` is the sum divided
    by the users, or for a ratio by `denominatorSum`; CUPED does not change it. Over phases with other weights, `value`
    adds up the values of the `strata`, each times its weight, where the first variant is the control. Once a fixed
    analysis is read, `read_at` is the moment of which everything is.
    """
    return _Explanation(experiment, metric_index, variant, at, read_at).of(phase)


def explain_all(
    experiment: Experiment, at: datetime, read_at: datetime | None = None
) -> dict[str, dict[str, Document]]:
    """Return all explanations by metric index (as text) and variant, to store before events are deleted."""
    return {
        str(index): {
            variant: _explain_choices(experiment, _Explanation(experiment, index, variant, at, read_at))
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
        self, experiment: Experiment, metric_index: int, variant: str, at: datetime, read_at: datetime | None
    ) -> None:
        definition = definitions_of(experiment)[metric_index]
        if read_at is not None:  # as if it had been stopped then
            experiment = copy(experiment)
            experiment.stopped_at = read_at
        self._experiment, self._variant, self._quantile = experiment, variant, definition.quantile
        end = min(filter(None, (at, experiment.stopped_at)))
        conditions = list(conditions_of_users(experiment, definition, end, is_read=read_at is not None))
        # The cap of a percentile comes from all users, mature or not.
        of_all = [condition for condition in conditions if condition.name != MATURE]
        self._cap = _cap(experiment, definition, of_all)
        self._part = _explain_part(experiment, variant, definition, definition.quantity, conditions, self._cap)
        self._denominator = None
        if definition.denominator is not None:
            self._denominator = _explain_part(experiment, variant, definition, definition.denominator, conditions, None)
        self._users = _count_users(experiment, definition, end)

    def of(self, choice: str | None) -> Document:
        every = self._experiment.phases
        phases = chosen(every, choice) or [1]
        suffix = "" if len(phases) >= len(every) else f" in {name_phases(phases)}"
        whole, strata = self._stratum(phases), self._strata(phases)
        return {
            "users": whole["users"],
            "steps": _steps(self._part, phases, suffix),
            "cap": self._cap,
            "cappedUsers": _combine_phases(self._part.counts, phases).capped,
            "sum": whole["sum"],
            "denominatorSteps": None if self._denominator is None else _steps(self._denominator, phases, suffix),
            "denominatorSum": whole["denominatorSum"],
            "strata": strata,
            "value": whole["value"] if strata is None else _combine_strata(strata),
        }

    def _stratum(self, phases: Sequence[int]) -> Document:
        """Return users, sum and value of some phases together."""
        users, total = self._users_in(phases).get(self._variant, 0), _combine_phases(self._part.counts, phases).total
        divisor = None if self._denominator is None else _combine_phases(self._denominator.counts, phases).total
        divided_by = users if divisor is None else divisor
        value = total / divided_by if divided_by else None
        if self._quantile is not None:
            value = self._find_quantile(self._quantile, phases)
        return {"phases": list(phases), "users": users, "sum": total, "denominatorSum": divisor, "value": value}

    def _find_quantile(self, share: float, phases: Sequence[int]) -> float | None:
        """Return the quantile of the variant, whose values are spread as those of all variants together."""
        from experiments.stats.quantiles import find_values  # noqa: PLC0415 (see `to_stats`)

        users = self._users_in(phases)
        counts = count_values(self._experiment, self._part.selection, phases, users)
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


def _count_users(experiment: Experiment, definition: Definition, end: datetime) -> Mapping[tuple[int, str], int]:
    """Return the users who count for a metric, by the phases and variants in which users were exposed."""
    count = Count("user_id")
    if definition.span is not None:
        mature = Q(exposed_at__lt=floor_to_second(end - definition.span) + timedelta(seconds=1))
        count = Count("user_id", filter=mature)
    rows = exposed_users(experiment).order_by().values_list("phase", "variant").annotate(users=count)
    return {(phase, variant): users for phase, variant, users in rows}


def _combine_phases(counts: Mapping[int | None, StepCounts], phases: Sequence[int]) -> StepCounts:
    """Return the counts of the users exposed in these phases. The first step counts the events of all users."""
    of_all_users, of_phases = reduce(add, counts.values()), reduce(add, [counts[number] for number in phases])
    return replace(of_phases, left=[of_all_users.left[0], *of_phases.left[1:]])


@dataclass(frozen=True, slots=True)
class _Part:
    """One quantity of a metric: its events, its steps in words, and what they leave by phase."""

    selection: Selection
    steps: Sequence[tuple[str, str]]
    counts: Mapping[int | None, StepCounts]


def _explain_part(
    experiment: Experiment,
    variant: str,
    definition: Definition,
    quantity: Quantity,
    conditions: Sequence[Condition],
    cap: float | None,
) -> _Part:
    selection = select(definition, quantity, conditions)
    words = [(condition.name, condition.description) for condition in selection.conditions]
    counts = count_steps(experiment, variant, selection, cap)
    return _Part(selection, [*words, *describe_steps(definition)], counts)


def _cap(experiment: Experiment, definition: Definition, conditions: Sequence[Condition]) -> float | None:
    quantity, percent = definition.quantity, definition.cap_percentile
    if percent is None:
        return definition.cap_value
    return find_percentile(experiment, select(definition, quantity, conditions), percent)


def _steps(part: _Part, phases: Sequence[int], suffix: str) -> list[Document]:
    """Return the steps of some phases. `suffix` names the phases in the condition on exposed users."""
    left = _combine_phases(part.counts, phases).left
    steps = [
        ("events_of_the_name", f"Events named {' or '.join(part.selection.events)} in the environment."),
        *((name, _describe(name, description, suffix)) for name, description in part.steps),
        ("counted", "All of these events count."),
    ]
    left = [*left, left[-1]]
    return [
        {"name": name, "description": description, "rows": rows, "users": users}
        for (name, description), (rows, users) in zip(steps, left, strict=True)
    ]


def _describe(name: str, description: str, suffix: str) -> str:
    return f"{description[:-1]}{suffix}." if name == EXPOSED else description
