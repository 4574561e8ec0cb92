"""The process that `bench_results` times: results of a million users and ten million events, in
seconds, as JSON.

Run as `python -m tests.benchmarks.results` with the settings of a PostgreSQL database that may be
filled.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from math import isclose
from statistics import median
from time import perf_counter
from typing import Any

import django
from django.core.management import call_command
from django.db import connection

from tests.benchmarks.in_process import seconds_of

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

USERS, EVENTS, NEW_EVENTS, BUSY_EVENTS = 1_000_000, 10_000_000, 100_000, 1_000_000
ROUNDS = 5
NOW = datetime(2026, 2, 5, 12, tzinfo=UTC)
"""The moment of reading. Some users are not mature then: the last of them came a week before."""

# Users come as they come: their ids are in no order.
_USER = "md5('user ' || {})::uuid::text"
_EXPOSURE = f"""
    INSERT INTO experiments_exposure (experiment_id, user_id, variant, exposed_at, origin, is_in_several_variants)
    SELECT %(experiment)s, {_USER.format("n")}, (ARRAY['control', 'blue', 'green'])[1 + n %% 3],
        timestamptz '2026-01-01 00:00Z' + n * (interval '28 days' / {USERS}), 'assigned', false
    FROM generate_series(0, {USERS} - 1) AS n
"""
# One event in ten is a purchase, two are baskets, three are searches and four are views. Each user
# has ten events, as many days from each other; the first of them may lie before the exposure.
_EVENTS = f"""
    INSERT INTO events_event
        (id, environment_id, user_id, name, timestamp, received_at, experiment, variant, properties)
    SELECT gen_random_uuid(), %(environment)s, {_USER.format(f"n::bigint * 7919 %% {USERS}")},
        name, moment, moment, '', '',
        CASE name
            WHEN 'purchase' THEN jsonb_build_object('revenue', (n %% 9973) / 100.0, 'currency', 'EUR', 'path', path)
            ELSE jsonb_build_object('path', path)
        END
    FROM (
        SELECT n, '/products/' || n %% 997 AS path,
            CASE WHEN share < 1 THEN 'purchase' WHEN share < 3 THEN 'basket' WHEN share < 6 THEN 'search'
                ELSE 'view' END AS name,
            timestamptz '2025-12-25 00:00Z' + (n - %(first)s) * (interval '60 days' / %(count)s::int) AS moment
        FROM (
            SELECT n, abs(hashint4(n)::bigint) %% 10 AS share
            FROM generate_series(%(first)s::int, %(first)s + %(count)s - 1) AS n
        ) AS chosen
    ) AS made
"""
# Recent events of so many users, who are anywhere in the tables.
_NEW_EVENTS = f"""
    INSERT INTO events_event
        (id, environment_id, user_id, name, timestamp, received_at, experiment, variant, properties)
    SELECT gen_random_uuid(), %(environment)s, {_USER.format(f"(%(from)s + n %% %(users)s)::bigint * 7919 %% {USERS}")},
        name, moment, moment, '', '', jsonb_build_object('revenue', (n %% 9973) / 100.0, 'currency', 'EUR')
    FROM (
        SELECT n, (ARRAY['purchase', 'basket', 'basket', 'search', 'search', 'search', 'view', 'view', 'view', 'view'])
                [1 + abs(hashint4(n)::bigint) %% 10] AS name,
            timestamptz '2026-02-27 00:00Z' + n * interval '1 second' AS moment
        FROM generate_series(1, %(events)s::int) AS n
    ) AS made
"""
_COUNTS = """
    INSERT INTO events_eventcount (environment_id, name, quarter, stripe, count)
    SELECT environment_id, name, floor(extract(epoch FROM timestamp) / 900), 0, count(*)
    FROM events_event GROUP BY 1, 2, 3
