"""What is examined without the database: settings and the disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.core.checks import ERROR, WARNING, run_checks
from django.db import connection

from config.doctor.examinations import Finding, Options, error, ok, register, warning

_LITTLE, _TOO_LITTLE = 2**30, 2**27
"""Free bytes, below which an operator should act soon, or now."""
_OTHERS = 0o077


def examine_settings(_: Options) -> Iterator[Finding]:
    """Yield what the system checks of Django and of the service say, with those for deployment unless DEBUG is on."""
    messages = [
        message
        for message in run_checks(include_deployment_checks=not settings.DEBUG)
        if message.level >= WARNING and not message.is_silenced()
    ]
    for message in messages:
        find = error if message.level >= ERROR else warning
        yield find(
            message.msg, message.hint or "Change it in .env or in the environment; the guide lists all settings."
        )
    if settings.DEBUG:
        remedy = "Remove DEBUG from .env before others can reach this machine."
        yield warning("DEBUG is on: insecure settings are accepted, and error pages show details.", remedy)
    if not messages:
        yield ok("All settings are acceptable.")


def examine_disk(_: Options) -> Iterator[Finding]:
    """Yield how much room the folders have that the service writes to, and whether others can read them."""
    folders = {"RUNTIME_DIR": settings.RUNTIME_DIR}
    if connection.vendor == "sqlite" and not connection.is_in_memory_db():  # type: ignore[attr-defined]  # of SQLite
        folders["the folder of the database"] = Path(connection.settings_dict["NAME"]).parent
    for name, folder in folders.items():
        yield _examine_space(name, folder)
    if settings.RUNTIME_DIR.stat().st_mode & _OTHERS:
        remedy = f"Run `chmod 700 {settings.RUNTIME_DIR}`."
        yield warning("Other users of this machine can look into RUNTIME_DIR.", remedy)


def _examine_space(name: str, folder: Path) -> Finding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as problem:
        return error(f"{name} ({folder}) cannot be examined: {problem.strerror}.", "Make this folder, or name another.")
    words = f"{name} ({folder}) has {free / 2**30:,.1f} GiB free."
    if free < _TOO_LITTLE:
        return error(words, "Make room now: a full disk stops all writes.")
    return ok(words) if free >= _LITTLE else warning(words, "Make room soon, or use a larger disk.")


register("settings", examine_settings)
register("disk", examine_disk)
