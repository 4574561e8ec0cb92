"""The process that `bench_snapshot` times: it prints the CPU seconds of a build and of following one change.

Run as `python -m tests.benchmarks.snapshot 5000` with the settings of a database that may be filled.
"""

from __future__ import annotations

import json
import os
import sys
from statistics import median

import django
from django.core.management import call_command

from tests.benchmarks.in_process import cpu_seconds_of

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
BUILDS, CHANGES = 5, 50


def main(count: int) -> None:
    from django.utils import timezone  # noqa: PLC0415 (models are there only after django.setup)

    from config import snapshot  # noqa: PLC0415
    from config.change_log.writing import Actor  # noqa: PLC0415
    from config.models import Environment, Source  # noqa: PLC0415
    from flags.changes import flag_changes  # noqa: PLC0415
    from flags.snapshot import configuration  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    production = Environment.objects.default()
    writer = {"environment": production, "actor": Actor("benchmark", Source.COMMAND), "now": timezone.now()}
    condition = {"attribute": "country", "operator": "in", "value": ["CH", "DE"]}
    rules = [{"type": "percentage", "percentage": 50, "conditions": [condition]}]
    for at in range(count):
        flag_changes.create_flag(key=f"flag-{at}", enabled=True, rules=rules, **writer)

    def build() -> None:
        snapshot.reset()
        snapshot.refresh()

    builds = [cpu_seconds_of(build) for _ in range(BUILDS)]
    follows = []
    for at in range(CHANGES):
        key = f"flag-{at}"
        flag_changes.update_flag(key=key, changes={"enabled": False}, **writer)
        follows.append(cpu_seconds_of(snapshot.refresh))
        assert not configuration(production.key).flags[key].enabled
    print(json.dumps([median(builds), median(follows)]))


if __name__ == "__main__":
    django.setup()
    main(int(sys.argv[1]))
