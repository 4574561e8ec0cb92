"""The process that `bench_audit` times: the audit of a million exposures beside reading them, in
seconds, as JSON.

Run as `python -m tests.benchmarks.audit` with the settings of a PostgreSQL database that may be
filled.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from statistics import median
from typing import Any
from uuid import UUID

import django
from django.core.management import call_command
from django.db import connection

from tests.benchmarks.in_process import seconds_of

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

USERS, ROUNDS = 1_000_000, 3
START = datetime(2026, 1, 1, tzinfo=UTC)
VARIANTS = [{"key": key, "weight": 1} for key in ("control", "blue", "green")]
PLAN = {"attribute": "plan", "operator": "equals", "value": "pro"}
DESIGNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "narrow": {"percentage": 80, "group": {"key": "shop", "from": 0, "to": 90}},
    "targeted": {"conditions": [PLAN]},
}
"""By their keys: everybody, with one hash a user; a part of a group and of the traffic, with three;
and conditions.
"""


def main() -> None:
    from django.utils import timezone  # noqa: PLC0415 (models are there only after django.setup)

    from config.change_log.writing import Actor  # noqa: PLC0415
    from config.models import Environment, Source  # noqa: PLC0415
    from experiments.lifecycle.changes import create_experiment, start_experiment  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    production = Environment.objects.default()
    writer: dict[str, Any] = {"actor": Actor("benchmark", Source.COMMAND), "now": timezone.now()}
    experiments = []
    for key, design in DESIGNS.items():
        whose = {"key": key, "environment": production, **writer}
        create_experiment(variants=VARIANTS, **design, **whose)
        experiments.append(start_experiment(started_at=START, **whose))
        fill(experiments[-1])
    run("VACUUM (ANALYZE) experiments_exposure")
    print(json.dumps({experiment.key: measure(experiment) for experiment in experiments}))


def measure(experiment: Any) -> dict[str, float]:
    """The medians of reading all exposures and of auditing them, by turns."""
    from config.database.transactions import read_consistently  # noqa: PLC0415
    from experiments.results.assignment_audit import audit_assignments, design_of, exposures_of  # noqa: PLC0415

    def read() -> None:
        with read_consistently():
            deque(exposures_of(experiment, design_of(experiment)).iterator(chunk_size=5000), maxlen=0)

    def audit() -> None:
        result = audit_assignments(experiment)
        assert (result.exposures, result.differing) == (USERS, 0), result

    read()
    rounds = [(seconds_of(read), seconds_of(audit)) for _ in range(ROUNDS)]
    reading, auditing = zip(*rounds, strict=True)
    return {"reading": median(reading), "auditing": median(auditing)}


def fill(experiment: Any) -> None:
    """Expose a million users, each as the hash and the design have it."""
    columns = "experiment_id, user_id, variant, exposed_at, origin, is_in_several_variants, phase, attributes"
    with connection.cursor() as cursor, cursor.copy(f"COPY experiments_exposure ({columns}) FROM STDIN") as copy:
        for row in islice(exposures(experiment), USERS):
            copy.write_row((experiment.pk, *row))


def exposures(experiment: Any) -> Iterator[tuple[Any, ...]]:
    """Yield rows of included users endlessly."""
    from experiments.models.documents import experiment_as_json  # noqa: PLC0415
    from experiments.models.phases import assignment_source  # noqa: PLC0415
    from flags.engine.assignment import compile_assignment  # noqa: PLC0415
    from flags.engine.types import Configuration, Context  # noqa: PLC0415

    assign = compile_assignment(assignment_source(experiment_as_json(experiment)))
    attributes, nothing = {"plan": "pro", "country": "CH"}, Configuration(flags={}, segments={})
    for number in count():
        user_id = str(UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128))
        assigned = assign(Context(user_id, attributes, nothing, START))
        if assigned.exclusion is None:
            moment = START + number * timedelta(seconds=1)
            yield user_id, assigned.variant, moment, "assigned", False, 1, json.dumps(attributes)


def run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


if __name__ == "__main__":
    django.setup()
    main()
