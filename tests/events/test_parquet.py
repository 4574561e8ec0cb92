"""Events in Parquet files, one for each day: complete, restartable, and written again while they may change."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command
from pyarrow import parquet

from events import exports
from events.models import Event
from tests.factories import EventFactory

pytestmark = pytest.mark.django_db

FIRST = datetime(2026, 1, 10, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _today() -> Any:
    with time_machine.travel(FIRST + timedelta(days=10, hours=1), tick=False):
        yield


def add(environment: Any, *days: float, **values: Any) -> None:
    for day in days:
        moment = FIRST + timedelta(days=day)
        EventFactory(environment=environment, timestamp=moment, received_at=moment, **values)


def export(folder: Path, *options: str) -> list[str]:
    out = StringIO()
    call_command("export_parquet", str(folder), *options, stdout=out)
    return out.getvalue().splitlines()


def read(folder: Path, day: str, environment: str = "production") -> list[dict[str, Any]]:
    return parquet.read_table(folder / f"environment={environment}/date={day}/events.parquet").to_pylist()


def test_export__events__are_in_the_file_of_their_day(production: Any, staging: Any, tmp_path: Path) -> None:
    properties = {"revenue": 9.5, "é": "🙂"}
    add(production, 0, 0.999999, user_id="ada", name="buy", properties=properties)
    add(production, 1)
    add(staging, 0)
    lines = export(tmp_path)
    assert lines[:3] == ["2026-01-10: 2 events", "2026-01-11: 1 events", "2026-01-12: 0 events"]
    assert len(lines) == 10
    first, _ = read(tmp_path, "2026-01-10")
    assert (first["event"], first["user_id"], first["timestamp"]) == ("buy", "ada", FIRST)
    assert json.loads(first["properties"]) == properties
    assert (first["experiment_id"], first["variant"]) == (None, None)


def test_export__events_of_today__wait_until_tomorrow(production: Any, tmp_path: Path) -> None:
    add(production, 9, 10)
    assert export(tmp_path) == ["2026-01-19: 1 events"]


def test_export__more_than_a_page__has_every_event_once(
    production: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "PARQUET_PAGE_SIZE", 2)
    add(production, *(0.1 for _ in range(3)), *(number / 100 for number in range(4)))
    export(tmp_path)
    ids = [row["id"] for row in read(tmp_path, "2026-01-10")]
    assert sorted(ids) == sorted(map(str, Event.objects.values_list("id", flat=True)))


def test_export__again__writes_only_what_is_missing_or_recent(production: Any, tmp_path: Path) -> None:
    add(production, 0)
    export(tmp_path)
    add(production, 1, 8)
    assert export(tmp_path, "--again", "2") == ["2026-01-18: 1 events", "2026-01-19: 0 events"]
    assert read(tmp_path, "2026-01-11") == []
    (tmp_path / "environment=production/date=2026-01-11/events.parquet").unlink()
    assert export(tmp_path, "--again", "0") == ["2026-01-11: 1 events"]


def test_export__interrupted__leaves_no_half_file_and_goes_on(
    production: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(production, 0, 1)
    with monkeypatch.context() as patch:
        patch.setattr(exports, "_parquet_cells", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            export(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert export(tmp_path)[0] == "2026-01-10: 1 events"


def test_export__without_the_package__names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(CommandError, match="needs the package pyarrow: run"):
        export(tmp_path)


def test_export__folder_that_is_a_file__is_refused_in_one_line(production: Any, tmp_path: Path) -> None:
    add(production, 0)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(CommandError, match="Not a directory"):
        export(file)
