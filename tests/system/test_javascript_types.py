"""The types of Halyard's packages for JavaScript, by the compiler of TypeScript in applications that use them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.system.javascript.packages import FOLDER, install
from tests.system.openfeature.node import PACKAGES, node

pytestmark = [pytest.mark.system, pytest.mark.once]

_LANGUAGE = ("--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom,dom.iterable")
_OPTIONS = (*_LANGUAGE, "--typeRoots", str(PACKAGES / "@types"), "--types", "node")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("typed"))


def compile_application(name: str, folder: Path) -> tuple[int, str]:
    """Return the exit status and the output of the compiler for one of the applications in `types`."""
    shutil.copy(FOLDER / "types" / name, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    command = [node(), str(PACKAGES / "typescript" / "bin" / "tsc"), *_OPTIONS, name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_types__every_export_is_used_as_meant__are_accepted(folder: Path) -> None:
    assert compile_application("right.mts", folder) == (0, "")


def test_types__value_is_taken_for_another_type__are_refused(folder: Path) -> None:
    status, output = compile_application("wrong.mts", folder)
    assert status != 0
    [error] = output.splitlines()
    assert error.startswith("wrong.mts(5,7): error TS2322: Type 'string' is not assignable to type 'number'")
