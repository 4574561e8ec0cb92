"""Checks of the source files themselves: `python -m tests.repository`.

No Python file is too long, and no migration has changed since its checksum was written to `migrations.sha256`.
`--freeze-migrations` writes the checksums. Run it after adding a migration, and never to hide an edit of an old one:
a database that has applied the old one would differ from a new database.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHECKSUMS = Path("tests/migrations.sha256")
MOST_LINES = 600
_FOREIGN = {".venv", "node_modules", "var"}


def main() -> int:
    if "--freeze-migrations" in sys.argv[1:]:
        freeze_migrations(ROOT)
        return 0
    complaints = [*find_long_files(ROOT), *find_changed_migrations(ROOT)]
    print(*complaints, sep="\n", end="\n" if complaints else "")
    return int(bool(complaints))


def find_long_files(root: Path) -> Iterator[str]:
    """Yield a complaint for each Python file of more than 600 lines, migrations included."""
    for file in _python_files(root):
        lines = len((root / file).read_text().splitlines())
        if lines > MOST_LINES:
            yield f"{file} has {lines} lines; split it: {MOST_LINES} is the limit."


def find_changed_migrations(root: Path) -> Iterator[str]:
    """Yield a complaint for each migration that was edited, removed, or added without its checksum."""
    if not (root / CHECKSUMS).exists():
        yield f"{CHECKSUMS} does not exist; write it with `make freeze-migrations`."
        return
    lines = (root / CHECKSUMS).read_text().splitlines()
    frozen = {file: checksum for checksum, file in (line.split("  ", maxsplit=1) for line in lines)}
    current = checksums(root)
    for file in sorted(frozen.keys() | current.keys()):
        if file not in frozen:
            yield f"{file} has no checksum yet; add it with `make freeze-migrations`."
        elif file not in current:
            yield f"{file} was removed, but databases have applied it; restore it."
        elif frozen[file] != current[file]:
            yield f"{file} was edited, but databases have applied it; restore it and write a new migration."


def freeze_migrations(root: Path) -> None:
    """Write the checksums in the format of `sha256sum`."""
    lines = [f"{checksum}  {file}\n" for file, checksum in checksums(root).items()]
    (root / CHECKSUMS).write_text("".join(lines))


def checksums(root: Path) -> dict[str, str]:
    """Return the SHA-256 of each migration, by its path in POSIX form."""
    return {
        file.as_posix(): hashlib.sha256((root / file).read_bytes()).hexdigest()
        for file in _python_files(root)
        if file.parent.name == "migrations" and file.name != "__init__.py"
    }


def _python_files(root: Path) -> list[Path]:
    files = (file.relative_to(root) for file in root.rglob("*.py"))
    return sorted(file for file in files if _FOREIGN.isdisjoint(file.parts))


if __name__ == "__main__":
    sys.exit(main())