"""
_INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'events_event' AND indexname NOT LIKE '%_pkey'"


METRICS: dict[str, dict[str, Any]] = {
    "bought": {"type": "conversion", "event": "purchase"},
    "searches": {"type": "count", "event": "search", "window_hours": 7 * 24},
    "income": {"type": "revenue", "event": "purchase", "currency": "EUR", "cap_percentile": 99},
    "returned": {"type": "retention", "event": "view", "from_day": 7, "to_day": 14},
    "price": {
        "type": "ratio",
        "event": "purchase",
        "property": "revenue",
        "currency": "EUR",
        "denominator": {"event": "basket", "property": "", "currency": ""},
    },
}


def main() -> None:
    from django.utils import timezone  # noqa: PLC0415 (models are there only after django.setup)

    from config.change_log.writing import Actor  # noqa: PLC0415
    from config.models import Environment, Source  # noqa: PLC0415
    from experiments.lifecycle.changes import create_experiment, start_experiment  # noqa: PLC0415
    from experiments.metrics.changes import create_metric  # noqa: PLC0415
    from experiments.results.analyse import analyse_experiment  # noqa: PLC0415
    from experiments.results.refresh import refresh  # noqa: PLC0415
    from tests.benchmarks.naive import compute_in_two_levels, compute_naively  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    production = Environment.objects.default()
    writer: dict[str, Any] = {"actor": Actor("benchmark", Source.COMMAND), "now": timezone.now()}
    for key, values in METRICS.items():
        create_metric(key=key, **values, **writer)
    variants = [{"key": key, "weight": 1} for key in ("control", "blue", "green")]
    whose = {"key": "checkout", "environment": production, **writer}
    create_experiment(variants=variants, metrics=list(METRICS), **whose)
    experiment = start_experiment(started_at=datetime(2026, 1, 1, tzinfo=UTC), **whose)

    taken = {"filling": seconds_of(lambda: fill(experiment))}
    run("VACUUM (ANALYZE)")
    taken["everything"] = seconds_of(lambda: refresh(experiment, NOW))
    run("VACUUM (ANALYZE)")
    analyse_experiment(experiment, NOW)  # the first one loads the statistics
    nothing_new, two_levels, in_parallel, everything = [], [], [], []
    for index in range(ROUNDS):
        nothing_new.append(seconds_of(lambda: analyse_experiment(experiment, NOW)))
        in_parallel.append(seconds_of(lambda: compute_in_two_levels(experiment, NOW)))
        forget(experiment)
        # PostgreSQL stores rows with one process, so both are compared with one.
        run("SET max_parallel_workers_per_gather = 0")
        two_levels.append(seconds_of(lambda: compute_in_two_levels(experiment, NOW)))
        everything.append(seconds_of(lambda: refresh(experiment, NOW)))
        run("RESET max_parallel_workers_per_gather")
        if index == ROUNDS // 2:
            begun = perf_counter()
            naive = compute_naively(experiment, NOW)
            taken["naive"] = perf_counter() - begun
            check_agreement(experiment, naive)
            check_agreement(experiment, compute_in_two_levels(experiment, NOW))
    taken |= {"everything": median(everything), "nothing new": median(nothing_new)}
    taken |= {"two levels": median(two_levels), "two levels in parallel": median(in_parallel)}
    run("VACUUM (ANALYZE)")
    users = Users()
    for number in (1, 1_000):
        rounds = [refresh_after(experiment, users.next(number), number) for _ in range(ROUNDS)]
        taken[f"refresh of {number}"] = median(rounds)
    taken[f"refresh of {NEW_EVENTS}"] = refresh_after(experiment, users.next(NEW_EVENTS), NEW_EVENTS)
    taken |= busy_user(experiment)
    print(json.dumps(taken))


class Users:
    """Hands out users who have not been used before."""

    def __init__(self) -> None:
        self._first = 0

    def next(self, number: int) -> int:
        first, self._first = self._first, self._first + number
        return first


def forget(experiment: Any) -> None:
    """Leave nothing stored of the results, so that everything is computed from scratch."""
    run("UPDATE experiments_resultstate SET watermark = '' WHERE experiment_id = %(pk)s", pk=experiment.pk)
    run("TRUNCATE experiments_uservalue, experiments_variantsums")
    run("CHECKPOINT")  # which would come some minutes later, and not now


def check_agreement(experiment: Any, plain: Any) -> None:
    """Check that the plain queries count the same users and values. Only the cap is not theirs."""
    from experiments.results.maturity import read_mature  # noqa: PLC0415
    from experiments.results.sums import read_caps  # noqa: PLC0415

    reading = read_mature(experiment, NOW, read_caps(experiment))
    for index, key in enumerate(METRICS):
        for variant, users in reading.users_of(index, 1).items():
            sums, row = reading.sums.by_phase[1][index][variant], plain[key][variant]
            is_capped = "cap_percentile" in METRICS[key]
            ours, theirs = [users, sums.value, sums.value_before], [row["users"], row["Sum_y"], row["Sum_x"]]
            assert is_capped or all(isclose(*both, rel_tol=1e-9) for both in zip(ours, theirs, strict=True))
            assert users == row["users"]


def refresh_after(experiment: Any, first: int, users: int) -> float:
    """The seconds that a refresh takes when so many users have done something, from this one on."""
    from experiments.results.refresh import refresh  # noqa: PLC0415

    run(_NEW_EVENTS, environment=experiment.environment_id, users=users, events=users, **{"from": first})
    run("CHECKPOINT")  # which would come some minutes later, and not now
    return seconds_of(lambda: refresh(experiment, NOW))


def busy_user(experiment: Any) -> dict[str, float]:
    """The seconds that a refresh takes after one more event of a user with a million events, and of another user."""
    run(_NEW_EVENTS, environment=experiment.environment_id, users=1, events=BUSY_EVENTS, **{"from": USERS // 2})
    run("ANALYZE events_event")
    refreshed = refresh_after_one(experiment, USERS // 2)  # the first one brings in the million
    return {
        "million events": refreshed,
        "one more of a busy user": median(refresh_after_one(experiment, USERS // 2) for _ in range(ROUNDS)),
        "one more of another user": median(refresh_after_one(experiment, USERS // 2 + 1) for _ in range(ROUNDS)),
    }


def refresh_after_one(experiment: Any, user: int) -> float:
    return refresh_after(experiment, user, 1)


def fill(experiment: Any) -> None:
    """Make the events in the database itself, and their indexes when they are there."""
    run("SET synchronous_commit = off")
    run("SET maintenance_work_mem = '512MB'")
    run(_EXPOSURE, experiment=experiment.pk)
    indexes = run(_INDEXES)
    for name, _ in indexes:
        run(f'DROP INDEX "{name}"')
    run(_EVENTS, environment=experiment.environment_id, first=0, count=EVENTS)
    run(_COUNTS)
    for _, definition in indexes:
        run(definition)


def run(statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []


if __name__ == "__main__":
    django.setup()
    main()
