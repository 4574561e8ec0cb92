"""The process that `bench_monitoring` times: it prints the CPU time of an evaluation, with metrics and without, by
round.

Run as `python -m tests.benchmarks.monitoring 400 100` with the settings of a database that may be filled.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import django
from django.core.management import call_command

from tests.benchmarks.in_process import cpu_seconds_of

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
BODY = json.dumps({"userId": "user-17", "attributes": {"country": "CH", "plan": "pro"}}).encode()


class Protocol:
    """Takes answers as granian does, and drops them."""

    status = 0

    def response_bytes(self, status: int, *_: Any) -> None:
        self.status = status


class Flag:
    value = 0


def main(rounds: int, times: int) -> None:
    from django.utils import timezone  # noqa: PLC0415 (models are there only after django.setup)

    from config.access.api_keys import create_key  # noqa: PLC0415
    from config.change_log.writing import Actor  # noqa: PLC0415
    from config.models import Environment, Scope, Source  # noqa: PLC0415
    from config.monitoring.counting import beat  # noqa: PLC0415
    from config.serving.gateway.gateway import Gateway  # noqa: PLC0415
    from config.serving.wsgi import application  # noqa: PLC0415
    from flags.changes import flag_changes  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    production = Environment.objects.default()
    writer: dict[str, Any] = {"actor": Actor("benchmark", Source.COMMAND), "now": timezone.now()}
    condition = {"attribute": "country", "operator": "in", "value": ["CH", "DE"]}
    rules = [{"type": "percentage", "percentage": 50, "conditions": [condition]}]
    flag_changes.create_flag(key="new-checkout", enabled=True, rules=rules, environment=production, **writer)
    _, secret = create_key(name="benchmark", environment=production, scope=Scope.CLIENT, **writer)
    gateway, protocol = Gateway(application, Flag()), Protocol()
    scope = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/v1/flags/new-checkout/evaluate",
        "QUERY_STRING": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "127.0.0.1",
        "HTTP_AUTHORIZATION": f"Bearer {secret}",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(BODY)),
        "wsgi.url_scheme": "http",
    }

    def evaluate() -> None:
        for _ in range(times):
            gateway(protocol, {**scope, "wsgi.input": io.BytesIO(BODY)})
        beat()  # which counts what has waited

    evaluate()  # a warm-up
    assert protocol.status == 200
    found = []
    for _ in range(rounds):
        counted = cpu_seconds_of(evaluate)
        with_metrics = switch_off()
        found.append((counted / times * 1e6, cpu_seconds_of(evaluate) / times * 1e6))
        with_metrics()
    print(json.dumps(found))


def switch_off() -> Callable[[], None]:
    """Have nothing counted from now on, and return what undoes that."""
    from config.monitoring import metrics  # noqa: PLC0415
    from config.serving.gateway.exchange import Exchange  # noqa: PLC0415

    add, count = metrics.fresh_evaluations.add, Exchange._count
    metrics.fresh_evaluations.add = Exchange._count = _do_nothing  # type: ignore[method-assign]

    def undo() -> None:
        metrics.fresh_evaluations.add, Exchange._count = add, count  # type: ignore[method-assign]

    return undo


def _do_nothing(*_: object) -> None:
    pass


if __name__ == "__main__":
    django.setup()
    main(*map(int, sys.argv[1:]))
