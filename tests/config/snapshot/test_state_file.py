"""The last known state in a file: complete, for the service alone, and refused unless it is certainly its own."""

from __future__ import annotations

import json
import os
import stat
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from config import snapshot
from config.access.api_keys import create_key, digest, live_keys
from config.access.environments import create_environment, known_environments
from config.database.file_locks import file_lock
from config.models import Environment, Scope
from config.snapshot import state_file
from config.snapshot.state_file import State, keep, restore
from config.snapshot.tables import Lateness, current
from experiments.exposures.assignment import assigners
from flags.changes.flag_changes import archive_flag, create_flag, update_flag
from flags.changes.segment_changes import create_segment
from flags.engine.evaluation import evaluate
from flags.engine.types import Context
from flags.snapshot import compiled, configuration
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

WRITE = {"actor": ACTOR, "now": NOON}
COLOURS = [{"key": "red", "value": {"hex": "#f00", "n": 1.0}}, {"key": "blue", "value": {"hex": "#00f", "n": 2}}]


@pytest.fixture
def secret(production: Environment) -> str:
    """Fill the database with something of every kind, load it, and return the secret of a key."""
    create_environment(key="qa", name="QA", **WRITE)
    create_segment(key="beta", user_ids=["ada"], **WRITE)
    condition = {"attribute": "plan", "operator": "in", "value": ["pro", "Zoë\r\n"]}
    share = {"type": "percentage", "percentage": 50, "conditions": [condition]}
    rules = [{"type": "segment", "segment": "beta"}, share]
    create_flag(key="plain", environment=production, enabled=True, rules=rules, **WRITE)
    values = {"type": "object", "variants": COLOURS, "off_variant": "red", "default_variant": "blue"}
    create_flag(key="colour", environment=production, enabled=True, **values, **WRITE)
    update_flag(key="plain", environment=Environment.objects.get(key="staging"), changes={"enabled": True}, **WRITE)
    create_flag(key="old", environment=production, **WRITE)
    archive_flag(key="old", environment=production, **WRITE)
    ExperimentFactory(key="e", flag={"key": "plain", "serves": {"control": False, "green": True}}, running=True)
    create_key(name="app", environment=production, scope=Scope.CLIENT, expires_at=NOON + timedelta(days=1), **WRITE)
    _, made = create_key(name="admin", environment=production, scope=Scope.MANAGE, common=True, **WRITE)
    snapshot.refresh()
    return made


def save() -> Path:
    assert keep(State.of_this_process())
    path: Path = state_file._path()
    return path


def restored() -> bool:
    """Start again without the database."""
    snapshot.reset()
    return restore()


def refused(caplog: pytest.LogCaptureFixture) -> str:
    """Try to start from the file, and return the only line that is logged."""
    caplog.clear()
    state_file._said.clear()
    assert not restored()
    assert not restored()
    assert current.revision is None
    [record] = caplog.records
    assert record.getMessage().startswith("Cannot start from the last known state: ")
    return record.getMessage()


def comparable() -> Any:
    return [list(table.dump(table.state)) for table in current.tables]


def test_restore__state_of_every_kind__is_the_same(secret: str) -> None:
    before, revision, flags = comparable(), snapshot.revision(), compiled.state
    users = [("ada", {}), ("bob", {"plan": "pro"}), ("eve", {"plan": "Zoë\r\n"}), ("joe", {})]

    def answers() -> Any:
        contexts = [Context(user, attributes, configuration("production"), NOON) for user, attributes in users]
        return [[evaluate(flag, each).answer for flag in each.configuration.flags.values()] for each in contexts]

    asked = answers()
    save()
    assert restored()
    assert (comparable(), snapshot.revision()) == (before, revision)
    assert compiled.state == flags
    assert answers() == asked
    assert configuration("production").flags["plain"].experiments == {"e"}
    assert not configuration("production").flags["colour"].is_fractional
    key = live_keys.state[digest(secret)]
    assert (key.environment.key, key.scope, key.actor.name, key.actor.may_change_common, key.expires_at) == (
        "production", Scope.MANAGE, "key admin", True, None,
    )  # fmt: skip
    assert {key.expires_at for key in live_keys.state.values()} == {None, NOON + timedelta(days=1)}
    assert known_environments.state.default.pk == Environment.objects.default().pk
    assert assigners.state["production", "e"].phase == 1


