"""Files and flags for tests of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.access.environments import create_environment
from config.models import Environment
from flags.changes.flag_changes import archive_flag, create_flag, update_flag
from flags.changes.segment_changes import create_segment
from tests.flags.changes.writing import EVERYTHING, HALF
from tests.flags.files.commands import WRITE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def file(folder: Path) -> Any:
    """Write a file of flags and segments and return its path."""

    def write(flags: list[Any] | None = None, segments: list[Any] | None = None, name: str = "flags.json") -> str:
        path = folder / name
        content = {"version": 1, "segments": segments or [], "flags": flags or []}
        path.write_text(json.dumps(content) if name.endswith("json") else yaml.safe_dump(content))
        return str(path)

    return write


@pytest.fixture
def everything(production: Environment, staging: Environment) -> None:
    """Flags and segments that use every property."""
    where = {"environment": production, **WRITE}
    create_segment(key="inner", user_ids=["u", "007"], **WRITE)
    inside = [{"operator": "inSegment", "value": "inner"}]
    create_segment(key="outer", description="Some\nlines\n", conditions=inside, **WRITE)
    create_segment(key="unused", **WRITE)
    create_flag(key="base", enabled=True, rules=[{"type": "segment", "segment": "outer"}], **where)
    create_flag(
        key="full", description="yes", enabled=True, rules=[{**HALF[0], "variant": "red"}], **EVERYTHING, **where
    )
    update_flag(key="full", environment=staging, changes={"enabled": True, "rules": []}, **WRITE)
    create_flag(key="old", enabled=True, **where)
    archive_flag(key="old", **where)
    create_environment(key="a.trial", name="Younger than all flags", **WRITE)
