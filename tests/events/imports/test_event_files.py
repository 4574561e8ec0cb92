"""`manage.py import_events`: what it stores and reports, and that a second import changes nothing."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command

from config.models import Environment
from events.imports import importing
from events.models import Event, EventCount
from tests.conftest import NOON
from tests.events.imports.importing import pipe, run, write
from tests.factories import EventFactory

pytestmark = pytest.mark.django_db

BEFORE = "2026-01-01T00:00:00Z"
ID = "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59"


def line(**values: Any) -> str:
    return json.dumps({"event": "buy", "userId": "u", "timestamp": BEFORE, **values})


def stored() -> list[tuple[str, str, str, dict[str, Any]]]:
    rows = Event.objects.order_by("timestamp", "user_id", "name")
    return [(row.name, row.user_id, row.timestamp.isoformat(), row.properties) for row in rows]


def test_import__table__stores_events_counts_and_all(tmp_path: Path, production: Environment) -> None:
    file = write(
        tmp_path,
        "events.csv",
        "event,userId,timestamp,properties.revenue,properties.currency",
        "buy,u,2026-01-01T01:00:00+01:00,19.99,EUR",
        "look,v,2026-01-02,,",
    )
    assert run("import_events", file)[0] == "Imported 2 events; 0 were already stored.\n"
    assert stored() == [
        ("buy", "u", "2026-01-01T00:00:00+00:00", {"revenue": 19.99, "currency": "EUR"}),
        ("look", "v", "2026-01-02T00:00:00+00:00", {}),
    ]
    assert {each.received_at for each in Event.objects.all()} == {NOON}
    assert sum(each.count for each in EventCount.objects.filter(environment=production)) == 2


def test_import__same_file_again__changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "_CHUNK_SIZE", 3)
    lines = [line(), line(), line(properties={"a": 1, "b": 2}), line(properties={"b": 2, "a": 1}), line(id=ID)]
    file = write(tmp_path, "events.ndjson", *lines)
    assert run("import_events", file)[0] == "Imported 5 events; 0 were already stored.\n"
    ids = set(Event.objects.values_list("pk", flat=True))
    again = run("import_events", file, at=NOON + timedelta(days=1))[0]
    assert again == "Imported 0 events; 5 were already stored.\n"
    assert set(Event.objects.values_list("pk", flat=True)) == ids


def test_import__after_a_break__stores_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "_CHUNK_SIZE", 2)
    lines = [line(), line(), line(), line(userId="v")]
    run("import_events", write(tmp_path, "first.ndjson", *lines[:2]))
    assert (
        run("import_events", write(tmp_path, "all.ndjson", *lines))[0] == "Imported 2 events; 2 were already stored.\n"
    )


def test_import__table_and_lines_of_the_same_events__are_the_same(tmp_path: Path) -> None:
    run("import_events", write(tmp_path, "a.ndjson", line(properties={"n": 1})))
    table = write(tmp_path, "a.csv", "event,userId,timestamp,properties.n", "buy,u,2026-01-01 01:00+01:00,1")
    assert run("import_events", table)[0] == "Imported 0 events; 1 was already stored.\n"


def test_import__same_events_elsewhere__are_others(tmp_path: Path, staging: Environment) -> None:
    file = write(tmp_path, "a.ndjson", line())
    run("import_events", file)
    assert run("import_events", file, "--environment", "staging")[0] == "Imported 1 event; 0 were already stored.\n"
    assert Event.objects.filter(environment=staging).count() == 1


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_import__export_of_events__brings_them_back(tmp_path: Path, form: str) -> None:
    EventFactory(purchase=True)
    EventFactory(properties={"deep": {"er": [1, None]}})
    before, file = stored(), str(tmp_path / f"events.{form}")
    call_command("export_events", "--output", file)
    Event.objects.all().delete()
    run("import_events", file)
    assert stored() == before


def test_import__bad_lines__stop_it_before_anything_is_written(tmp_path: Path) -> None:
    bad = ["{", line(userId=""), '{"event":"buy","userId":"u"}', line(properties={"revenue": "1"}), "[]"]
    file = write(tmp_path, "events.ndjson", line(), *bad, *["{}"] * 30)
    with pytest.raises(CommandError) as refusal:
        run("import_events", file)
    lines = str(refusal.value).splitlines()
    assert lines[0].startswith("line 2: It is not valid JSON (")
    assert lines[1:4] == [
        "line 3: userId: Must not be empty.",
        "line 4: timestamp: This field is required in a file, such as 2026-01-31T12:00:00Z.",
        "line 5: properties.revenue: Must be a number, such as 19.99.",
    ]
    assert (len(lines), lines[-2:]) == (22, ["and 15 more", "Nothing was imported."])
    assert stored() == []


def test_import__skipping_invalid_lines__imports_the_others(tmp_path: Path) -> None:
    file = write(tmp_path, "events.ndjson", "{", line(), "{}", line(userId="v"))
    out, err = run("import_events", file, "--skip-invalid")
    assert out == "Imported 2 events; 0 were already stored.\n"
    assert [line.partition(":")[0] for line in err.splitlines()] == ["skipped line 1", "skipped line 3"]


def test_import__quote_that_does_not_close__refuses_the_file_whatever_is_to_be_skipped(tmp_path: Path) -> None:
    rows = [f"buy,{user},{BEFORE}" for user in ("u", '"v', *"wxyz")]
    file = write(tmp_path, "events.csv", "event,userId,timestamp", *rows)
    with pytest.raises(CommandError) as refusal:
        run("import_events", file, "--skip-invalid")
    assert str(refusal.value).startswith(f"{file}: The row in line 3 runs on to line 7 and cannot be read (")
    assert stored() == []


def test_import__row_of_several_lines_that_is_skipped__is_reported_with_all_of_them(tmp_path: Path) -> None:
    rows = [f'buy,"a\nb",{BEFORE}', 'buy,u,"a\nb"', f"buy,w,{BEFORE}"]
    file = write(tmp_path, "events.csv", "event,userId,timestamp", *rows)
    out, err = run("import_events", file, "--skip-invalid")
    assert out == "Imported 2 events; 0 were already stored.\n"
    assert [line.partition(":")[0] for line in err.splitlines()] == ["skipped lines 4 to 5"]


@pytest.mark.one_server("an id belongs to one user on Citus")
def test_import__id_of_another_event__is_reported_by_its_line(tmp_path: Path) -> None:
    EventFactory(id=UUID(ID), name="look")
    file = write(tmp_path, "events.ndjson", line(), line(id=ID))
    with pytest.raises(CommandError) as refusal:
        run("import_events", file)
    assert str(refusal.value).splitlines() == [
        "These were not imported:",
        "line 2: id: Another event already has this id; use a new one.",
    ]
    assert Event.objects.count() == 2


def test_import__stdin__is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, line())
    assert run("import_events", "-")[0] == "Imported 1 event; 0 were already stored.\n"


def test_import__unacceptable__is_refused_in_one_line(subtests: pytest.Subtests, tmp_path: Path) -> None:
    empty = write(tmp_path, "empty.csv")
    for arguments, message in [
        (("/nowhere/a.csv",), "/nowhere/a.csv: It cannot be read: No such file or directory."),
        (("{empty}",), "It is empty; its first line must name the columns."),
        (("{empty}", "--environment", "moon"), "Unknown environment 'moon'"),
    ]:
        with subtests.test(arguments=arguments):
            with pytest.raises(CommandError) as refusal:
                run("import_events", *(argument.format(empty=empty) for argument in arguments))
            assert message in str(refusal.value)
            assert "\n" not in str(refusal.value)
