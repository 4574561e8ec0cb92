"""Every write of a metric, its undo, and the experiments that use a metric.

Each write appends the whole metric to the change log. A started experiment keeps the version that it started with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from config.change_log.reversion import Reversible, Target, created_at
from config.change_log.writing import Actor, Writing, changing, writing
from config.documents import Document, is_same
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import Change, Environment
from config.slugs import check_description, check_key, is_key
from experiments.metrics.checks import FUNNEL, check_meaning
from experiments.metrics.definition import COLUMNS, Quantity, meaning
from experiments.models import Experiment, Metric, Status

KIND = "metric"
_MAX_NAMED = 5
_NUMBERS = ("cap_value", "cap_percentile", "quantile", "margin", "margin_absolute")
NEW: Mapping[str, Any] = {
    "description": "",
    "type": "",
    "event": "",
    "property": "",
    "currency": "",
    "denominator": None,
    "where": [],
    "steps": [],
    "quantile": None,
    "window_hours": None,
    "delay_hours": 0,
    "from_day": None,
    "to_day": None,
    "cap_value": None,
    "cap_percentile": None,
    "direction": "increase",
    "role": "goal",
    "margin": None,
    "margin_absolute": None,
}


def get_metric(key: str) -> Metric:
    """Return the metric with this key. Raises DomainError `not_found`."""
    metric = Metric.objects.filter(key=key).first() if is_key(key) else None
    if metric is None:
        message = f"No metric has the key {key[:100]!r}; list them with GET /v1/metrics."
        raise DomainError(ErrorCode.NOT_FOUND, message)
    return metric


def create_metric(*, key: str, actor: Actor, now: datetime, reason: str = "", **values: Any) -> Metric:
    """Define a metric. `values` are its columns; type and event are required.

    Started experiments that name this key already keep what they compute. Raises ValidationFailed with every invalid
    field, or DomainError `already_exists`.
    """
    accepted = _checked(values, key_details=check_key(key))
    with writing(actor=actor, now=now, reason=reason) as log:
        if Metric.objects.filter(key=key).exists():
            message = f"A metric with the key {key} already exists; choose another key."
            raise DomainError(ErrorCode.ALREADY_EXISTS, message)
        return insert(log, key, accepted)


def insert(log: Writing, key: str, accepted: Mapping[str, Any], **columns: Any) -> Metric:
    """Insert a metric with checked values and append its change. An undo passes the `columns` of the deleted row."""
    metric = Metric.objects.create(
        key=key,
        # Experiments may still use versions of a deleted metric with this key.
        version=newest_version_in_use(key) + 1,
        updated_at=log.at,
        revision=log.next_revision(),
        **accepted,
        **{"created_at": log.at, **columns},
    )
    log.append(KIND, object_id=metric.pk, key=key, before=None, after=metric_as_json(metric))
    return metric


def update_metric(
    *,
    key: str,
    changes: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    may_make_version: bool = True,
    reason: str = "",
) -> Metric:
    """Merge `changes`, by column, into a metric. Equal values change nothing.

    If a started experiment measures the current version, a new definition makes a new version, and the experiment keeps
    its own. Raises ValidationFailed unless `may_make_version` says that the caller has confirmed this.
    """
    with changing(partial(get_metric, key), if_match, actor=actor, now=now, reason=reason) as (log, metric):
        return change(log, metric, changes, may_make_version)


def change(log: Writing, metric: Metric, changes: Mapping[str, Any], may_make_version: bool = True) -> Metric:
    """Merge changes into a metric and append them to the log, as `update_metric` does."""
    before = metric_as_json(metric)
    values = _checked(changes, to={name: getattr(metric, name) for name in NEW})
    new = {name: value for name, value in values.items() if not is_same(value, getattr(metric, name))}
    if new:
        if new.keys() - {"description"}:
            new["version"] = _version_of_another_meaning(metric, may_make_version)
        _save(metric, {**new, "updated_at": log.at, "revision": log.next_revision()})
        log.append(KIND, object_id=metric.pk, key=metric.key, before=before, after=metric_as_json(metric))
    return metric


def delete_metric(*, key: str, actor: Actor, now: datetime, if_match: str | None = None, reason: str = "") -> None:
    """Delete a metric. Its history stays.

    Raises DomainError `in_use` if a draft or a running experiment uses it.
    """
    with changing(partial(get_metric, key), if_match, actor=actor, now=now, reason=reason) as (log, metric):
        remove(log, metric)


def remove(log: Writing, metric: Metric) -> None:
    """Delete a metric and append the change, as `delete_metric` does."""
    if users := [use.experiment for use in uses_of(metric.key) if use.experiment.status != Status.STOPPED]:
        message = (
            f"The metric is used by {name_experiments(users)}. "
            "Stop these experiments or remove the metric from them first."
        )
        raise DomainError(ErrorCode.IN_USE, message)
    before, metric_id = metric_as_json(metric), metric.pk
    metric.delete()
    log.append(KIND, object_id=metric_id, key=metric.key, before=before, after=None)


@dataclass(frozen=True, slots=True)
class Use:
    """An experiment that uses a metric, and the version that it started with; None for a draft."""

    experiment: Experiment
    version: int | None


def uses_of(key: str, environment: Environment | None = None) -> list[Use]:
    """Return the experiments that use this metric, the newest first, with one query. None means all environments."""
    experiments = Experiment.objects.mentioning(key).select_related("environment")
    if environment is not None:
        experiments = experiments.in_environment(environment)
    return [Use(experiment, _version(experiment, key)) for experiment in experiments if key in experiment.metrics]


def experiments_measuring(metric: Metric) -> list[Experiment]:
    return [use.experiment for use in uses_of(metric.key) if use.version == metric.version]


def newest_version_in_use(key: str) -> int:
    """Return the newest version of this key that a started experiment measures; 0 without one."""
    return max((use.version or 0 for use in uses_of(key)), default=0)


def name_experiments(experiments: Sequence[Experiment]) -> str:
    """Return `a (production), b (staging) and 3 more`."""
    names = [f"{experiment.key} ({experiment.environment.key})" for experiment in experiments[:_MAX_NAMED]]
    more = len(experiments) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def metric_as_json(metric: Metric) -> Document:
    """Return the whole metric as the change log stores it."""
    return {
        "id": str(metric.pk),
        "key": metric.key,
        "description": metric.description,
        **meaning(metric),
        "version": metric.version,
    }


def _version(experiment: Experiment, key: str) -> int | None:
    if experiment.status == Status.DRAFT:
        return None
    # An experiment that started before metrics could be defined has no definitions.
    return next((definition["version"] for definition in experiment.definitions if definition["key"] == key), 0)


def _version_of_another_meaning(metric: Metric, may_make_version: bool) -> int:
    users = experiments_measuring(metric)
    if users and not may_make_version:
        message = (
            f"{name_experiments(users)} measured version {metric.version} and will keep it. "
            f"Confirm that this makes version {metric.version + 1}, for experiments that start from now on."
        )
        raise ValidationFailed([Detail("newVersion", DetailCode.REQUIRED, message)])
    return metric.version + 1 if users else metric.version


def _save(metric: Metric, columns: Mapping[str, Any]) -> None:
    for name, value in columns.items():
        setattr(metric, name, value)
    metric.save(update_fields=list(columns))


def _checked(
    changes: Mapping[str, Any], *, to: Mapping[str, Any] = NEW, key_details: Sequence[Detail] = ()
) -> dict[str, Any]:
    """Return the columns of a metric after these changes.

    Raises ValidationFailed with the problems of the key, and then every invalid field.
    """
    if unknown := changes.keys() - NEW.keys():
        raise TypeError(f"A metric has no {', '.join(sorted(unknown))}.")
    merged = {**to, **changes}
    described = {name: merged[column] for name, column in COLUMNS.items()}
    details = [*key_details, *check_description(merged["description"]), *check_meaning(described)]
    if details := details or list(_check_first_step(changes, to["event"], merged)):
        raise ValidationFailed(details)
    return {**merged, **_uniform(merged)}


def _check_first_step(changes: Mapping[str, Any], old_event: str, merged: Mapping[str, Any]) -> Iterator[Detail]:
    """Refuse an event of a funnel other than its first step's, unless it is sent back unchanged."""
    if merged["type"] != FUNNEL or changes.get("event", "") in ("", old_event):
        return
    first = merged["steps"][0]["event"]
    if changes["event"] != first:
        message = f"Must be the event of the first step, {first}; leave it out."
        yield Detail("event", DetailCode.INVALID_VALUE, message)


