"""The packages for npm and the module for pages are complete, the same each time, and need nothing else."""

from __future__ import annotations

import io
import json
import re
import tarfile
import tomllib
from typing import Any

import pytest

from flags.clients import npm
from flags.clients.npm import SOURCES, browser_module, tarballs

ROOT = SOURCES.parents[2]
_imports = re.compile(r'^(?:import|export) [^;]*? from "(\.[^"]+)";', re.MULTILINE)


def contents(tarball: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(tarball)) as archive:
        opened = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in opened.items() if file}


def about(files: dict[str, bytes]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(files["package/package.json"])
    return document


@pytest.fixture(params=[name for name, _ in tarballs()])
def files(request: pytest.FixtureRequest) -> dict[str, bytes]:
    return contents(dict(tarballs())[request.param])


def test_tarballs__made_again__are_the_same_bytes() -> None:
    assert list(tarballs()) == list(tarballs())
    assert browser_module() == browser_module()


def test_tarball__name__is_that_of_the_package_and_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert [name for name, _ in tarballs()] == [f"halyard-server-{version}.tgz", f"halyard-web-{version}.tgz"]


def test_tarball__files__have_license_readme_and_all_that_is_exported(files: dict[str, bytes]) -> None:
    assert files["package/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    assert files["package/README.md"]
    for exported in about(files)["exports"].values():
        assert {f"package/{exported[kind][2:]}" for kind in ("types", "default")} <= files.keys()


def test_tarball__modules__import_only_what_is_in_it(files: dict[str, bytes]) -> None:
    for name, content in files.items():
        folder = name.rpartition("/")[0]
        for path in _imports.findall(content.decode()):
            assert _joined(folder, path) in files, (name, path)


def _joined(folder: str, path: str) -> str:
    parts = folder.split("/")
    for part in path.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def test_browser_module__content__imports_nothing_and_exports_the_client_alone() -> None:
    name, content = browser_module()
    lines = content.decode().splitlines()
    assert name.endswith(".mjs")
    assert [line for line in lines if line.startswith("import ")] == []
    assert [line for line in lines if line.startswith("export ")] == ["export function createClient(options) {"]


def test_browser_module__texts_with_slashes__are_no_comments(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = tmp_path / "client.mjs"
    entry.write_text('// gone\n/** gone\n * too */\nconst a = "http://x"; // gone\n  const b = "/** kept */";\n')
    monkeypatch.setattr(npm, "_ENTRY", entry)
    assert browser_module()[1].decode() == 'const a = "http://x";\nconst b = "/** kept */";\n'
