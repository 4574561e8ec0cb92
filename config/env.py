"""Reading settings from environment variables by type. An invalid value fails with one line that names it."""

from __future__ import annotations

import io
import ipaddress
import logging
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import environ
from django.core.exceptions import ImproperlyConfigured

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LINE = re.compile(r"\s*(#|$)|(export )?\w+=", re.ASCII)


class Env(environ.Env):
    """The environment. Each method raises ImproperlyConfigured if the value has another type."""

    BOOLEAN_FALSE_STRINGS = ("false", "off", "n", "no", "0", "")
    POSTGRESQL = ("postgres", "postgresql")
    DATABASES = (*POSTGRESQL, "sqlite")

    def read_file(self, var: str, default: str) -> None:
        """Read further settings from a file. Only the one at `default` may be missing."""
        path = self.str(var, default=default)
        try:
            content = Path(path).read_text("utf-8")
        except OSError as error:
            if isinstance(error, FileNotFoundError) and var not in self.ENVIRON:
                return
            # Going on without it would mean another database, for example.
            raise ImproperlyConfigured(f"The settings in {path} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise ImproperlyConfigured(f"The settings in {path} cannot be read: it must be a text in UTF-8.") from error
        for number, line in enumerate(content.splitlines(), start=1):
            if not _LINE.match(line):
                # The message omits the line, which may contain a password.
                raise ImproperlyConfigured(f"Line {number} of {path} must be NAME=value, or a comment after #.")
        self.read_env(io.StringIO(content))

    def get_value(self, var: str, cast: Any = None, default: Any = environ.Env.NOTSET, **options: Any) -> Any:
        try:
            return super().get_value(var, cast=cast, default=default, **options)
        except ValueError as error:
            raise ImproperlyConfigured(f"{var} must be {_WANTED[cast]}, not {self.ENVIRON[var]!r}.") from error

    @classmethod
    def parse_value(cls, value: Any, cast: Any) -> Any:
        # The library reads any unknown text as false.
        if cast is bool and value.strip().lower() not in cls.BOOLEAN_TRUE_STRINGS + cls.BOOLEAN_FALSE_STRINGS:
            raise ValueError
        if cast is list:  # a space after a comma belongs to no entry
            return [entry.strip() for entry in value.split(",") if entry.strip()]
        return super().parse_value(value, cast)

    def log_level(self, var: str, default: str) -> str:
        level: str = self.get_value(var, cast=_log_level, default=default)
        return level

    def time_zone(self, var: str, default: str) -> str:
        name: str = self.get_value(var, cast=_time_zone, default=default)
        return name

    def header(self, var: str, default: str) -> str:
        name: str = self.get_value(var, cast=_header, default=default)
        return name

    def minutes(self, var: str, default: timedelta) -> timedelta:
        minutes: timedelta = self.get_value(var, cast=_minutes, default=default)
        return minutes

    def path_prefix(self, var: str, default: str) -> str:
        prefix: str = self.get_value(var, cast=_path_prefix, default=default)
        return prefix

    def folder(self, var: str, default: str) -> Path:
        """Return a folder that this process can write to. A missing one is created, for its owner only."""
        path = Path(self.str(var, default=default) or default)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ImproperlyConfigured(f"{var} must be a folder; {path} cannot be one: {error.strerror}.") from error
        if not os.access(path, os.W_OK | os.X_OK):
            raise ImproperlyConfigured(f"{var} must be a folder that this user can write to, unlike {path}.")
        return path

    def networks(self, var: str, default: list[Network]) -> list[Network]:
        networks: list[Network] = self.get_value(var, cast=_networks, default=default)
        return networks

    def db_url(self, var: str, default: str) -> dict[str, Any]:
        try:
            if self.get_value(var, default=default).partition(":")[0] not in self.DATABASES:
                raise ValueError
            database: dict[str, Any] = super().db_url(var, default=default)
            if not database["NAME"]:
                raise ValueError
        except ValueError as error:
            # The message omits the value, which may contain a password.
            wanted = "postgres://user:password@host:5432/name or sqlite:////path/to/file"
            raise ImproperlyConfigured(f"{var} must be an address such as {wanted}.") from error
        return database

    def replica_url(self, var: str) -> dict[str, Any] | None:
        """Return a standby of the PostgreSQL server that DATABASE_URL names, or None if the variable is empty."""
        if not (url := self.str(var, default="")):
            return None
        if url.partition(":")[0] not in self.POSTGRESQL:
            wanted = "postgres://user:password@host:5432/name"
            raise ImproperlyConfigured(f"{var} must be the address of a PostgreSQL standby, such as {wanted}.")
        return self.db_url(var, default="")


def _log_level(text: str) -> str:
    if text.upper() not in logging.getLevelNamesMapping():
        raise ValueError
    return text.upper()


def _header(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]*", text, re.ASCII):
        raise ValueError
    return text


def _minutes(text: str) -> timedelta:
    try:
        return timedelta(minutes=int(text))
    except OverflowError as error:
        raise ValueError from error


def _path_prefix(text: str) -> str:
    prefix = text.rstrip("/")
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)*", prefix, re.ASCII):
        raise ValueError
    return prefix


def _time_zone(text: str) -> str:
    try:
        return ZoneInfo(text).key
    except (KeyError, OSError) as error:  # no such file, or a folder
        raise ValueError from error


def _networks(text: str) -> list[Network]:
    return [ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip()]


_WANTED = {
    bool: "true or false",
    int: "a whole number",
    _header: "the name of a header, such as X-Forwarded-Proto",
    _minutes: "a whole number of minutes",
    _path_prefix: "a path such as /flags",
    _log_level: "DEBUG, INFO, WARNING or ERROR",
    _networks: "networks separated by commas, such as 10.1.0.0/16,127.0.0.1/32",
    _time_zone: "the name of a time zone, such as Europe/Zurich",
}