def _uniform(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that can be written in several ways, in the form that is stored."""
    denominator, steps = columns["denominator"], columns["steps"] or []
    numbers = {name: columns[name] for name in _NUMBERS}
    return {
        "event": steps[0]["event"] if steps else columns["event"],
        "currency": columns["currency"].upper(),
        "denominator": denominator and Quantity.parse(denominator).as_json(),
        "where": columns["where"] or [],
        "steps": [_uniform_step(step) for step in steps],
        **{name: None if value is None else float(value) for name, value in numbers.items()},
    }


def _uniform_step(step: Mapping[str, Any]) -> Document:
    where = step.get("where")
    return {"event": step["event"], **({"where": where} if where else {})}


class Metrics(Reversible):
    """Undoes changes of metrics.

    If an experiment has started with the definition that is undone, the experiment keeps its version, and the old
    definition becomes a new version.
    """

    noun = "metric"
    derived = ("version",)

    def current(self, changes: Sequence[Change]) -> Sequence[Document | None]:
        found = {metric.key: metric for metric in Metric.objects.filter(key__in=[change.key for change in changes])}
        return [metric_as_json(found[change.key]) if change.key in found else None for change in changes]

    def write(self, log: Writing, targets: Sequence[Target]) -> None:
        for target in targets:
            values = _columns_of(target.document)
            if target.is_new:
                origin = {"id": target.change.object_id, "created_at": created_at(target.change)}
                insert(log, target.change.key, values, **origin)
            else:
                change(log, Metric.objects.get(key=target.change.key), values)

    def delete(self, log: Writing, changes: Sequence[Change]) -> None:
        for change in changes:
            remove(log, Metric.objects.get(key=change.key))


def _columns_of(document: Document) -> dict[str, Any]:
    """Return the columns from JSON. Missing properties get the defaults of a new metric."""
    names = {"description": "description", **COLUMNS}
    return {column: document.get(name, NEW[column]) for name, column in names.items()}
