"""The process that `bench_folding` times: recording new events of users who are in many experiments, and
folding them into the results of all, in seconds, as JSON.

Run as `python -m tests.benchmarks.folding` with the settings of a PostgreSQL database that may be
filled.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import django

from tests.benchmarks.in_process import seconds_of
from tests.benchmarks.results import METRICS, run

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

EXPERIMENTS, USERS, EVENTS_BEFORE, NEW_EVENTS, A_BATCH = 20, 20_000, 200_000, 20_000, 1_000
ROUNDS = 5
STARTED = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 2, 5, 12, tzinfo=UTC)
CHOSEN = ("bought", "searches", "income")

_NAMES = ("purchase", "basket", "basket", "search", "search", "search", "view", "view", "view", "view")
_EXPOSURE = f"""
    INSERT INTO experiments_exposure (experiment_id, user_id, variant, exposed_at, origin, is_in_several_variants)
    SELECT %(experiment)s, md5('user ' || n)::uuid::text, (ARRAY['control', 'green'])[1 + n %% 2],
        timestamptz '2026-01-01 00:00Z' + n * (interval '28 days' / {USERS}), 'assigned', false
    FROM generate_series(0, {USERS} - 1) AS n
"""


def main() -> None:
    from django.core.management import call_command  # noqa: PLC0415 (models are there only after django.setup)

    from config.models import Environment  # noqa: PLC0415
    from experiments.results.refresh import bring_up_to_date  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    production = Environment.objects.default()
    experiments = start_experiments(production)
    users = [
        user
        for (user,) in run(
            "SELECT user_id FROM experiments_exposure WHERE experiment_id = %(pk)s", pk=experiments[0].pk
        )
    ]

    def record_some(first: int, count: int) -> None:
        for begin in range(first, first + count, A_BATCH):
            record_events(production, users, begin)

    def fold() -> None:
        for experiment in experiments:
            bring_up_to_date(experiment, NOW)

    record_some(0, EVENTS_BEFORE)
    fold()
    run("VACUUM (ANALYZE)")
    taken = []
    for number in range(ROUNDS + 1):  # after the first one, the tables have room for the next
        first = EVENTS_BEFORE + number * NEW_EVENTS
        recording = seconds_of(lambda first=first: record_some(first, NEW_EVENTS))
        taken.append({"recording": recording, "folding": seconds_of(fold)})
    print(json.dumps(taken))


def start_experiments(production: Any) -> list[Any]:
    """Start experiments that have the same users, each of whom has been exposed in all of them."""
    from config.change_log.writing import Actor  # noqa: PLC0415
    from config.models import Source  # noqa: PLC0415
    from experiments.lifecycle.changes import create_experiment, start_experiment  # noqa: PLC0415
    from experiments.metrics.changes import create_metric  # noqa: PLC0415

    writer: dict[str, Any] = {"actor": Actor("benchmark", Source.COMMAND), "now": NOW}
    for key in CHOSEN:
        create_metric(key=key, **METRICS[key], **writer)
    variants = [{"key": key, "weight": 1} for key in ("control", "green")]
    experiments = []
    for number in range(EXPERIMENTS):
        whose = {"key": f"experiment-{number}", "environment": production, **writer}
        create_experiment(variants=variants, metrics=list(CHOSEN), **whose)
        experiments.append(start_experiment(started_at=STARTED, **whose))
        run(_EXPOSURE, experiment=experiments[-1].pk)
    return experiments


def record_events(production: Any, users: list[str], first: int) -> None:
    """Record a batch, with an event of another user each."""
    from events.recording import (  # noqa: PLC0415
        NewEvent,
        new_id,
        record,
    )

    events = []
    for number in range(first, first + A_BATCH):
        name, moment = _NAMES[number * 7919 % 10007 % 10], NOW - timedelta(seconds=number % 86_400)
        properties = {"path": f"/products/{number % 997}"}
        if name == "purchase":
            properties |= {"revenue": number % 9973 / 100, "currency": "EUR"}
        events.append(NewEvent(new_id(), users[number * 7919 % USERS], name, moment, NOW, properties))
    record(events, production)


if __name__ == "__main__":
    django.setup()
    main()
