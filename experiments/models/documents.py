"""Reading experiments: one by its key, or one as JSON for the change log."""

from __future__ import annotations

from datetime import datetime

from django.db.models import OuterRef, Subquery

from config.documents import Document
from config.errors import DomainError, ErrorCode
from config.models import Change, Environment
from config.slugs import is_key
from config.timestamps import format_timestamp
from experiments.models.experiment import (
    LOOKBACK_DAYS,
    MINIMUM_DAYS,
    WHOLE,
    AnalysisMethod,
    Experiment,
    ExperimentQuerySet,
)

KIND = "experiment"


def get_experiment(key: str, environment: Environment) -> Experiment:
    """Return the experiment with this key and its version. Raises DomainError `experiment_not_found`."""
    experiment = with_versions(environment).filter(key=key).first() if is_key(key) else None
    if experiment is None:
        message = f"No experiment has the key {key[:100]!r}; list them with GET /v1/experiments."
        raise DomainError(ErrorCode.EXPERIMENT_NOT_FOUND, message)
    return experiment


def with_versions(environment: Environment) -> ExperimentQuerySet:
    """Return the experiments of an environment, each with the revision of its newest change as `version`."""
    # In the query of the row, so that the two belong together.
    own = Change.objects.filter(kind=KIND, key=OuterRef("key"), environment=environment.key)
    newest = own.order_by("-revision").values("revision")[:1]
    return Experiment.objects.in_environment(environment).annotate(version=Subquery(newest))  # type: ignore[no-redef]


def experiment_as_json(experiment: Experiment) -> Document:
    """Return the whole experiment as the change log stores it."""
    return {
        "id": str(experiment.pk),
        "key": experiment.key,
        "description": experiment.description,
        "status": str(experiment.status),
        "variants": experiment.variants,
        "metrics": experiment.metrics,
        "definitions": experiment.definitions or None,
        "tuningSampleSize": experiment.tuning_size,
        **{name: value for name, value in _extras(experiment).items() if value not in (None, "", [], {})},
        "startedAt": format_timestamp(experiment.started_at) if experiment.started_at else None,
        "stoppedAt": format_timestamp(experiment.stopped_at) if experiment.stopped_at else None,
    }


def forced_until(experiment: Experiment) -> dict[str, datetime]:
    """Return the users whose variant an earlier configuration forced, each with the time of its last replacement."""
    replaced = Change.objects.of(KIND, experiment.pk).filter(before__has_key="forcedVariants").order_by("revision")
    until: dict[str, datetime] = {}
    for forced, at in replaced.values_list("before__forcedVariants", "at").iterator(chunk_size=10):
        until.update(dict.fromkeys(forced, at))
    return until


def _extras(experiment: Experiment) -> Document:
    """Return the properties that most experiments lack. Empty ones are left out of the JSON."""
    return {
        "percentage": experiment.percentage if experiment.percentage != WHOLE else None,
        "conditions": experiment.conditions,
        "group": experiment.group,
        "forcedVariants": experiment.forced_variants,
        "flag": experiment.flag,
        "plannedSampleSize": experiment.planned_size,
        "minimumEffect": experiment.minimum_effect,
        "analysis": None if experiment.analysis == AnalysisMethod.SEQUENTIAL else str(experiment.analysis),
        "minimumDays": None if experiment.minimum_days == MINIMUM_DAYS else experiment.minimum_days,
        "lookbackDays": None if experiment.lookback_days == LOOKBACK_DAYS else experiment.lookback_days,
        "givenTuningSampleSize": experiment.given_tuning_size,
        "owner": experiment.owner,
        "hypothesis": experiment.hypothesis,
        "archivedAt": format_timestamp(experiment.archived_at) if experiment.archived_at else None,
        "countsUntil": format_timestamp(experiment.counts_until) if experiment.counts_until else None,
        "registration": experiment.registration,
        "phases": experiment.phases,
        "winner": experiment.winner,
        "decision": experiment.decision,
    }
