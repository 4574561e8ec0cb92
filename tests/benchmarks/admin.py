"""The process that `bench_admin` times: the milliseconds that the server takes for each page of the admin, as JSON.

Run as `python -m tests.benchmarks.admin` with the settings of a database that may be filled.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from uuid import UUID

import django
from django.core.management import call_command
from django.db import connection, transaction

from tests.benchmarks.results import METRICS

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

FLAGS, EVENTS, USERS = 5_000, 1_000_000, 100_000
EXPERIMENTS = ("checkout", "search", "cart")
"""All of them run, and all users are in each of them."""
ROUNDS = 5
_SPAN = timedelta(days=28)
_QUARTER = 900
_VARIANTS = ("control", "blue", "green")
_NAMES = ("purchase", "basket", "basket", "search", "search", "search", "view", "view", "view", "view")
_AT_ONCE = 50_000
_STRIDE = 7_919  # prime: neighbours in time are users from anywhere
_EVENT_COLUMNS = (
    *("id", "environment_id", "user_id", "name", "timestamp", "received_at", "experiment", "variant", "properties"),
)
_EXPOSURE_COLUMNS = (
    *("experiment_id", "user_id", "variant", "exposed_at", "origin", "is_in_several_variants", "phase", "attributes"),
)


def main() -> None:
    from django.contrib.auth.models import User  # noqa: PLC0415 (models are there only after django.setup)
    from django.test import Client  # noqa: PLC0415
    from django.utils import timezone  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    now = timezone.now()
    fill(now)
    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.create_superuser("ada"))
    print(json.dumps({name: time_page(client, path) for name, path in pages().items()}))


def pages() -> Mapping[str, str]:
    """Return the addresses of the pages by their names. Names that begin with `results` are of experiments."""
    from experiments.models import Experiment, Metric  # noqa: PLC0415 (models are there only after django.setup)
    from flags.models import Flag  # noqa: PLC0415

    flag, metric = Flag.objects.get(key="flag-17"), Metric.objects.get(key="bought")
    running = Experiment.objects.get(key=EXPERIMENTS[0])
    experiments = "/admin/experiments/experiment/"
    return {
        "list of flags": "/admin/flags/flag/",
        "list of flags, last page": f"/admin/flags/flag/?p={FLAGS // 50}",
        "list of flags, found by a text": "/admin/flags/flag/?q=4999",
        "list of flags, by update": "/admin/flags/flag/?o=-4",
        "list of stale flags": "/admin/flags/flag/?shelf=stale",
        "list of flags with a tag": "/admin/flags/flag/?tag=team-3",
        "list of experiments": experiments,
        "list of metrics": "/admin/experiments/metric/",
        "list of events": "/admin/events/event/",
        "page of an event": "/admin/events/event/named/?event=view",
        "list of changes": "/admin/config/change/",
        "list of segments": "/admin/flags/segment/",
        "form of a flag": f"/admin/flags/flag/{flag.pk}/change/",
        "form of a metric": f"/admin/experiments/metric/{metric.pk}/change/",
        "form of a new experiment": f"{experiments}add/",
        "history of a flag": f"/admin/flags/flag/{flag.pk}/history/",
        "planner": f"{experiments}planner/",
        "results in the overview": "/admin/",
        "results beside the form of an experiment": f"{experiments}{running.pk}/change/",
        "results of all metrics": f"{experiments}{running.pk}/results/",
        "results as a table": f"{experiments}{running.pk}/results.csv",
    }


def time_page(client: Any, path: str) -> dict[str, float]:
    """Return the median time of a page in milliseconds, its size, and how many statements it takes."""
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415 (needs django.setup)

    taken: list[float] = []
    for _ in range(ROUNDS):
        begun = perf_counter()
        answer = client.get(path)
        taken.append(perf_counter() - begun)
        assert answer.status_code == 200, (path, answer.status_code)
    with CaptureQueriesContext(connection) as queries:
        client.get(path)
    return {"milliseconds": median(taken) * 1e3, "kib": len(answer.content) / 1024, "queries": len(queries)}


# filling


def fill(now: datetime) -> None:
    from config.models import Environment  # noqa: PLC0415 (models are there only after django.setup)

    production = Environment.objects.default()
    fill_flags(production, now)
    fill_events(production, now - _SPAN)
    for at, key in enumerate(EXPERIMENTS):
        fill_experiment(production, key, now - _SPAN, at)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    call_command("maintain", stdout=StringIO())  # this process prints JSON alone


def fill_flags(production: Any, now: datetime) -> None:
    """Import flags, all of them evaluated lately with two outcomes."""
    from django.conf import settings  # noqa: PLC0415 (models are there only after django.setup)

    from flags.models import Flag, LastUse, hour_of  # noqa: PLC0415

    file = Path(settings.RUNTIME_DIR) / "flags.json"
    file.write_text(json.dumps({"version": 1, "flags": [flag(number) for number in range(FLAGS)]}))
    call_command("import_flags", str(file), stdout=file.with_suffix(".log").open("w"))
    Flag.objects.update(created_at=now - 2 * _SPAN, common_updated_at=now - 2 * _SPAN)
    LastUse.objects.bulk_create(
        LastUse(environment=production, flag_key=f"flag-{number}", outcome=outcome, hour=hour_of(now))
        for number in range(FLAGS)
        for outcome in ("on", "off")
    )


def flag(number: int) -> Mapping[str, object]:
    condition = {"attribute": "country", "operator": "in", "value": ["CH", "DE"]}
    state = {"enabled": True, "rules": [{"type": "percentage", "percentage": 50, "conditions": [condition]}]}
    return {
        "key": f"flag-{number}",
        "description": f"The feature number {number}, which the team tries with some users first.",
        "tags": [f"team-{number % 20}", f"release-{number % 200}"],
        "owner": f"owner-{number % 50}",
        "environments": {"production": state, "staging": state},
    }


def fill_events(production: Any, since: datetime) -> None:
    """Insert events of all users, evenly over the time, and their counts. One in a hundred names an experiment."""
    from config.database.insertion import insert  # noqa: PLC0415 (models are there only after django.setup)
    from events.models import Event, EventCount  # noqa: PLC0415

    counts: Counter[tuple[str, int]] = Counter()
    for first in range(0, EVENTS, _AT_ONCE):
        rows = []
        for number in range(first, first + _AT_ONCE):
            name, at = _NAMES[number * 31 % 10], since + _SPAN * (number / EVENTS)
            properties = {"revenue": number % 9_973 / 100, "currency": "EUR", "path": f"/products/{number % 997}"}
            names = EXPERIMENTS[0] if number % 100 == 0 else ""
            user = f"user-{number * _STRIDE % USERS}"
            rows.append((UUID(int=number), production.pk, user, name, at, at, names, "", properties))
            counts[name, int(at.timestamp()) // _QUARTER] += 1
        with transaction.atomic():
            insert(Event, _EVENT_COLUMNS, rows, "")
    EventCount.objects.bulk_create(
        EventCount(environment=production, name=name, quarter=quarter, stripe=0, count=count)
        for (name, quarter), count in counts.items()
    )


def fill_experiment(production: Any, key: str, since: datetime, seed: int) -> None:
    """Start an experiment, and insert the exposures of all users over the first three weeks."""
    from config.change_log.writing import Actor  # noqa: PLC0415 (models are there only after django.setup)
    from config.database.insertion import insert  # noqa: PLC0415
    from config.models import Source  # noqa: PLC0415
    from experiments.lifecycle.changes import create_experiment, start_experiment  # noqa: PLC0415
    from experiments.metrics.changes import create_metric  # noqa: PLC0415
    from experiments.models import Exposure, Metric, Origin  # noqa: PLC0415

    actor, later = Actor("benchmark", Source.COMMAND), since + _SPAN
    if not Metric.objects.exists():
        for name, values in METRICS.items():
            create_metric(key=name, **values, actor=actor, now=later)
    whose: dict[str, Any] = {"key": key, "environment": production, "actor": actor, "now": later}
    variants = [{"key": variant, "weight": 1} for variant in _VARIANTS]
    create_experiment(variants=variants, metrics=list(METRICS), **whose)
    experiment = start_experiment(started_at=since, **whose)
    rows = []
    for number in range(USERS):
        attributes = {"country": ("CH", "DE", "FR")[number % 3]}
        at, variant = since + _SPAN * 0.75 * (number / USERS), _VARIANTS[(number * 17 + seed) % 3]
        rows.append((experiment.pk, f"user-{number}", variant, at, Origin.ASSIGNED.value, False, 1, attributes))
    with transaction.atomic():
        insert(Exposure, _EXPOSURE_COLUMNS, rows, "")


if __name__ == "__main__":
    django.setup()
    main()
