"""The process that `bench_citus` runs on each of its databases: `fill USERS EVENTS`, then `measure`, in seconds."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from typing import Any

import django
from django.db import connection

from tests.benchmarks.in_process import seconds_of
from tests.benchmarks.results import METRICS

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

KEY, NOW = "checkout", datetime(2026, 2, 5, 12, tzinfo=UTC)

# The number of the transaction is computed once, on the coordinator, as the service has it.
_ARRIVAL = "(SELECT pg_current_xact_id()::text::bigint)"
_EXPOSURE = f"""
    INSERT INTO experiments_exposure
        (experiment_id, user_id, variant, exposed_at, origin, is_in_several_variants, arrival)
    SELECT %(experiment)s, md5(n::text), (ARRAY['control', 'blue', 'green'])[1 + n %% 3],
        timestamptz '2026-01-01 00:00Z' + n * (interval '28 days' / %(users)s), 'assigned', false, {_ARRIVAL}
    FROM generate_series(0, %(users)s - 1) AS n
"""
_EVENTS = f"""
    INSERT INTO events_event
        (id, environment_id, user_id, name, timestamp, received_at, experiment, variant, properties, arrival)
    SELECT gen_random_uuid(), %(environment)s, md5((n * 7919 %% %(users)s)::text),
        (ARRAY['purchase', 'basket', 'search', 'view'])[1 + n %% 4], moment, moment, '', '',
        CASE n %% 4 WHEN 0 THEN jsonb_build_object('revenue', (n %% 9973) / 100.0, 'currency', 'EUR') ELSE '{{}}' END,
        {_ARRIVAL}
    FROM (
        SELECT n::bigint, timestamptz '2025-12-25 00:00Z' + n * (interval '60 days' / %(events)s) AS moment
        FROM generate_series(0, %(events)s - 1) AS n
    ) AS made
"""
_COUNTS = """
    INSERT INTO events_eventcount (environment_id, name, quarter, stripe, count)
    SELECT environment_id, name, floor(extract(epoch FROM timestamp) / 900), 99, count(*)
    FROM events_event GROUP BY 1, 2, 3
"""


def fill(users: int, events: int) -> dict[str, float]:
    from django.utils import timezone  # noqa: PLC0415 (models are there only after django.setup)

    from config.change_log.writing import Actor  # noqa: PLC0415
    from config.models import Environment, Source  # noqa: PLC0415
    from experiments.lifecycle.changes import create_experiment, start_experiment  # noqa: PLC0415
    from experiments.metrics.changes import create_metric  # noqa: PLC0415
    from experiments.results.refresh import refresh  # noqa: PLC0415

    environment = Environment.objects.default()
    writer: dict[str, Any] = {"actor": Actor("benchmark", Source.COMMAND), "now": timezone.now()}
    for key, values in METRICS.items():
        create_metric(key=key, **values, **writer)
    variants = [{"key": key, "weight": 1} for key in ("control", "blue", "green")]
    whose = {"key": KEY, "environment": environment, **writer}
    create_experiment(variants=variants, metrics=list(METRICS), **whose)
    experiment = start_experiment(started_at=datetime(2026, 1, 1, tzinfo=UTC), **whose)
    for statement in (_EXPOSURE, _EVENTS, _COUNTS, "ANALYZE"):
        with connection.cursor() as cursor:
            size = {"users": users, "events": events}
            named = {"experiment": experiment.pk, "environment": environment.pk, **size}
            cursor.execute(statement, named if "%(" in statement else None)
    return {"first fold": seconds_of(lambda: refresh(experiment, NOW))}


def measure() -> dict[str, float]:
    from config.models import Environment  # noqa: PLC0415
    from experiments.models.documents import get_experiment  # noqa: PLC0415
    from experiments.results.analyse import analyse_experiment  # noqa: PLC0415
    from experiments.results.check import sums_from_scratch  # noqa: PLC0415
    from experiments.results.sums import read_caps  # noqa: PLC0415

    experiment = get_experiment(KEY, Environment.objects.default())
    analyse_experiment(experiment, NOW)  # the first one loads the statistics
    caps = read_caps(experiment)
    return {
        "totals": seconds_of(lambda: analyse_experiment(experiment, NOW)),
        "scratch": seconds_of(lambda: sums_from_scratch(experiment, caps)),
    }


def main() -> None:
    what, *sizes = sys.argv[1:]
    print(json.dumps(fill(*map(int, sizes)) if what == "fill" else measure()))


if __name__ == "__main__":
    django.setup()
    main()
