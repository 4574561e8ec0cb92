"""Make a database ready for `bench_sustained`: a running experiment with a million users.

Prints, as JSON, the address of its results page, and the cookie of a user who is signed in.

Run as `python -m tests.benchmarks.sustained` with the settings of a PostgreSQL database that may be filled.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from io import StringIO
from typing import Any

import django

from tests.benchmarks.results import METRICS, run

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

USERS, EXPERIMENT = 1_000_000, "checkout"
_EXPOSURE = f"""
    INSERT INTO experiments_exposure (experiment_id, user_id, variant, exposed_at, origin, is_in_several_variants)
    SELECT %(experiment)s, 'user-' || n, (ARRAY['control', 'blue', 'green'])[1 + n %% 3],
        now() - interval '6 days' + n * (interval '5 days' / {USERS}), 'assigned', false
    FROM generate_series(0, {USERS} - 1) AS n
"""


def main() -> None:
    from django.conf import settings  # noqa: PLC0415 (models are there only after django.setup)
    from django.contrib.auth.models import User  # noqa: PLC0415
    from django.core.management import call_command  # noqa: PLC0415
    from django.test import Client  # noqa: PLC0415
    from django.urls import reverse  # noqa: PLC0415
    from django.utils import timezone  # noqa: PLC0415

    from config.change_log.writing import Actor  # noqa: PLC0415
    from config.models import Environment, Source  # noqa: PLC0415
    from experiments.lifecycle.changes import create_experiment, start_experiment  # noqa: PLC0415
    from experiments.metrics.changes import create_metric  # noqa: PLC0415
    from experiments.results.refresh import bring_up_to_date  # noqa: PLC0415

    now = timezone.now()
    writer: dict[str, Any] = {"actor": Actor("benchmark", Source.COMMAND), "now": now}
    for key, values in METRICS.items():
        create_metric(key=key, **values, **writer)
    variants = [{"key": key, "weight": 1} for key in ("control", "blue", "green")]
    whose = {"key": EXPERIMENT, "environment": Environment.objects.default(), **writer}
    create_experiment(variants=variants, metrics=list(METRICS), **whose)
    experiment = start_experiment(started_at=now - timedelta(days=7), **whose)
    run(_EXPOSURE, experiment=experiment.pk)
    bring_up_to_date(experiment, now)
    call_command("maintain", verbosity=0, stdout=StringIO())  # which computes the series of the days before
    run("VACUUM (ANALYZE)")
    client = Client()
    client.force_login(User.objects.create_superuser("ada"))
    name = settings.SESSION_COOKIE_NAME
    page = reverse("admin:experiments_experiment_results", args=[experiment.pk])
    print(json.dumps({"page": page, "cookie": f"{name}={client.cookies[name].value}"}))


if __name__ == "__main__":
    django.setup()
    main()