def test_restore__state__is_stale_since_it_was_the_newest_and_lets_nobody_write(secret: str) -> None:
    path = save()
    moment = time.time() - 100
    os.utime(path, (moment, moment))
    assert restored()
    assert snapshot.staleness() in (100, 101)
    assert current.lateness is Lateness.CUT_OFF
    with pytest.raises(Exception, match="newest configuration"):
        snapshot.require_current_keys()


def test_restore__process_that_has_a_state__keeps_that(secret: str) -> None:
    save()
    create_flag(key="newer", environment=Environment.objects.default(), **WRITE)
    current.catch_up()
    assert not restore()
    assert "newer" in configuration("production").flags


def test_catch_up__after_a_start_from_the_file__loads_everything_again(secret: str) -> None:
    save()
    create_flag(key="newer", environment=Environment.objects.default(), **WRITE)
    assert restored()
    assert not current.is_newest()
    current.catch_up()
    assert "newer" in configuration("production").flags
    assert current.is_newest()


def test_keep__file__is_for_the_service_alone_and_has_no_secret(secret: str) -> None:
    path = save()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_text()
    assert digest(secret) in content
    assert secret not in content
    assert secret[6:] not in content
    assert [file.name for file in path.parent.iterdir() if file.name.startswith("state")] == [
        "state",
        "state.lock",
    ] or [file.name for file in sorted(path.parent.iterdir()) if file.name.startswith("state")] == [
        "state",
        "state.lock",
    ]


def test_keep__same_state_again__says_only_that_it_is_the_newest(secret: str) -> None:
    path = save()
    inode = path.stat().st_ino
    os.utime(path, (0, 0))
    save()
    assert path.stat().st_ino == inode
    assert time.time() - path.stat().st_mtime < 60


def test_keep__newer_state__replaces_the_file(secret: str) -> None:
    path = save()
    inode = path.stat().st_ino
    create_flag(key="newer", environment=Environment.objects.default(), **WRITE)
    current.catch_up()
    save()
    assert path.stat().st_ino != inode
    assert restored()
    assert "newer" in configuration("production").flags


def test_keep__another_process_writes__leaves_it_to_that(secret: str) -> None:
    path = state_file._path()
    with file_lock(path.with_suffix(".lock")) as try_to_lock:
        assert try_to_lock()
        assert not keep(State.of_this_process())
    assert not path.exists()
    assert keep(State.of_this_process())


def test_keep__left_over_of_a_killed_writer__is_no_obstacle(secret: str) -> None:
    left_over = state_file._path().with_suffix(".new")
    left_over.write_text("half")
    left_over.chmod(0o644)
    path = save()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert restored()


def test_restore__no_file__says_nothing(secret: str, caplog: pytest.LogCaptureFixture) -> None:
    assert not restored()
    assert not caplog.records


