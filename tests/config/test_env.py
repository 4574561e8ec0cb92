"""Settings of the wrong type: refused before anything starts, in one line that names the setting."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from config.env import Env
from tests.deployment import PRODUCTION

NAME = "A_SETTING"


def read(kind: str, text: str | None, default: Any) -> Any:
    env = Env()
    env.ENVIRON = {} if text is None else {NAME: text}
    return getattr(env, kind)(NAME, default=default)


def test_env__setting_of_its_type__is_taken() -> None:
    for kind, text, value in [
        ("int", None, 8),
        ("int", "12", 12),
        ("int", "-1", -1),
        ("bool", "true", True),
        ("bool", "ON", True),
        ("bool", " Yes ", True),
        ("bool", "1", True),
        ("bool", "false", False),
        ("bool", "No", False),
        ("bool", "0", False),
        ("bool", "", False),
        ("log_level", "debug", "DEBUG"),
        ("header", "X-Forwarded-Proto", "X-Forwarded-Proto"),
        ("minutes", "15", timedelta(minutes=15)),
        ("path_prefix", "/a/b-c/", "/a/b-c"),
        ("path_prefix", "/", ""),
        ("path_prefix", "", ""),
        ("time_zone", "Europe/Zurich", "Europe/Zurich"),
        ("networks", "10.1.0.0/16, ::1", [ip_network("10.1.0.0/16"), ip_network("::1")]),
        ("networks", "", []),
        ("list", "10.0.0.1, ::1,, ", ["10.0.0.1", "::1"]),
    ]:
        assert read(kind, text, 8) == value, (kind, text)


@pytest.mark.parametrize("text", [None, ""])
def test_env__number_with_no_default__may_be_left_empty(text: str | None) -> None:
    assert read("int", text, None) is None


def test_env__setting_of_another_type__is_refused_by_name(subtests: pytest.Subtests) -> None:
    for kind, text, message in [
        ("int", "x", "A_SETTING must be a whole number, not 'x'."),
        ("int", "1.5", "A_SETTING must be a whole number, not '1.5'."),
        ("int", "", "A_SETTING must be a whole number, not ''."),
        (
            "networks",
            "10.1.2.3/16",
            "A_SETTING must be networks separated by commas, such as 10.1.0.0/16,127.0.0.1/32, not '10.1.2.3/16'.",
        ),
        ("bool", "ture", "A_SETTING must be true or false, not 'ture'."),
        ("bool", "2", "A_SETTING must be true or false, not '2'."),
        ("log_level", "LOUD", "A_SETTING must be DEBUG, INFO, WARNING or ERROR, not 'LOUD'."),
        ("path_prefix", "flags", "A_SETTING must be a path such as /flags, not 'flags'."),
        (
            "header",
            "X_Forwarded_Proto",
            "A_SETTING must be the name of a header, such as X-Forwarded-Proto, not 'X_Forwarded_Proto'.",
        ),
        ("header", "X Proto", "A_SETTING must be the name of a header, such as X-Forwarded-Proto, not 'X Proto'."),
        ("minutes", "99999999999999", "A_SETTING must be a whole number of minutes, not '99999999999999'."),
        ("path_prefix", "/a?b", "A_SETTING must be a path such as /flags, not '/a?b'."),
        ("time_zone", "Mars", "A_SETTING must be the name of a time zone, such as Europe/Zurich, not 'Mars'."),
        ("time_zone", "Europe", "A_SETTING must be the name of a time zone, such as Europe/Zurich, not 'Europe'."),
        ("time_zone", "../UTC", "A_SETTING must be the name of a time zone, such as Europe/Zurich, not '../UTC'."),
    ]:
        with subtests.test(kind=kind, text=text):
            with pytest.raises(ImproperlyConfigured) as refused:
                read(kind, text, "UTC")
            assert str(refused.value) == message


def test_env__address_of_no_database__is_refused_and_not_shown(subtests: pytest.Subtests) -> None:
    for url in [
        "",
        "secret",
        "postgres//secret@host/name",
        "mysql://u:secret@host/name",
        "postgres://u:secret@host:x/name",
        "postgres://u:secret@host",
    ]:
        with subtests.test(url=url):
            with pytest.raises(
                ImproperlyConfigured, match=r"^A_SETTING must be an address such as postgres://"
            ) as refused:
                read("db_url", url, "sqlite:////x")
            assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "engine", "name"),
    [
        (None, "django.db.backends.sqlite3", "/x"),
        ("sqlite://:memory:", "django.db.backends.sqlite3", ":memory:"),
        ("postgres://u:p@host:5432/name", "django.db.backends.postgresql", "name"),
        ("postgresql://host/name", "django.db.backends.postgresql", "name"),
    ],
)
def test_env__address_of_a_database__is_taken(url: str | None, engine: str, name: str) -> None:
    database = read("db_url", url, "sqlite:////x")
    assert (database["ENGINE"], database["NAME"]) == (engine, name)


def read_file(path: Path, *, is_named: bool = True) -> dict[str, str]:
    """Return the environment after the file was read."""
    environment = {NAME: str(path)} if is_named else {}
    with patch.object(Env, "ENVIRON", environment):  # of the class, as that is what the library writes to
        Env().read_file(NAME, default=str(path))
    environment.pop(NAME, None)
    return environment


def test_env__file_of_settings__is_read(tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_text("# a comment\n\nexport THREADS=4\nSECRET_KEY='a b'\n  # another one\n")
    assert read_file(file) == {"THREADS": "4", "SECRET_KEY": "a b"}


def test_env__missing_file__is_refused_only_if_it_is_named(tmp_path: Path) -> None:
    assert read_file(tmp_path / "none", is_named=False) == {}
    with pytest.raises(ImproperlyConfigured, match="none cannot be read: No such file or directory"):
        read_file(tmp_path / "none")


def test_env__file_that_cannot_be_understood__is_refused_and_not_shown(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    file = tmp_path / "settings"
    for content, message in [
        (b"A=1\nPASSWORD = secret", "Line 2 of .* must be NAME=value, or a comment after #"),
        (b"A=1\nsecret", "Line 2 of .* must be NAME=value"),
        (b"A=\xffsecret", "must be a text in UTF-8"),
    ]:
        for is_named in [True, False]:
            with subtests.test(content=content, is_named=is_named):
                file.write_bytes(content)
                with pytest.raises(ImproperlyConfigured, match=message) as refused:
                    read_file(file, is_named=is_named)
                assert "secret" not in str(refused.value)


def test_env__folder_as_file__is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match="cannot be read: Is a directory"):
        read_file(tmp_path, is_named=False)


@pytest.mark.parametrize("command", ["check", "serve", "migrate"])
def test_manage__setting_of_another_type__is_refused_in_one_line(command: str, tmp_path: Any) -> None:
    environment = {**os.environ, **PRODUCTION, "RUNTIME_DIR": str(tmp_path), "EVENT_RETENTION_DAYS": "x"}
    run = subprocess.run(
        [sys.executable, "manage.py", command],
        cwd=settings.BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert (run.stdout, run.stderr) == ("", "EVENT_RETENTION_DAYS must be a whole number, not 'x'.\n")


@pytest.mark.parametrize(
    ("primary", "replica", "message"),
    [
        ("postgres://host/name", "sqlite:////x", "REPLICA_URL must be the address of a PostgreSQL standby, such as "),
        ("postgres://host/name", "secret", "REPLICA_URL must be the address of a PostgreSQL standby, such as "),
        ("postgres://host/name", "postgres://secret@host", "REPLICA_URL must be an address such as "),
        ("sqlite:////x", "postgres://secret@host/name", "REPLICA_URL needs a primary: set DATABASE_URL to "),
    ],
)
def test_manage__replica_that_cannot_be_one__is_refused_and_not_shown(
    primary: str, replica: str, message: str, tmp_path: Any
) -> None:
    environment = {**os.environ, **PRODUCTION, "RUNTIME_DIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=settings.BASE_DIR,
        env={**environment, "DATABASE_URL": primary, "REPLICA_URL": replica},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr.startswith(message)
    assert "secret" not in run.stderr


def test_manage__replica__has_the_timeouts_of_the_primary_and_is_not_waited_for(tmp_path: Any) -> None:
    address = "postgres://host/name"
    code = "from django.conf import settings as s; print([d['OPTIONS'] for d in s.DATABASES.values()])"
    run = subprocess.run(
        [sys.executable, "manage.py", "shell", "-v", "0", "-c", code],
        cwd=settings.BASE_DIR,
        env={
            **os.environ,
            **PRODUCTION,
            "RUNTIME_DIR": str(tmp_path),
            "DATABASE_URL": address,
            "REPLICA_URL": address,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    primary, replica = ast.literal_eval(run.stdout)
    assert (primary.pop("connect_timeout"), replica.pop("connect_timeout")) == (5, 2)
    assert replica == primary
