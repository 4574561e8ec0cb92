"""The engine and the Python client stand alone: the client contains the engine's modules under another name."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import halyard_openfeature

import flags.engine

ENGINE = Path(flags.engine.__file__).parent
CLIENT = Path(halyard_openfeature.__file__).parent
OF_ENGINE, OF_CLIENT = {"mmh3", "re2", "semver"}, {"httpx", "openfeature"}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the level of each import, which is 0 for an absolute one, and the package that it names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, (node.module or "").partition(".")[0]


def test_import__is_relative_or_of_a_package_that_the_client_needs() -> None:
    for path in sorted([*ENGINE.glob("*.py"), *CLIENT.glob("*.py")]):
        allowed = sys.stdlib_module_names | (OF_ENGINE if path.parent == ENGINE else OF_CLIENT)

        assert {name for level, name in imports(path) if level == 0} <= allowed, path
        assert {level for level, _ in imports(path)} <= {0, 1}, path


def test_client__engine__is_that_of_the_service() -> None:
    assert (CLIENT / "engine").resolve() == ENGINE.resolve()
