"""Flags as code: what `export_flags` writes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.models import Environment
from flags.changes.flag_changes import create_flag
from flags.changes.flag_rows import flags_as_json
from flags.changes.segment_changes import create_segment
from flags.files import exporting
from flags.models import Segment
from tests.flags.files.commands import ON, WRITE, refused, run
from tests.threads import SECONDS, Threads

pytestmark = pytest.mark.django_db


def test_export__everything__is_reported_in_order(everything: None) -> None:
    found = json.loads(run("export_flags", "--format", "json"))

    assert [each["key"] for each in found["segments"]] == ["inner", "outer", "unused"]
    assert [each["key"] for each in found["flags"]] == ["base", "full", "old"]
    assert found["segments"][2] == {"key": "unused"}
    assert found["flags"][2] == {
        "key": "old",
        "archived": True,
        "environments": {"a.trial": {"enabled": False}, "production": {"enabled": True}, "staging": {"enabled": False}},
    }
    full = found["flags"][1]
    assert list(full) == [
        *("key", "description", "type", "variants", "defaultVariant", "offVariant", "schema", "prerequisites", "tags"),
        *("owner", "expiresAt", "clientVisible", "environments"),
    ]
    assert full["environments"]["production"]["rules"] == [{"type": "percentage", "percentage": 50, "variant": "red"}]
    assert list(full["environments"]["production"]["rules"][0]) == ["type", "percentage", "variant"]


def test_export__rule_that_an_experiment_left__has_its_parts_in_order(production: Environment) -> None:
    part = {"salt": "checkout", "from": 0, "to": 50}
    left = {"type": "percentage", "percentage": 60, "salt": "e", "ranges": [part], "serves": False}
    create_flag(key="f", environment=production, rules=[left], **WRITE)

    found = json.loads(run("export_flags", "--format", "json"))["flags"][0]["environments"]["production"]["rules"][0]
    assert found == left
    assert (list(found), list(found["ranges"][0])) == (list(left), list(part))


def test_export__others_write_meanwhile__is_of_one_moment(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_and_let_others_write(*arguments: Any) -> Any:
        found = flags_as_json(*arguments)
        threads.start(partial(create_segment, key="meanwhile", **WRITE)).result(SECONDS)
        return found

    monkeypatch.setattr(exporting, "flags_as_json", read_and_let_others_write)
    assert "meanwhile" not in run("export_flags")
    assert Segment.objects.filter(key="meanwhile").exists()


def test_export__yaml__says_the_same_as_json(everything: None) -> None:
    assert yaml.safe_load(run("export_flags")) == json.loads(run("export_flags", "--format", "json"))


def test_export__some_flags__brings_the_segments_that_they_use(everything: None) -> None:
    found = json.loads(run("export_flags", "base", "--environment", "production", "--format", "json"))

    assert [each["key"] for each in found["segments"]] == ["inner", "outer"]
    assert found["flags"] == [
        {"key": "base", "environments": {"production": {**ON, "rules": [{"type": "segment", "segment": "outer"}]}}}
    ]


def test_export__to_a_file__has_the_form_of_its_name(subtests: pytest.Subtests, everything: None, folder: Path) -> None:
    for name, begins in [("f.json", "{"), ("f.yaml", "version"), ("f.yml", "version"), ("f", "v")]:
        with subtests.test(name=name, begins=begins):
            assert run("export_flags", "--output", str(folder / name)) == ""
            assert (folder / name).read_text().startswith(begins)


def test_export__what_is_not_there__is_refused(subtests: pytest.Subtests, production: Environment) -> None:
    for arguments, message in [
        (["unknown"], "No flag has the key 'unknown'."),
        (["a b", "\0"], "No flag has the key 'a b', '\\x00'."),
        (["--environment", "moon"], "Unknown environment 'moon'; use one of: production, staging."),
        (["--output", "/nowhere/flags.yaml"], "Cannot write /nowhere/flags.yaml: No such file or directory."),
    ]:
        with subtests.test(arguments=arguments):
            assert refused("export_flags", *arguments) == [message]


def test_export__any_number_of_flags__takes_as_many_queries(
    production: Environment, django_assert_max_num_queries: Any
) -> None:
    for at in range(20):
        create_flag(key=f"flag-{at}", environment=production, tags=["a"], **WRITE)
    with django_assert_max_num_queries(5):  # environments, flags, states, tags, segments
        run("export_flags")
