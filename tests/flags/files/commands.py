"""Commands as they are run in a terminal: their output and their refusals."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from config.models import Change
from flags.changes.flag_changes import flag_as_json
from flags.models import Flag
from tests.conftest import ACTOR, NOON

WRITE: dict[str, Any] = {"actor": ACTOR, "now": NOON}
ON: dict[str, Any] = {"enabled": True, "rules": []}
OFF: dict[str, Any] = {"enabled": False, "rules": []}


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def refused(*arguments: str) -> list[str]:
    """Return what a refused command says, after checking that nothing was written."""
    before = revision()
    with pytest.raises(CommandError) as error:
        run(*arguments)
    assert revision() == before
    return str(error.value).splitlines()


def revision() -> int:
    return Change.objects.latest_revision()


def states(key: str) -> dict[str, Any]:
    found: dict[str, Any] = flag_as_json(Flag.objects.get(key=key))["states"]
    return found
