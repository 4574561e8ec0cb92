"""Imports of exposures from a file. They count like reports: for each user, the earliest between start and stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
from django.db import transaction

from config.api.bodies import Name, check, convert, decode
from config.api.failures import flatten
from config.api.serializers import ObjectField, StrictSerializer, TextField, TimestampField
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.slugs import NAME_LENGTH
from config.timestamps import floor_to_second, format_timestamp, parse_timestamp
from events.imports.files import Columns, File, message_of
from events.imports.importing import Import, Problems
from events.imports.inspection import Inspection
from experiments.exposures.recording import record_imported
from experiments.exposures.reports import Report
from experiments.models import Experiment
from experiments.models.locks import lock_experiment
from experiments.results.unexposed import warn_of_exposures

COLUMNS = Columns(required=("userId", "variant", "exposedAt"), optional=(), rest="attributes")


Exposed = tuple[str, Report]
"""The id of a user, and the report of the exposure."""


class ExposureSerializer(StrictSerializer):
    """A user who saw a variant, with the attributes that the user had then."""

    userId = TextField(min_length=1, max_length=NAME_LENGTH)
    variant = TextField(min_length=1)
    exposedAt = TimestampField()
    attributes = ObjectField(required=False)


class _Exposure(msgspec.Struct, forbid_unknown_fields=True):
    userId: Name
    variant: str
    exposedAt: str
    attributes: dict[str, Any] = {}


@dataclass(slots=True)
class ImportedExposures:
    """The numbers of imported lines and of new users, and the problems of other lines.

    `left_out` are lines that were valid until the experiment changed during the import. `warnings` say what looks wrong
    although it is valid.
    """

    lines: int = 0
    users: int = 0
    problems: Problems = field(default_factory=Problems)
    left_out: Problems = field(default_factory=Problems)
    warnings: list[str] = field(default_factory=list)


def import_exposures(
    experiment: Experiment, file: File, *, now: datetime, skips_invalid: bool, on_progress: Callable[[int], object]
) -> ImportedExposures:
    """Store the exposures of a file for a started experiment whose results are not frozen.

    Raises DomainError `invalid_transition` for a draft, and `experiment_locked` for frozen results. Raises InvalidLines
    if lines are invalid and `skips_invalid` is false, and FileRefused.
    """
    _check_open(experiment)
    imported, limits = ImportedExposures(), _Limits.of(experiment, now)

    def read(line: bytes) -> Exposed:
        return _read(line, limits)

    def write(chunk: Sequence[tuple[int, Exposed]]) -> None:
        inspection.add((line, user_id, report.attributes) for line, (user_id, report) in chunk)
        with transaction.atomic():
            # The lock keeps others from stopping or freezing it, and from adding a phase or a tester, in the meantime.
            locked = lock_experiment(experiment)
            exposures = [exposure for _, exposure in chunk]
            if locked.frozen_at is not None or _Limits.of(locked, now) != limits:
                exposures = list(_still_acceptable(chunk, locked, now, imported.left_out))
            imported.users += record_imported(locked, exposures)
        imported.lines += len(exposures)

    with Inspection() as inspection:
        importing = Import(COLUMNS, read, write)
        imported.problems = importing.run(file, skips_invalid=skips_invalid, on_progress=on_progress)
        imported.warnings = [*inspection.warnings("attribute"), *warn_of_exposures(experiment)]
    return imported


def _still_acceptable(
    chunk: Sequence[tuple[int, Exposed]], experiment: Experiment, now: datetime, left_out: Problems
) -> Iterator[Exposed]:
    """Yield the exposures that are valid for the experiment as it is now, and add the others to `left_out`."""
    limits = _Limits.of(experiment, now)
    for line, exposure in chunk:
        try:
            _check_open(experiment)
            _check(exposure, limits)
        except DomainError as error:
            left_out.add(line, message_of(error))
        else:
            yield exposure


def _check_open(experiment: Experiment) -> None:
    if experiment.started_at is None:
        message = f"The experiment {experiment.key} is a draft; start it first, with --at for the time when it began."
        raise DomainError(ErrorCode.INVALID_TRANSITION, message)
    if experiment.frozen_at is not None:
        message = f"The results of {experiment.key} are frozen; they take no more exposures."
        raise DomainError(ErrorCode.EXPERIMENT_LOCKED, message)


@dataclass(frozen=True, slots=True)
class _Limits:
    """What an exposure to an experiment can be: its variants, its users, and its time."""

    variants: Mapping[str, None]
    forced: frozenset[str]
    start: datetime
    stop: datetime | None
    now: datetime

    @classmethod
    def of(cls, experiment: Experiment, now: datetime) -> _Limits:
        assert experiment.started_at is not None  # noqa: S101 (checked before any line is read)
        variants = dict.fromkeys(experiment.variant_keys)
        return cls(variants, frozenset(experiment.forced_variants), experiment.started_at, experiment.stopped_at, now)

    def objections(self, user_id: str, report: Report) -> Iterator[Detail]:
        """Yield the reasons why this cannot have been an exposure to the experiment."""
        if report.variant not in self.variants:
            message = f"Must be one of the experiment's variants: {', '.join(self.variants)}."
            yield Detail("variant", DetailCode.UNKNOWN_REFERENCE, message)
        if user_id in self.forced:
            yield Detail("userId", DetailCode.INVALID_VALUE, "Is in forcedVariants, so the user is not in the results.")
        if report.at < floor_to_second(self.start):
            message = f"Is before the start of the experiment, {format_timestamp(self.start)}."
            yield Detail("exposedAt", DetailCode.OUT_OF_RANGE, message)
        elif self.stop is not None and report.at > self.stop:
            message = f"Is after the stop of the experiment, {format_timestamp(self.stop)}."
            yield Detail("exposedAt", DetailCode.OUT_OF_RANGE, message)
        elif report.at > self.now:
            yield Detail("exposedAt", DetailCode.OUT_OF_RANGE, "Is in the future.")


def _read(line: bytes, limits: _Limits) -> Exposed:
    """Return the exposure of a line. Raises DomainError."""
    value = check(decode(line))
    sent = convert(value, _Exposure)
    try:
        exposed_at = None if sent is None else parse_timestamp(sent.exposedAt)
    except ValueError:
        exposed_at = None
    if sent is None or exposed_at is None:
        serializer = ExposureSerializer(data=value)
        details = [] if serializer.is_valid() else list(flatten(serializer.errors))
        raise ValidationFailed(details or [Detail("", DetailCode.INVALID_VALUE, "Is not an exposure.")])
    exposure = sent.userId, Report(sent.variant, exposed_at, sent.attributes)
    _check(exposure, limits)
    return exposure


def _check(exposure: Exposed, limits: _Limits) -> None:
    if details := list(limits.objections(*exposure)):
        raise ValidationFailed(details)
