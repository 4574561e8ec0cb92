"""Make a database ready for a server: migrate it and print, as JSON, a key for each scope in each
environment.

Run as `python -m tests.system.prepare` with the environment variables of that server.
"""

from __future__ import annotations

import json
import os

import django
from django.core.management import call_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")


def main() -> None:
    from django.utils import timezone  # noqa: PLC0415 (models are there only after django.setup)

    from config.access.api_keys import create_key  # noqa: PLC0415
    from config.change_log.writing import Actor  # noqa: PLC0415
    from config.models import Environment, Scope, Source  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    actor = Actor("test", Source.COMMAND)
    keys: dict[str, dict[str, str]] = {}
    for environment in Environment.objects.all():
        for scope in Scope:
            name = f"{scope.value} of {environment.key}"
            common = scope == Scope.MANAGE
            values = {"name": name, "environment": environment, "scope": scope, "common": common}
            _, secret = create_key(**values, actor=actor, now=timezone.now())
            keys.setdefault(environment.key, {})[scope.value] = secret
    print(json.dumps(keys))  # noqa: T201 (the output of the script)


if __name__ == "__main__":
    django.setup()
    main()
