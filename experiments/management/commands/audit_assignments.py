"""`manage.py audit_assignments` compares every exposure with the hash and the configuration of its phase."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from tqdm import tqdm

from config.documents import Document
from config.management.operator import OperatorCommand, find_environment
from config.models import Environment
from experiments.models import Experiment, Exposure
from experiments.models.documents import get_experiment
from experiments.results.assignment_audit import assignment_audit_document, audit_assignments
from experiments.results.classification import WORDS, AssignmentAudit

STANDARD = "-"


class Command(OperatorCommand):
    help = "Compare every exposure with the hash and the configuration of its phase, and report which differ and why."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "experiment", nargs="*", help="the keys of some experiments (default: all that have started)"
        )
        parser.add_argument("--environment", help="the key of the environment (default: the default environment)")
        parser.add_argument("--json", metavar="FILE", help="write JSON to this file (- for stdout) instead of a report")

    def handle(self, *, experiment: Sequence[str], environment: str | None, json: str | None, **_: Any) -> None:
        experiments = _choose(experiment, find_environment(environment))
        total = Exposure.objects.filter(experiment__in=experiments).count()
        with tqdm(total=total, desc="Audit", unit=" exposures", disable=None) as bar:
            audits = [(started, audit_assignments(started, on_progress=bar.update)) for started in experiments]
        if json is None:
            for audited, audit in audits:
                self.stdout.write("\n".join(_report(audited, audit)))
        else:
            self._write([_document(audited, audit) for audited, audit in audits], json)
        if wrong := [audited.key for audited, audit in audits if audit.alarming]:
            raise CommandError(f"Exposures that this service should not have made: {', '.join(wrong)}.")

    def _write(self, audits: Sequence[Document], file: str) -> None:
        content = json.dumps(audits, indent=2, ensure_ascii=False)
        if file == STANDARD:
            self.stdout.write(content)
            return
        try:
            Path(file).write_text(f"{content}\n")
        except OSError as error:
            raise CommandError(f"Cannot write {file}: {error.strerror}.") from error


def _choose(keys: Sequence[str], environment: Environment) -> list[Experiment]:
    if not keys:
        return list(Experiment.objects.in_environment(environment).started().order_by("key"))
    experiments = [get_experiment(key, environment) for key in dict.fromkeys(keys)]
    if drafts := [experiment.key for experiment in experiments if experiment.started_at is None]:
        raise CommandError(f"Drafts have no exposures: {', '.join(drafts)}.")
    return experiments


def _document(experiment: Experiment, audit: AssignmentAudit) -> Document:
    return {"experiment": experiment.key, **assignment_audit_document(audit), "examples": dict(audit.examples)}


def _report(experiment: Experiment, audit: AssignmentAudit) -> Iterator[str]:
    yield (f"{experiment.key}: {audit.exposures:,} exposures, of which {audit.differing:,} differ ({audit.share:.2%})")
    for cause, words in WORDS.items():
        yield from _line(audit.causes[cause], f"differ, {words}", audit.examples.get(cause, ()))
    yield from _line(audit.in_several_variants, "in several variants", audit.examples.get("inSeveralVariants", ()))
    yield from _line(audit.before_start, "before the start", audit.examples.get("beforeStart", ()))
    yield from _line(audit.after_stop, "after the stop", audit.examples.get("afterStop", ()))


def _line(count: int, words: str, examples: Sequence[str]) -> Iterator[str]:
    if count:
        yield f"  {count:,} {words}: {', '.join(examples)}{', ...' if count > len(examples) else ''}"
