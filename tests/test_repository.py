"""The checks of the source files report violations, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repository import CHECKSUMS, MOST_LINES, find_changed_migrations, find_long_files, freeze_migrations


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with two migrations, whose checksums are written."""
    migrations = tmp_path / "flags" / "migrations"
    migrations.mkdir(parents=True)
    for name in ("__init__", "0001_initial", "0002_more"):
        (migrations / f"{name}.py").write_text(f"# {name}\n")
    (tmp_path / CHECKSUMS).parent.mkdir()
    freeze_migrations(tmp_path)
    return tmp_path


def test_long_files__at_the_limit_or_foreign__are_no_complaint(root: Path) -> None:
    (root / "long.py").write_text("pass\n" * MOST_LINES)
    for folder in (".venv", "flags/node_modules"):
        (root / folder).mkdir()
        (root / folder / "long.py").write_text("pass\n" * (MOST_LINES + 1))
    assert list(find_long_files(root)) == []


def test_long_files__over_the_limit__are_named(root: Path) -> None:
    (root / "flags" / "long.py").write_text("pass\n" * (MOST_LINES + 1))
    [complaint] = find_long_files(root)
    assert complaint.startswith("flags/long.py has 601 lines")


def test_migrations__as_they_were__are_no_complaint(root: Path) -> None:
    assert list(find_changed_migrations(root)) == []


def test_migrations__edited_removed_or_added__are_named(root: Path) -> None:
    migrations = root / "flags" / "migrations"
    (migrations / "0001_initial.py").write_text("# other\n")
    (migrations / "0002_more.py").rename(migrations / "0003_later.py")
    complaints = list(find_changed_migrations(root))
    assert [complaint.partition(";")[0] for complaint in complaints] == [
        "flags/migrations/0001_initial.py was edited, but databases have applied it",
        "flags/migrations/0002_more.py was removed, but databases have applied it",
        "flags/migrations/0003_later.py has no checksum yet",
    ]


def test_migrations__without_checksums__are_a_complaint(root: Path) -> None:
    (root / CHECKSUMS).unlink()
    [complaint] = find_changed_migrations(root)
    assert "make freeze-migrations" in complaint
