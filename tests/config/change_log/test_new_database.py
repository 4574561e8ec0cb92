"""The change log of a new database, and after the demo has filled it."""

from __future__ import annotations

import getpass
from io import StringIO

import pytest
from django.core.management import call_command

from config.models import Change
from tests.config.change_log.truth import check_that_the_log_is_the_whole_truth, in_words


@pytest.mark.django_db
def test_demo__into_an_empty_database__leaves_a_row_for_each_write() -> None:
    call_command("demo", "--users", "10", "--events", "500", stdout=StringIO(), stderr=StringIO())
    rows = Change.objects.since(2)
    assert {(row.actor, row.source, row.reason) for row in rows} == {
        (f"operator {getpass.getuser()}", "command", "Demo data")
    }
    check_that_the_log_is_the_whole_truth()


@pytest.mark.django_db
def test_new_database__has_a_row_for_each_environment() -> None:
    rows = Change.objects.order_by("revision")
    assert list(map(in_words, rows)) == ["created environment production", "created environment staging"]
    assert {(row.actor, row.source, row.reason) for row in rows} == {("migrate", "command", "")}
    check_that_the_log_is_the_whole_truth()
