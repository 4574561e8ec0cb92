"""What operators look up in the guide is complete: settings, commands, maintenance, scopes, targets of make."""

from __future__ import annotations

import re

from django.core import management
from django.core.management import find_commands, load_command_class
from django.core.management.base import BaseCommand

from config.errors import ErrorCode
from config.management import maintenance
from config.models import Scope
from config.monitoring.exposition import described
from tests.guide.markdown import read_page, table_rows
from tests.system.server import ROOT


def test_settings__all_that_are_read__are_in_the_table() -> None:
    read = set(re.findall(r'\benv(?:\.\w+)?\(\s*"([A-Z_]+)"', (ROOT / "config/settings.py").read_text()))
    assert len(read) > 10
    assert {f"`{name}`" for name in read} == {row[0] for row in table_rows(read_page("settings.md"))}


def own_commands() -> dict[str, BaseCommand]:
    """Return the commands that Django does not have."""
    return {
        name: load_command_class(app, name)
        for app in ("config", "events", "flags", "experiments")
        for name in find_commands(str(ROOT / app / "management"))
        if name not in find_commands(management.__path__[0])
    }


def test_commands__own__are_in_the_table_with_every_option() -> None:
    common = {option for action in BaseCommand().create_parser("", "")._actions for option in action.option_strings}
    rows = {re.match(r"`(\w+)", row[0])[1]: " ".join(row) for row in table_rows(read_page("commands.md"))}
    commands = own_commands()
    assert rows.keys() == commands.keys()
    for name, command in commands.items():
        actions = command.create_parser("manage.py", name)._actions
        options = {option for action in actions for option in action.option_strings} - common
        assert set(re.findall(r"--[a-z-]+", rows[name])) == options, name


def test_maintenance__tasks__are_in_the_table_in_their_order() -> None:
    assert [row[0] for row in table_rows(read_page("maintenance.md"))] == [f"`{task}`" for task in maintenance.tasks]


def test_scopes__all__are_in_the_table() -> None:
    _, keys = read_page("environments-and-keys.md").split("\n## Keys\n")
    assert [row[0] for row in table_rows(keys)] == [f"`{scope.value}`" for scope in Scope]


def test_make__targets__are_in_the_table() -> None:
    [phony] = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    page = (ROOT / ".github" / "CONTRIBUTING.md").read_text()
    rows = [row[0] for row in table_rows(page) if row[0].startswith("`make ")]
    assert sorted(rows) == sorted(f"`make {target}`" for target in phony.split())


def test_metrics__all__are_in_the_table_with_kind_labels_and_meaning() -> None:
    rows = [row for row in table_rows(read_page("monitoring.md")) if re.match("`(halyard|process)_", row[0])]
    assert rows == [
        [f"`{name}`", kind + (": " + ", ".join(f"`{label}`" for label in labels) if labels else ""), meaning]
        for name, (kind, meaning, labels) in described().items()
    ]


def test_alerts__expressions__name_metrics_that_exist() -> None:
    section = read_page("monitoring.md").partition("These rules are a start for alerts:")[2].partition("## ")[0]
    named = re.findall(r"\bhalyard_\w+", section)
    assert len(named) > 5
    assert {*named} <= described().keys()


def test_troubleshooting__codes_and_metrics__exist() -> None:
    page = read_page("troubleshooting.md")
    codes = re.findall(r"^\| (\d+) `(\w+)` \|", page, re.MULTILINE)
    assert len(codes) > 4
    assert {*codes} <= {(str(code.status), code.value) for code in ErrorCode}
    metrics = re.findall(r"\bhalyard_\w+", page)
    assert metrics
    assert {*metrics} <= described().keys()


def test_troubleshooting__messages__are_in_the_code() -> None:
    of_others = {"System check identified some issues", "Too many open files"}  # Django's and the system's
    code = "".join(file.read_text() for file in (ROOT / "config").rglob("*.py"))
    messages = set(re.findall(r"`([A-Z][a-z]+ [\w ]+?)(?: \.\.\.)?`", read_page("troubleshooting.md")))
    assert of_others < messages
    for message in messages - of_others:
        pattern = re.sub(r"\b\d+\b", r"\\{\\w+\\}", message)
        assert re.search(pattern, code), message
