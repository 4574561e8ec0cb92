"""The wheel of the Python client: its own modules, and those of the engine.

Source: the binary distribution format of the Python Packaging User Guide, version 1.0.
"""

from __future__ import annotations

import csv
import io
import tomllib
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = PROJECT / "flags" / "clients" / "python"
PACKAGE = "halyard_openfeature"
_FIRST_MOMENT = (1980, 1, 1, 0, 0, 0)  # the earliest time in a ZIP file
_MODE = 0o644 << 16


def wheel() -> tuple[str, bytes]:
    """Return the name and the content of the wheel. Its version ends with a hash of the content."""
    modules = _modules()
    version = f"{project_version()}+h{_digest({**modules, 'METADATA': _metadata('')})}"
    info = f"{PACKAGE}-{version}.dist-info"
    files = {
        **modules,
        f"{info}/METADATA": _metadata(version),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: halyard\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/licenses/LICENSE": (PROJECT / "LICENSE").read_bytes(),
    }
    return f"{PACKAGE}-{version}-py3-none-any.whl", _zip({**files, f"{info}/RECORD": _record(files, f"{info}/RECORD")})


def project_version() -> str:
    return str(_toml(PROJECT / "pyproject.toml")["version"])


def _modules() -> dict[str, bytes]:
    """Return the files of the package by their names in the wheel. `engine` is a link to the service's engine."""
    folder = SOURCES / PACKAGE
    paths = [folder / "py.typed", *folder.glob("*.py"), *(folder / "engine").glob("*.py")]
    return {path.relative_to(SOURCES).as_posix(): path.read_bytes() for path in sorted(paths)}


def _metadata(version: str) -> bytes:
    project = _toml(SOURCES / "pyproject.toml")
    headers = [
        ("Metadata-Version", "2.1"),
        ("Name", project["name"]),
        ("Version", version),
        ("Summary", project["description"]),
        ("License", project["license"]),
        ("Requires-Python", project["requires-python"]),
        *(("Requires-Dist", dependency) for dependency in project["dependencies"]),
        ("Description-Content-Type", "text/markdown"),
    ]
    lines = "".join(f"{name}: {value}\n" for name, value in headers)
    return f"{lines}\n{(SOURCES / project['readme']).read_text(encoding='utf-8')}".encode()


def _toml(path: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    return project


def _digest(files: Mapping[str, bytes]) -> str:
    digest = sha256()
    for name, content in files.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:8]


def _record(files: Mapping[str, bytes], own_name: str) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for name, content in files.items():
        digest = urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(content)])
    rows.writerow([own_name, "", ""])
    return text.getvalue().encode()


def _zip(files: Mapping[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, _FIRST_MOMENT)
            entry.external_attr = _MODE
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return content.getvalue()
