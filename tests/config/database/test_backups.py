"""A copy of a database of SQLite, while others write to it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from config.database.backups import copy_sqlite

pytestmark = pytest.mark.once

ROWS = 1_000
"""Of ten kilobytes each, so that the copy takes several portions."""


def test_copy__others_write_after_each_portion__ends_and_is_of_one_moment(tmp_path: Path) -> None:
    steps: list[int] = []
    with closing(sqlite3.connect(tmp_path / "db")) as source, closing(sqlite3.connect(tmp_path / "db")) as other:
        source.execute("PRAGMA journal_mode = WAL")
        source.execute("CREATE TABLE kept (content)")
        source.execute(
            f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) "
            "INSERT INTO kept SELECT randomblob(10000) FROM n"
        )
        source.commit()

        def write(percent: int) -> None:
            steps.append(percent)
            assert len(steps) < 100, "the copy begins again and again"
            with other:
                other.execute("INSERT INTO kept VALUES ('later')")

        copy_sqlite(source, tmp_path / "copy", write)
        assert source.execute("SELECT count(*) FROM kept").fetchone() == (ROWS + len(steps),)
    assert len(steps) > 2
    assert sum(steps) == 100
    with closing(sqlite3.connect(tmp_path / "copy")) as copy:
        assert copy.execute("SELECT count(*) FROM kept").fetchone() == (ROWS,)
