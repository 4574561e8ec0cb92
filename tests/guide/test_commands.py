"""Commands, settings and files in the guide: each is one that exists, in every page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
import yaml

from config.guide.pages import PAGES, Page
from tests.guide.markdown import code_blocks
from tests.operations import commands_in, parse_command, setting_names
from tests.system.server import ROOT

KUBERNETES = (ROOT / "templates/guide/kubernetes.md").read_text()
pytestmark = pytest.mark.once


def blocks(page: Page, *forms: str) -> Iterator[str]:
    return (code for form, code in code_blocks(page.source) if form in forms)


def test_pages__each__names_commands_settings_and_files_that_exist(subtests: pytest.Subtests) -> None:
    found = set()
    for page in PAGES:
        with subtests.test(page=page.path):
            for words in commands(page):
                parse_command(words)
                found.add(words[0])
            for block in blocks(page, "ini"):
                names = set(re.findall(r"^([A-Z_]+)=", block, re.MULTILINE))
                assert names - {"POSTGRES_PASSWORD"} <= setting_names()
            for path in re.findall(r"config/deploy/[\w./-]*\w", page.source):
                assert (ROOT / path).exists(), path
    assert {"backup", "check", "createsuperuser", "create_key", "doctor", "maintain", "migrate", "restore"} <= found


def commands(page: Page) -> Iterator[list[str]]:
    for block in blocks(page, "sh", "crontab"):
        yield from commands_in(block)


def test_helm__values_that_are_set__exist() -> None:
    values = yaml.safe_load((ROOT / "config/deploy/helm/values.yaml").read_text())
    named = re.findall(r"--set ([\w.]+)=", KUBERNETES)
    assert len(named) > 4
    for name in named:
        value = values
        for part in name.split("."):
            value = value[part]


def test_kubernetes__keys_of_the_secret__are_settings() -> None:
    named = re.findall(r"--from-literal=(\w+)=", KUBERNETES)
    assert named
    assert {*named} <= setting_names()


def test_kubernetes__objects_of_the_chart__are_in_the_table() -> None:
    kinds = {
        kind
        for file in (ROOT / "config/deploy/helm/templates").glob("*.yaml")
        for kind in re.findall(r"^kind: (\w+)$", file.read_text(), re.MULTILINE)
    }
    assert kinds == set(re.findall(r"^\| ([A-Z]\w+) \|", KUBERNETES, re.MULTILINE))


def test_kubernetes__yaml__can_be_read() -> None:
    documents = [yaml.safe_load(code) for form, code in code_blocks(KUBERNETES) if form == "yaml"]
    assert [document["kind"] for document in documents] == ["PodMonitor"]


def test_shell__blocks_for_operators__can_be_split_into_words() -> None:
    chapter = next(page.chapter for page in PAGES if page.path == "production.md")
    for page in PAGES:
        if page.chapter == chapter:
            for block in blocks(page, "sh"):
                assert shlex.split(block, comments=True)
