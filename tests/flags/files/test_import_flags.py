"""Flags as code: what `import_flags` writes, refuses and leaves alone."""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command

from config import snapshot as system
from config.models import Change, Environment
from flags.changes.flag_changes import create_flag, flag_as_json, get_flag, update_flag
from flags.models import Flag, FlagState, Segment
from flags.snapshot import configuration
from tests.flags.changes.writing import HALF
from tests.flags.files.commands import OFF, ON, WRITE, refused, revision, run, states
from tests.guide.markdown import code_blocks, read_page

pytestmark = pytest.mark.django_db


def test_import__what_was_exported__changes_nothing(subtests: pytest.Subtests, everything: None, folder: Path) -> None:
    for name in ["flags.yaml", "flags.json"]:
        for environment in [[], ["--environment", "staging"]]:
            with subtests.test(name=name, environment=environment):
                path, before = str(folder / name), revision()
                run("export_flags", "--output", path, *environment)

                assert run("import_flags", path, *environment) == "nothing to change.\n"
                assert revision() == before


def test_import__written_for_somebody_who_cannot_read_it__is_no_failure(
    production: Environment, file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_flag(key="f", environment=production, **WRITE)
    path = file([{"key": "f", "owner": "Zoë", "environments": {"production": ON}}])
    shown = io.BytesIO()
    with io.TextIOWrapper(shown, encoding="ascii") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        call_command("import_flags", path)
        terminal.flush()
        assert b"production enabled: false \\u2192 true\n" in shown.getvalue()
    assert states("f")["production"] == ON


def test_import__into_an_empty_database__makes_the_same(everything: None, folder: Path) -> None:
    path, exported = str(folder / "flags.yaml"), run("export_flags")
    Path(path).write_text(exported)
    Flag.objects.all().delete()
    Segment.objects.all().delete()

    assert run("import_flags", path).endswith("3 segments created, 3 flags created.\n")
    assert run("export_flags") == exported
    system.reset()
    assert configuration("staging").flags["full"].enabled


def test_import__flag__becomes_exactly_what_the_file_says(everything: None, file: Any) -> None:
    printed_lines = run("import_flags", file([{"key": "full", "tags": ["new"], "environments": {"production": OFF}}]))

    assert flag_as_json(Flag.objects.get(key="full")) == {
        "id": str(Flag.objects.get(key="full").pk),
        "key": "full",
        "description": "",
        "tags": ["new"],
        "states": {"production": OFF, "staging": ON},
    }
    assert printed_lines.startswith("~ flag full\n")
    assert '    owner: "team-checkout" → nothing\n' in printed_lines
    assert "    production enabled: true → false\n" in printed_lines
    assert printed_lines.endswith("\n1 flag changed.\n")


def test_import__one_change__tells_all_environments_of_a_flag(
    everything: None, file: Any, staging: Environment
) -> None:
    before = revision()
    environments = {"production": OFF, "staging": {**ON, "rules": HALF}}
    run("import_flags", file([{"key": "base", "environments": environments}]), "--reason", "Spring")

    [change] = Change.objects.since(before)
    assert (change.kind, change.key, change.environment, change.reason) == ("flag", "base", "", "Spring")
    assert (change.before["states"]["production"]["enabled"], change.after["states"]) == (
        True,
        {"production": OFF, "staging": {**ON, "rules": HALF}},
    )
    assert get_flag("base", staging).version == change.revision


def test_import__each_flag__remembers_the_revision_of_its_own_change(production: Environment, file: Any) -> None:
    run("import_flags", file([{"key": key, "environments": {"production": ON}} for key in "cab"], [{"key": "s"}]))

    found = {change.key: change.revision for change in Change.objects.filter(kind__in=("flag", "segment"))}
    assert sorted(found, key=found.__getitem__) == ["s", "c", "a", "b"]
    assert {key: get_flag(key, production).version for key in "cab"} == {key: found[key] for key in "cab"}
    assert Segment.objects.get().version == found["s"]


def test_import__one_environment__writes_no_other(everything: None, file: Any) -> None:
    before, was = revision(), states("base")
    environments = {"production": OFF, "staging": ON}
    run("import_flags", file([{"key": "base", "environments": environments}]), "--environment", "staging")

    assert states("base") == {**was, "staging": ON}
    assert [each.environment for each in Change.objects.since(before)] == ["staging"]


def test_import__new_flag__has_no_state_where_the_file_names_none(production: Environment, file: Any) -> None:
    run("import_flags", file([{"key": "new", "environments": {"production": ON}}]))

    assert states("new") == {"production": ON}
    assert FlagState.objects.count() == 1


def test_import__segment__becomes_what_the_file_says(everything: None, file: Any) -> None:
    printed_lines = run("import_flags", file(segments=[{"key": "inner", "userIds": ["007", "v"]}, {"key": "unused"}]))

    assert Segment.objects.get(key="inner").user_ids == ["007", "v"]
    assert printed_lines == '~ segment inner\n    userIds: +"v", -"u"\n1 segment changed.\n'


def test_import__references__may_go_to_what_the_same_file_brings(production: Environment, file: Any) -> None:
    flags = [
        {"key": "first", "prerequisites": [{"flag": "second", "variants": ["a"]}]},
        {
            "key": "second",
            "type": "string",
            "variants": [{"key": "a", "value": "1"}],
            "environments": {"production": {"enabled": True, "rules": [{"type": "segment", "segment": "crowd"}]}},
        },
    ]
    segments = [
        {"key": "crowd", "conditions": [{"operator": "inSegment", "value": "later"}]},
        {"key": "later"},
    ]
    assert run("import_flags", file(flags, segments)).endswith("2 segments created, 2 flags created.\n")


def test_import__archived__is_put_aside_and_taken_back(production: Environment, file: Any) -> None:
    create_flag(key="a", environment=production, **WRITE)

    run("import_flags", file([{"key": "a", "archived": True}]))
    assert Flag.objects.get().archived_at is not None
    run("import_flags", file([{"key": "a"}]))
    assert Flag.objects.get().archived_at is None


def test_import__from_stdin__is_yaml_unless_named_otherwise(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(raw: bytes) -> None:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(raw)))

    send(b"version: 1\nflags:\n  - key: a\n")
    assert run("import_flags", "-").endswith("1 flag created.\n")
    send(b'{"version": 1, "flags": [{"key": "b"}]}')
    assert run("import_flags", "-", "--format", "json").endswith("1 flag created.\n")
    send(b"version: 1\nflags:\n  - key: a b\n")
    assert refused("import_flags", "-")[0].startswith("stdin, line 3: flags[0] (a b): key: ")