def test_restore__a_byte_changed_anywhere__is_refused(
    subtests: pytest.Subtests, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = save()
    content = bytearray(path.read_bytes())
    for position in [0, 1, 30, 0.3, 0.6, 0.9, -70, -1]:
        with subtests.test(position=position):
            at = int(position * len(content)) if isinstance(position, float) else position
            content[at] ^= 1
            path.write_bytes(content)
            refused(caplog)


def test_restore__file_cut_off_anywhere__is_refused(
    subtests: pytest.Subtests, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = save()
    content = path.read_bytes()
    for length in [0, 1, 100, 0.5, -1, -64, -65]:
        with subtests.test(length=length):
            path.write_bytes(content[: int(length * len(content)) if isinstance(length, float) else length])
            assert "is damaged" in refused(caplog)


def test_restore__something_else_in_the_file__is_refused(
    subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture
) -> None:
    for content in [b"", b"\n", b"no json\n", b"[1]\n", b"{}\n", b'{"format": "1"}\n', bytes(1000)]:
        with subtests.test(content=content):
            state_file._path().write_bytes(content)
            assert "is damaged: it has no header" in refused(caplog)


def test_restore__another_secret_key__is_refused(secret: str, settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    save()
    settings.SECRET_KEY = "another" * 10
    assert "was written with another SECRET_KEY" in refused(caplog)


def test_restore__former_secret_key__is_accepted(secret: str, settings: Any) -> None:
    save()
    settings.SECRET_KEY_FALLBACKS = ["older" * 10, settings.SECRET_KEY]
    settings.SECRET_KEY = "another" * 10
    assert restored()


@pytest.mark.parametrize("part", ["HOST", "PORT", "NAME", "ENGINE"])
def test_restore__another_database__is_refused(
    secret: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    save()
    with monkeypatch.context() as patch:
        patch.setitem(state_file.settings.DATABASES["default"], part, "another")
        assert "of another database than the one that DATABASE_URL names" in refused(caplog)


@pytest.mark.parametrize("part", ["USER", "PASSWORD"])
def test_restore__another_account_of_the_same_database__is_accepted(
    secret: str, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    save()
    with monkeypatch.context() as patch:
        patch.setitem(state_file.settings.DATABASES["default"], part, "another")
        assert restored()


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "another version of Halyard has written"), (2, "a newer version of Halyard has written")],
)
def test_restore__another_format__is_refused(
    secret: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int, expected: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(state_file, "FORMAT", number)
        save()
    assert expected in refused(caplog)


def test_restore__a_table_more__is_refused(
    secret: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    save()
    with monkeypatch.context() as patch:
        patch.setattr(known_environments, "name", "environment and more")
        assert "another version of Halyard has written" in refused(caplog)


def test_restore__entries_of_other_code_in_the_same_format__are_refused(
    secret: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(assigners, "dump", lambda _: [{"environment": "production", "experiment": {"key": "e"}}])
        save()
    assert "has entries that this version of Halyard cannot read (KeyError('id'))" in refused(caplog)


def test_restore__older_than_a_week__is_refused(secret: str, caplog: pytest.LogCaptureFixture) -> None:
    path = save()
    long_ago = datetime.now(UTC) - timedelta(days=7, minutes=1)
    os.utime(path, (long_ago.timestamp(), long_ago.timestamp()))
    assert f"known to be current on {long_ago:%Y-%m-%d}, over 7 days ago" in refused(caplog)
    os.utime(path, (long_ago.timestamp() + 120, long_ago.timestamp() + 120))
    assert restored()


def test_restore__file_that_cannot_be_read__is_refused(secret: str, caplog: pytest.LogCaptureFixture) -> None:
    path = save()
    path.unlink()
    path.mkdir()
    assert "Is a directory" in refused(caplog)


def test_entries__of_this_format__have_this_form(production: Environment) -> None:
    """If this fails because an entry has another form now, raise FORMAT as well."""
    create_segment(key="beta", user_ids=["ada"], **WRITE)
    create_flag(key="f", environment=production, enabled=True, **WRITE)
    create_key(name="app", environment=production, scope=Scope.CLIENT, **WRITE)
    ExperimentFactory(key="e", running=True)
    snapshot.refresh()
    forms: dict[str, list[set[str]]] = {}
    for line in save().read_bytes().splitlines()[1:-1]:
        name, entry = json.loads(line)
        forms.setdefault(name, []).append(set(entry))
    environment = {"id", "key", "name", "isDefault", "createdAt"}
    assert state_file.FORMAT == 1
    assert forms == {
        "api_key": [{"digest", "id", "environment", "scope", "actor", "common", "expiresAt"}],
        "environment": [environment, environment],
        "environment flag segment segment_members": [{"revisions", "archived"}, {"flag", "own"}, {"segment"}],
        "experiment": [{"environment", "experiment"}],
    }
