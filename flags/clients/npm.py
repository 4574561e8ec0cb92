"""Pack the clients in JavaScript without Node.js: tarballs for npm, and one module for pages without a build."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "javascript"
PACKAGES = ("server", "web")
_COMMON = "common"
_ENTRY = SOURCES / "web" / "client.mjs"
_AT_ROOT = ("package.json", "README.md")
_PACKED_AT = 499_162_500
"""The modification time of all files, in 1985, so that the same sources give the same bytes."""

_imports = re.compile(r'^import [^;]* from "(?P<path>\.[^"]+)";\n', re.MULTILINE)
_lone_comments = re.compile(r"^ *//[^\n]*\n|(?<=[;{,]) // [^\n]*$", re.MULTILINE)
_blocks = re.compile(r"^ */\*\*.*?\*/\n", re.MULTILINE | re.DOTALL)
_indents = re.compile(r"^ +|\n(?=\n)", re.MULTILINE)


def tarballs() -> Iterable[tuple[str, bytes]]:
    """Return the file name and the content of each package, as `npm pack` would write it."""
    return [_tarball(name) for name in PACKAGES]


def browser_module() -> tuple[str, bytes]:
    """Return the file name and the content of the client for pages as one module without imports."""
    return "halyard-web.mjs", "".join(_modules(_ENTRY, set())).encode()


def _tarball(name: str) -> tuple[str, bytes]:
    about = json.loads((SOURCES / name / "package.json").read_text(encoding="utf-8"))
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, file in sorted(_files(name)):
            entry = tarfile.TarInfo(f"package/{path}")
            content = file.read_bytes()
            entry.size, entry.mtime, entry.mode = len(content), _PACKED_AT, 0o644
            archive.addfile(entry, io.BytesIO(content))
    file_name = f"{about['name'].removeprefix('@').replace('/', '-')}-{about['version']}.tgz"
    return file_name, gzip.compress(written.getvalue(), mtime=0)


def _files(name: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of a package by their paths in it."""
    yield "LICENSE", SOURCES / "LICENSE"
    for file_name in _AT_ROOT:
        yield file_name, SOURCES / name / file_name
    for folder in (name, _COMMON):
        for file in (SOURCES / folder).glob("*.m[jt]s"):
            yield f"{folder}/{file.name}", file


def _modules(file: Path, done: set[Path]) -> Iterator[str]:
    """Yield a module after the modules that it imports, each once and without comments."""
    if file in done:
        return
    done.add(file)
    source = file.read_text(encoding="utf-8")
    for found in _imports.finditer(source):
        yield from _modules((file.parent / found["path"]).resolve(), done)
    source = _imports.sub("", source)
    if file != _ENTRY:  # only the client is for pages to import
        source = re.sub(r"^export ", "", source, flags=re.MULTILINE)
    yield _indents.sub("", _lone_comments.sub("", _blocks.sub("", source)))