def test_import__dry_run__tells_everything_and_writes_nothing(everything: None, file: Any) -> None:
    before, exported = revision(), run("export_flags")
    path = file([{"key": "base", "environments": {"staging": {**ON, "rules": HALF}}}, {"key": "new"}], [{"key": "s"}])
    dry = run("import_flags", path, "--dry-run")

    assert (revision(), run("export_flags")) == (before, exported)
    assert (
        dry
        == "+ segment s\n~ flag base\n    "
        + "\n    ".join(
            [
                "staging enabled: false → true",
                'staging rules[0].type: "segment" → "percentage"',
                'staging rules[0].segment: "outer" → nothing',
                "staging rules[0].percentage: 50",
            ]
        )
        + "\n+ flag new\nDry run: 1 segment created, 1 flag changed, 1 flag created.\n"
    )
    assert f"Dry run: {run('import_flags', path).splitlines()[-1]}" == dry.splitlines()[-1]


def test_import__everything_wrong__is_reported_at_once_and_nothing_is_written(everything: None, file: Any) -> None:
    flags: list[Any] = [
        {"key": "new", "environments": {"moon": ON}},
        {"key": "broken", "prerequisites": [{"flag": "gone"}], "owner": 1},
        {"key": "blameless", "prerequisites": [{"flag": "broken"}]},
        {"key": "other", "environments": {"staging": {**ON, "rules": [{"type": "segment", "segment": "nobody"}]}}},
        {"key": "self", "prerequisites": [{"flag": "self"}]},
        {"key": "late", "prerequisites": [{"flag": "old"}]},
    ]
    path = file(flags, [{"key": "s", "conditions": [{"operator": "inSegment", "value": "nobody"}]}], "flags.yaml")
    *printed_lines, last = (re.sub(r"line \d+", "line", line) for line in refused("import_flags", path))

    assert last == "Nothing was changed."
    assert printed_lines == [
        "flags.yaml, line: flags[0] (new): environments.moon: No environment has this key; use one of: production, "
        "a.trial, staging.",
        "flags.yaml, line: flags[1] (broken): owner: Must be a string.",
        "flags.yaml, line: flags[3] (other): environments.staging.rules[0].segment: No segment has the key nobody; "
        "create it first.",
        "flags.yaml, line: flags[4] (self): prerequisites[0].flag: Would depend on itself: self → self; remove one of "
        "these references.",
        "flags.yaml, line: flags[5] (late): prerequisites[0].flag: The flag old is archived; restore it first.",
        "flags.yaml, line: segments[0] (s): conditions[0].value: No segment has the key nobody; create it first.",
    ]


