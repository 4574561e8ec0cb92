"""`manage.py export_events`: it writes the same as an export of the API."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from config.models import Environment
from events import exports
from tests.answers import data
from tests.events.admin.test_events import store


@pytest.fixture
def _events(production: Environment, staging: Environment) -> None:
    store(production, ("ada", "see"), ("bob", "see"), plan="pro", experimentId="button", variant="blue")
    store(production, ("ada", "buy"), plan="free", note="é 🙂")
    store(staging, ("cleo", "see"))


def users(text: bytes) -> list[str]:
    return [json.loads(line)["userId"] for line in text.splitlines()]


@pytest.mark.usefixtures("_events")
def test_export_events__with_filters__writes_what_the_api_finds(
    subtests: pytest.Subtests, api: Any, tmp_path: Path
) -> None:
    file = tmp_path / "events"
    for arguments, query in [
        ([], ""),
        (["--user", "ada"], "?userId=ada"),
        (["--event", "see"], "?event=see"),
        (["--experiment", "button", "--variant", "blue"], "?experimentId=button&variant=blue"),
        (["--user", "ada", "--property", "plan=pro"], "?userId=ada&properties.plan=pro"),
        (["--from", "2026-01-31T12:01:00Z"], "?from=2026-01-31T12:01:00Z"),
        (["--to", "2026-01-30"], "?to=2026-01-30"),
    ]:
        with subtests.test(arguments=arguments, query=query):
            call_command("export_events", *arguments, "--output", str(file))
            assert [json.loads(line) for line in file.read_bytes().splitlines()] == data(api.get(f"/v1/events{query}"))


@pytest.mark.usefixtures("_events")
def test_export_events__of_an_environment__writes_to_stdout_in_utf8(capsysbinary: Any) -> None:
    call_command("export_events", "--environment", "staging")
    assert users(capsysbinary.readouterr().out) == ["cleo"]
    call_command("export_events", "--event", "buy")
    assert "é 🙂".encode() in capsysbinary.readouterr().out


@pytest.mark.usefixtures("_events")
def test_export_events__form__is_the_one_named_or_that_of_the_file(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for name, arguments, is_csv in [
        ("e.csv", [], True), ("e.ndjson", [], False), ("e", [], False), ("e.txt", ["--format", "csv"], True),
    ]:  # fmt: skip
        with subtests.test(name=name, arguments=arguments):
            file = tmp_path / name
            call_command("export_events", *arguments, "--output", str(file))
            assert file.read_bytes().startswith(exports.FORMATS["csv"].head) == is_csv
            assert file.read_bytes().count(b"\n") == 3 + is_csv


def test_export_events__bad_option__is_refused_by_its_name(subtests: pytest.Subtests, db: None) -> None:
    for arguments, message in [
        (["--variant", "blue"], "--variant: Requires --experiment, too."),
        (["--property", "plan=pro"], "--property: Requires --event or --user, too."),
        (["--property", "plan"], "such as plan=pro"),
        (["--user", ""], "must not be empty"),
        (["--user", "\udcff"], "must be UTF-8"),
        (["--user", "u" * 201], "--user: "),
        (["--from", "then"], "--from: Must be a date, or a date and time"),
        (["--environment", "nowhere"], "Unknown environment"),
        (["--output", "/nowhere/e.csv"], "Cannot write /nowhere/e.csv"),
    ]:
        with subtests.test(arguments=arguments):
            with pytest.raises(CommandError) as refused:
                call_command("export_events", *arguments)
            assert message in str(refused.value)


@pytest.mark.usefixtures("_events")
def test_export_events__to_a_file_that_fails_on_the_way__leaves_what_was_there(
    tmp_path: Path, monkeypatch: Any
) -> None:
    file = tmp_path / "events.csv"
    with _failing_later(monkeypatch), pytest.raises(CommandError, match=r"events\.csv was not written: the conn"):
        call_command("export_events", "--output", str(file))
    assert list(tmp_path.iterdir()) == []
    file.write_text("the export before")
    with _failing_later(monkeypatch), pytest.raises(CommandError):
        call_command("export_events", "--output", str(file))
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("events.csv", "the export before")]


@pytest.mark.usefixtures("_events")
def test_export_events__to_stdout_that_fails_on_the_way__says_so_and_ends_torn(
    capsysbinary: Any, monkeypatch: Any
) -> None:
    with _failing_later(monkeypatch), pytest.raises(CommandError, match="the export is incomplete"):
        call_command("export_events", "--format", "csv")
    assert capsysbinary.readouterr().out.endswith(exports.FORMATS["csv"].broken_end)


@pytest.mark.usefixtures("_events")
def test_export_events__to_a_full_device__says_where_it_cannot_write(monkeypatch: Any) -> None:
    with pytest.raises(CommandError, match=r"^Cannot write /dev/full: No space left on device\.$"):
        call_command("export_events", "--output", "/dev/full")
    with Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=full))
        with pytest.raises(CommandError, match=r"^Cannot write to the standard output: No space left on device\.$"):
            call_command("export_events")


@pytest.mark.usefixtures("_events")
def test_export_events__to_a_link__replaces_the_file_behind_it(tmp_path: Path) -> None:
    file, link = tmp_path / "events", tmp_path / "link"
    file.write_text("the export before")
    link.symlink_to(file)
    call_command("export_events", "--output", str(link))
    assert link.is_symlink()
    assert sorted(users(file.read_bytes())) == ["ada", "ada", "bob"]


@contextmanager
def _failing_later(monkeypatch: Any) -> Iterator[None]:
    """Let the database fail after the first pages."""
    monkeypatch.setattr(exports, "PAGE_SIZE", 1)
    asked = iter(range(99))

    def fail_later(execute: Any, *arguments: Any) -> Any:
        if next(asked) == 3:
            raise OperationalError("the connection is lost")
        return execute(*arguments)

    with connection.execute_wrapper(fail_later):
        yield
