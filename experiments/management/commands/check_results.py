"""`manage.py check_results`: whether what results rest on is what all events and exposures give."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from config.management.operator import OperatorCommand, find_environment
from experiments.aggregates.checking import Difference, check_sums
from experiments.lifecycle.changes import get_experiment
from experiments.models import Experiment

_MOST_SHOWN = 20


class Command(OperatorCommand):
    help = "Compute the results of experiments from scratch, from all events, and tell where what is kept differs."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("experiment", nargs="?", help="the key of one (default: all that are started)")
        parser.add_argument("--environment", help="the key of the environment (default: the default environment)")

    def handle(self, *, experiment: str | None, environment: str | None, **_: Any) -> None:
        here, at = find_environment(environment), timezone.now()
        if experiment is not None:
            chosen = [get_experiment(experiment, here)]
        else:
            chosen = list(Experiment.objects.in_environment(here).started().order_by("key"))
        wrong = [each.key for each in chosen if not self._is_right(each, at)]
        if wrong:
            raise CommandError(f"Not what events and exposures give: {', '.join(wrong)}.")

    def _is_right(self, experiment: Experiment, at: datetime) -> bool:
        if experiment.started_at is None:
            self.stdout.write(f"{experiment.key}: a draft, which has no results")
            return True
        if experiment.frozen_at is not None:
            self.stdout.write(f"{experiment.key}: frozen, and its events may be gone")
            return True
        found = check_sums(experiment, at)
        self.stdout.write("\n".join(_report(experiment, found)))
        return not found


def _report(experiment: Experiment, found: Sequence[Difference]) -> list[str]:
    if not found:
        return [f"{experiment.key}: everything is what events and exposures give"]
    shown = [f"{experiment.key}: {_told(each)}" for each in found[:_MOST_SHOWN]]
    rest = len(found) - len(shown)
    return [*shown, f"{experiment.key}: and {rest:,} other differences"] if rest else shown


def _told(difference: Difference) -> str:
    of = difference.metric or "exposures"
    whose = "" if difference.whose is None else _named(*difference.whose)
    kept, right = ("none" if each is None else f"{each:g}" for each in (difference.kept, difference.computed))
    return f"{difference.where}: {difference.name} of {of}{whose}: {kept} is kept, {right} is right"


def _named(variant: str, phase: int, day: date) -> str:
    return f", {variant}, phase {phase}, {day}" if phase > 1 else f", {variant}, {day}"
