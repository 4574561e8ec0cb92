"""Reading settings from environment variables by their types. An invalid value fails with one line
that names it.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import environ
from django.core.exceptions import ImproperlyConfigured

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Env(environ.Env):
    """The environment. Each method raises ImproperlyConfigured if the value does not have its type."""

    BOOLEAN_FALSE_STRINGS = ("false", "off", "n", "no", "0", "")
    DATABASES = ("postgres", "postgresql", "sqlite")

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
        return super().parse_value(value, cast)

    def log_level(self, var: str, default: str) -> str:
        level: str = self.get_value(var, cast=_log_level, default=default)
        return level

    def time_zone(self, var: str, default: str) -> str:
        name: str = self.get_value(var, cast=_time_zone, default=default)
        return name

    def path_prefix(self, var: str, default: str) -> str:
        prefix: str = self.get_value(var, cast=_path_prefix, default=default)
        return prefix

    def folder(self, var: str, default: str) -> Path:
        """Return a folder in which this process can write. It is made if need be, for its owner alone."""
        path = Path(self.str(var, default=default))
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
        except ValueError as error:
            # The message omits the value, which may contain a password.
            wanted = "postgres://user:password@host:5432/name or sqlite:////path/to/file"
            raise ImproperlyConfigured(f"{var} must be an address such as {wanted}.") from error
        return database


def _log_level(text: str) -> str:
    if text.upper() not in logging.getLevelNamesMapping():
        raise ValueError
    return text.upper()


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
    _path_prefix: "a path such as /flags",
    _log_level: "DEBUG, INFO, WARNING or ERROR",
    _networks: "networks separated by commas, such as 10.1.0.0/16,127.0.0.1/32",
    _time_zone: "the name of a time zone, such as Europe/Zurich",
}
