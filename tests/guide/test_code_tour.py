"""The page for newcomers to the code names files that exist, and every room."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from config.guide.pages import FOLDER
from tests.system.server import ROOT

PAGE = (FOLDER / "code-tour.md").read_text()
CONTRACTS: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
WITHOUT_A_WORD = {"apps", "subscriptions", "urls"}
"""What every app or project of Django has, or what the page explains elsewhere."""


def test_paths__all__exist() -> None:
    paths = set(re.findall(r"`((?:config|events|flags|experiments)/[\w/.]+)`", PAGE))
    assert len(paths) > 40
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("app", ["config", "events", "flags", "experiments"])
def test_rooms__of_the_table__are_packages_in_the_order_of_the_contract(app: str) -> None:
    [contract] = [contract for contract in CONTRACTS if contract.get("containers") == [app]]
    ranks = {
        room: rank for rank, layer in enumerate(reversed(contract["layers"])) for room in re.findall(r"\w+", layer)
    }
    [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `{app}` | `")]
    named = re.findall(r"`(\w+)`", row.split("|")[2])
    assert [ranks[room] for room in named] == sorted(ranks[room] for room in named)
    packages = {file.parent.name for file in (ROOT / app).glob("*/__init__.py")} - {"migrations"}
    assert packages - WITHOUT_A_WORD <= set(named)
