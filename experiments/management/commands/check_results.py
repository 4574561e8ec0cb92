"""`manage.py check_results`: check the stored sums of results against all events and exposures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from config.management.operator import OperatorCommand, find_environment
from experiments.lifecycle.changes import get_experiment
from experiments.models import Experiment
from experiments.results.check import Difference, check_sums

_MAX_SHOWN = 20


class Command(OperatorCommand):
    help = "Compute the results of experiments again from all events, and report where the stored sums differ."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("experiment", nargs="?", help="the key of an experiment (default: all started ones)")
        parser.add_argument("--environment", help="the key of the environment (default: the default environment)")

    def handle(self, *, experiment: str | None, environment: str | None, **_: Any) -> None:
        found_environment, now = find_environment(environment), timezone.now()
        if experiment is not None:
            experiments = [get_experiment(experiment, found_environment)]
        else:
            experiments = list(Experiment.objects.in_environment(found_environment).started().order_by("key"))
        wrong = [started.key for started in experiments if not self._is_right(started, now)]
        if wrong:
            raise CommandError(f"The stored results do not match the events and exposures: {', '.join(wrong)}.")

    def _is_right(self, experiment: Experiment, now: datetime) -> bool:
        if experiment.started_at is None:
            self.stdout.write(f"{experiment.key}: not checked, because a draft has no results")
            return True
        if experiment.frozen_at is not None:
            self.stdout.write(f"{experiment.key}: not checked, because it is frozen and its events may be gone")
            return True
        differences = check_sums(experiment, now)
        self.stdout.write("\n".join(_report(experiment, differences)))
        return not differences


def _report(experiment: Experiment, differences: Sequence[Difference]) -> list[str]:
    if not differences:
        return [f"{experiment.key}: the stored results match the events and exposures"]
    shown = [f"{experiment.key}: {_describe(difference)}" for difference in differences[:_MAX_SHOWN]]
    rest = len(differences) - len(shown)
    return [*shown, f"{experiment.key}: and {rest:,} other differences"] if rest else shown


def _describe(difference: Difference) -> str:
    of = difference.metric or "exposures"
    place = "" if difference.whose is None else _named(*difference.whose)
    stored, computed = (
        "none" if number is None else f"{number:g}" for number in (difference.kept, difference.computed)
    )
    return f"{difference.where}: {difference.name} of {of}{place}: stored {stored}, computed {computed}"


def _named(variant: str, phase: int, day: date | None) -> str:
    names = [variant, *([f"phase {phase}"] if phase > 1 else []), *([f"{day}"] if day else [])]
    return "".join(f", {name}" for name in names)