def test_import__circle_of_flags__is_refused_for_each(production: Environment, file: Any) -> None:
    flags = [{"key": "a", "prerequisites": [{"flag": "b"}]}, {"key": "b", "prerequisites": [{"flag": "a"}]}]
    printed_lines = refused("import_flags", file(flags))

    assert [line.partition("prerequisites")[2] for line in printed_lines[:-1]] == [
        "[0].flag: Would depend on itself: a → b → a; remove one of these references.",
        "[0].flag: Would depend on itself: b → a → b; remove one of these references.",
    ]


def test_import__flag_that_needs_a_circle__is_not_blamed_for_it(production: Environment, file: Any) -> None:
    flags = [{"key": key, "prerequisites": [{"flag": needed}]} for key, needed in ("ab", "ba", "ca", "dc")]
    printed_lines = refused("import_flags", file(flags))

    assert [re.findall(r"\((\w)\)", line) for line in printed_lines[:-1]] == [["a"], ["b"]]


def test_import__chain_of_thousands__is_refused(production: Environment, file: Any) -> None:
    flags = [{"key": f"flag-{at}", "prerequisites": [{"flag": f"flag-{at + 1}"}]} for at in range(2000)]
    printed_lines = refused("import_flags", file([*flags, {"key": "flag-2000"}]))

    assert "Would make a chain of 20 flags, flag-0 → flag-1 → " in printed_lines[0]
    assert printed_lines[-2] == f"and {2000 - 100:,} more errors"


def test_import__chain_that_is_as_long_as_may_be__is_taken(production: Environment, file: Any) -> None:
    flags = [{"key": f"flag-{at}", "prerequisites": [{"flag": f"flag-{at + 1}"}]} for at in range(9)]

    assert run("import_flags", file([*flags, {"key": "flag-9"}])).endswith("10 flags created.\n")
    more = [{"key": "flag-9", "prerequisites": [{"flag": "flag-10"}]}, {"key": "flag-10"}]
    [printed_lines, _] = refused("import_flags", file(more))
    assert "flags[0] (flag-9): prerequisites[0].flag: Would make a chain of 11 flags" in printed_lines


def test_import__variant_that_something_needs__is_not_taken_away(production: Environment, file: Any) -> None:
    colours = [{"key": "blue", "value": "b"}, {"key": "red", "value": "r"}]
    where = {"environment": production, **WRITE}
    create_flag(key="a", type="string", variants=colours, rules=[{**HALF[0], "variant": "red"}], **where)
    create_flag(key="b", prerequisites=[{"flag": "a", "variants": ["red"]}], **where)
    flag = {"key": "a", "type": "string", "variants": colours[:1], "environments": {"production": OFF}}
    [printed_lines, _] = refused("import_flags", file([flag]))

    assert printed_lines == (
        "flags.json, line 1: flags[0] (a): variants: The new variants do not fit "
        "rules[0].variant in staging, the prerequisites of b; change that first."
    )
    both = [{**flag, "environments": {"production": OFF, "staging": OFF}}, {"key": "b"}]
    assert run("import_flags", file(both)).endswith("2 flags changed.\n")


