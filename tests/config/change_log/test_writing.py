"""The change log: numbered without gaps, in the order of commits, and without rolled back changes."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.db import connection, transaction

from config.change_log.writing import Basis, NewChange, PreparedChanges, Writing, write_prepared, writing
from config.models import Change, Environment
from config.snapshot import signal_file
from tests.conftest import ACTOR, NOON
from tests.threads import SECONDS, Threads


def append(key: str, at=NOON) -> None:
    with writing(actor=ACTOR, now=at, reason="why not") as log:
        log.append("thing", object_id=key, key=key, before=None, after={"key": key})


@transaction.atomic
def append_and_roll_back(key: str) -> None:
    append(key)
    raise RuntimeError("no")


@pytest.mark.django_db
def test_new_database__has_its_environments__each_with_its_change() -> None:
    assert list(Environment.objects.values_list("key", "is_default")) == [("production", True), ("staging", False)]
    assert list(Change.objects.order_by("revision").values_list("revision", "kind", "key")) == [
        (1, "environment", "production"),
        (2, "environment", "staging"),
    ]


@pytest.mark.django_db
def test_append__one_change__says_who_when_where_and_why() -> None:
    append("a")

    change = Change.objects.latest("revision")
    assert (change.actor, change.source, change.reason) == ("test", "command", "why not")
    assert (change.kind, change.key, change.before, change.after) == ("thing", "a", None, {"key": "a"})
    assert change.action == "created"


@pytest.mark.django_db
def test_append__several_changes_of_one_write__are_found_together() -> None:
    append("alone")
    with writing(actor=ACTOR, now=NOON) as log:
        for key in "ab":
            log.append("thing", object_id=key, key=key, before=None, after={"key": key})
    append("later")

    changes = {change.key: change for change in Change.objects.filter(kind="thing")}
    assert [change.key for change in Change.objects.of_write(changes["b"])] == ["a", "b"]
    assert [change.key for change in Change.objects.of_write(changes["alone"])] == ["alone"]
    changes["a"].write = None  # as before the column existed
    assert [change.key for change in Change.objects.of_write(changes["a"])] == ["a"]


@pytest.mark.django_db
def test_append__clock_behind_the_newest_change__takes_the_newest_moment() -> None:
    newest = Change.objects.latest("revision").at
    append("late", at=newest - timedelta(days=3))

    assert Change.objects.latest("revision").at == newest


@pytest.mark.django_db
def test_writing__nothing_appended__pokes_nobody(django_capture_on_commit_callbacks) -> None:
    with django_capture_on_commit_callbacks() as callbacks, writing(actor=ACTOR, now=NOON):
        pass

    assert callbacks == []


@pytest.mark.django_db(transaction=True)
def test_writing__rolled_back__leaves_no_revision_and_no_signal() -> None:
    before, signal = Change.objects.latest_revision(), signal_file.read()
    with pytest.raises(RuntimeError, match="no"):
        append_and_roll_back("a")

    assert Change.objects.latest_revision() == before
    assert signal_file.read() == signal


@pytest.mark.django_db(transaction=True)
def test_writing__many_threads__numbers_without_gaps_in_the_order_of_time() -> None:
    before = Change.objects.latest_revision()

    def write(name: int) -> None:
        try:
            for at in range(5):
                append(f"{name}-{at}")
        finally:
            connection.close()

    if connection.vendor == "sqlite" and connection.is_in_memory_db():
        for name in range(8):  # a database in memory is shared by no threads
            write(name)
    else:
        threads = [threading.Thread(target=write, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    changes = list(Change.objects.since(before))
    assert [change.revision for change in changes] == list(range(before + 1, before + 41))
    assert [change.at for change in changes] == sorted(change.at for change in changes)


# --- writes that are prepared before their transaction ----------------------------------------------------------------


@dataclass
class Prepared:
    """A write of one change, and what it was based on."""

    revision: int
    changes: PreparedChanges

    @classmethod
    def of(cls, basis: Basis) -> Prepared:
        change = NewChange("thing", "a", "a", None, {"key": "a"})
        return cls(basis.revision, basis.prepare([change]))

    def write(self, log: Writing) -> None:
        log.append_prepared(self.changes)


def test_write_prepared__nothing_else_changes__lets_others_write_while_it_is_prepared(threads: Threads) -> None:
    before = Change.objects.latest_revision()
    bases = []

    def rename() -> None:  # without a change in the log, as events are written
        with transaction.atomic():
            Environment.objects.filter(key="production").update(name="Renamed")

    def prepare(basis: Basis) -> Prepared:
        bases.append(basis.revision)
        threads.start(rename).result(SECONDS)
        return Prepared.of(basis)

    prepared = write_prepared(prepare, actor=ACTOR, now=NOON)
    assert (bases, prepared.revision) == ([before], before)
    assert [change.key for change in Change.objects.since(before)] == ["a"]
    assert Environment.objects.get(key="production").name == "Renamed"


def test_write_prepared__configuration_changes_meanwhile__is_prepared_again(threads: Threads) -> None:
    before = Change.objects.latest_revision()
    bases = []

    def prepare(basis: Basis) -> Prepared:
        bases.append(basis.revision)
        if len(bases) == 1:
            threads.start(append, "meanwhile").result(SECONDS)
        return Prepared.of(basis)

    prepared = write_prepared(prepare, actor=ACTOR, now=NOON)
    assert (bases, prepared.revision) == ([before, before + 1], before + 1)
    assert [change.key for change in Change.objects.since(before)] == ["meanwhile", "a"]


@pytest.mark.django_db(transaction=True)
def test_write_prepared__dry_run__writes_nothing() -> None:
    before, signal = Change.objects.latest_revision(), signal_file.read()
    write_prepared(Prepared.of, actor=ACTOR, now=NOON, is_dry_run=True)

    assert Change.objects.latest_revision() == before
    assert signal_file.read() == signal
