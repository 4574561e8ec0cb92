"""The page for newcomers to the code names files that exist, and every room."""

from __future__ import annotations

import re

from config.guide.pages import FOLDER
from tests.system.server import ROOT

PAGE = (FOLDER / "code-tour.md").read_text()
WITHOUT_A_WORD = {"apps", "subscriptions", "urls"}
"""What every app or project of Django has, or what the page explains elsewhere."""


def test_paths__all__exist() -> None:
    paths = set(re.findall(r"`((?:config|events|flags|experiments)/[\w/.]+)`", PAGE))
    assert len(paths) > 40
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_rooms__of_the_table__are_all_packages_and_some_modules() -> None:
    for app in ("config", "events", "flags", "experiments"):
        [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `{app}` | `")]
        named = set(re.findall(r"`(\w+)`", row.split("|")[2]))
        packages = {file.parent.name for file in (ROOT / app).glob("*/__init__.py")} - {"migrations"}
        assert packages - WITHOUT_A_WORD <= named
        assert named - packages <= {file.stem for file in (ROOT / app).glob("*.py")}
