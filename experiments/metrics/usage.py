"""Which experiments measure a metric, and in which of its versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from config.models import Environment
from experiments.models import Experiment, Metric, Status


@dataclass(frozen=True, slots=True)
class Use:
    """An experiment that names a metric. `version` is what it has taken at its start; a draft has taken none yet."""

    experiment: Experiment
    version: int | None


def uses_of(key: str, environment: Environment | None = None) -> list[Use]:
    """The experiments of an environment, or of all, that name this metric, newest first. One query."""
    experiments = Experiment.objects.naming(key).select_related("environment")
    if environment is not None:
        experiments = experiments.in_environment(environment)
    return [Use(each, _version(each, key)) for each in experiments if key in each.metrics]


def measuring(metric: Metric) -> list[Experiment]:
    """The started experiments that measure the metric as it is defined now."""
    return [use.experiment for use in uses_of(metric.key) if use.version == metric.version]


def newest_version(key: str) -> int:
    """The newest version of any metric of this key that a started experiment measures; 0 where none does."""
    return max((use.version or 0 for use in uses_of(key)), default=0)


def listed(experiments: Sequence[Experiment]) -> str:
    """Experiments by name, as many as somebody reads."""
    names = [f"{each.key} ({each.environment.key})" for each in experiments[:_SHOWN]]
    more = len(experiments) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


_SHOWN = 5


def _version(experiment: Experiment, key: str) -> int | None:
    if experiment.status == Status.DRAFT:
        return None
    # One that was started before metrics could be defined has no definitions.
    return next((each["version"] for each in experiment.definitions if each["key"] == key), 0)