def test_import__archived_flag_that_something_needs__is_refused(
    production: Environment, staging: Environment, file: Any
) -> None:
    create_flag(key="a", environment=production, **WRITE)
    update_flag(key="a", environment=staging, changes={"enabled": True}, **WRITE)
    create_flag(key="b", environment=production, prerequisites=[{"flag": "a"}], **WRITE)
    printed_lines = refused("import_flags", file([{"key": "a", "archived": True, "environments": {"production": OFF}}]))

    assert [line.partition(": archived: ")[2] for line in printed_lines[:-1]] == [
        "The flag is on in staging; switch it off there first.",
        "The flag is a prerequisite of b; remove it there before you archive it.",
    ]
    assert run("import_flags", file([{"key": "a", "archived": True, "environments": {"staging": OFF}}, {"key": "b"}]))


def test_import__what_cannot_be__is_refused(subtests: pytest.Subtests, production: Environment) -> None:
    for arguments, message in [
        (["/nowhere/flags.yaml"], "Cannot read /nowhere/flags.yaml: No such file or directory."),
        (["/tmp"], "Cannot read /tmp: Is a directory."),
        (["-", "--environment", "moon"], "Unknown environment 'moon'; use one of: production, staging."),
        (["-", "--reason", "x" * 1001], "Error: argument --reason: must be at most 1,000 characters"),
        (["-", "--reason", "\udc80"], "Error: argument --reason: must be UTF-8"),
        (["-", "--format", "toml"], "Error: argument --format: invalid choice: 'toml' (choose from 'yaml', 'json')"),
    ]:
        with subtests.test(arguments=arguments):
            assert refused("import_flags", *arguments) == [message]


def test_import__unchanged_flags__takes_no_query_for_each(
    production: Environment, file: Any, django_assert_max_num_queries: Any
) -> None:
    flags = [{"key": f"flag-{at:03}", "tags": ["a"], "environments": {"production": ON}} for at in range(50)]
    path = file(flags)
    run("import_flags", path)
    with django_assert_max_num_queries(15):
        run("import_flags", path)


def test_import__changed_flags__takes_no_query_for_each(
    production: Environment, file: Any, django_assert_max_num_queries: Any
) -> None:
    def flags(tag: str, state: dict[str, Any]) -> list[Any]:
        return [{"key": f"flag-{at:03}", "tags": [tag], "environments": {"production": state}} for at in range(50)]

    for path in (file(flags("a", OFF), [{"key": "s"}]), file(flags("b", ON), [{"key": "s", "userIds": ["u"]}])):
        with django_assert_max_num_queries(45):  # on SQLite, five tables are staged by five statements each
            run("import_flags", path)


def test_guide__file__is_imported_and_reported_as_it_stands_there(production: Environment, folder: Path) -> None:
    page = read_page("flags-as-code.md")
    _, (_, printed), (_, printed_lines) = code_blocks(page)
    path = folder / "flags.yaml"
    path.write_text(
        printed.replace("      - cleo\n", "")
        .replace("      - spring\n", "")
        .replace("percentage: 50", "percentage: 20")
        .replace("    tags:\n", "")
    )
    run("import_flags", str(path))
    path.write_text(printed)

    assert run("import_flags", str(path)) == printed_lines
    assert run("import_flags", str(path)) == "nothing to change.\n"
    path.write_text(printed.replace("segment: bakers", "segment: bakery"))
    [wrong, _] = refused("import_flags", str(path))
    assert wrong in " ".join(page.split())
