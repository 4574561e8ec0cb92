"""The flags of every environment as this process evaluates them, compiled from the documents of the change log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from config.documents import Document
from config.models import Change
from config.snapshot import Table
from flags.changes import KIND
from flags.engine.parsing import compile_flag
from flags.engine.types import Flag
from flags.models import Flag as FlagRow
from flags.models import FlagState

Compiled = Mapping[str, Mapping[str, Flag]]
"""Flags by environment key and flag key. Under the empty key stands every flag as it is where it has no state: off."""


def find(environment_key: str, flag_key: str) -> Flag | None:
    """The compiled flag, or None where no flag has this key."""
    found = compiled.state.get(environment_key, {}).get(flag_key)
    if found is None and flag_key in compiled.state[""]:
        return compiled.state[""][flag_key]
    return found


def _load() -> Compiled:
    flags: dict[str, dict[str, Flag]] = defaultdict(dict)
    for key in FlagRow.objects.values_list("key", flat=True):
        flags[""][key] = compile_flag({"key": key, "enabled": False})
    for state in FlagState.objects.select_related("flag", "environment").iterator():
        key = state.flag.key
        flags[state.environment.key][key] = compile_flag({"key": key, "enabled": state.enabled, "rules": state.rules})
    return {"": {}, **flags}


def _apply(flags: Compiled, change: Change) -> Compiled:
    changed = {name: dict(by_key) for name, by_key in flags.items()}
    for by_key in changed.values():
        by_key.pop(change.key, None)
    if change.after is not None:
        for name, flag in _compile(change.after).items():
            changed.setdefault(name, {})[change.key] = flag
    return changed


def _compile(document: Document) -> Mapping[str, Flag]:
    key = document["key"]
    states = {name: compile_flag({"key": key, **state}) for name, state in document["states"].items()}
    return {"": compile_flag({"key": key, "enabled": False}), **states}


compiled: Table[Compiled] = Table(KIND, load=_load, apply=_apply)
