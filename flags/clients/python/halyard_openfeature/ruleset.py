"""Rulesets: compiled for the engine, and kept in a file for starts without the service."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .engine.compiling import compile_flag, compile_segment
from .engine.types import Configuration, Flag, Segment

_FORMAT = "halyard-ruleset-1"


class RulesetError(Exception):
    """A ruleset that cannot be used. The message says why, and what to do."""


@dataclass(frozen=True)
class Ruleset:
    """The flags and segments of an environment at a revision, with their JSON."""

    environment: str
    revision: int
    etag: str
    configuration: Configuration
    documents: Mapping[str, Mapping[str, Any]]
    experiments: frozenset[str]

    def changed_since(self, before: Ruleset | None) -> list[str]:
        """Return the keys of the flags that differ. A segment that differs may change any flag."""
        if before is None or self.configuration.segments != before.configuration.segments:
            return sorted(self.documents)
        keys = self.documents.keys() | before.documents.keys()
        return sorted(key for key in keys if self.documents.get(key) != before.documents.get(key))


def compile_ruleset(
    data: Any, etag: str = "", *, before: Ruleset | None = None, expected: str | None = None
) -> Ruleset:
    """Compile a decoded ruleset. Flags that equal those of `before` are not compiled again.

    Raises RulesetError if it is not of the environment `expected`, or if the engine does not understand it.
    """
    try:
        environment, revision = str(data["environment"]), int(data["revision"])
        if expected is not None and environment != expected:
            raise RulesetError(f"The ruleset is of the environment {environment}, and not of {expected}.")
        documents = {flag["key"]: flag for flag in data["flags"]}
        flags = {key: _compile(document, before) for key, document in documents.items()}
        segments: dict[str, Segment] = {segment["key"]: compile_segment(segment) for segment in data["segments"]}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"This version of the client cannot read the ruleset ({error!r}); install the one of your service."
        raise RulesetError(message) from error
    configuration = Configuration(flags, segments, revision)
    experiments = frozenset(flag.driver for flag in flags.values() if flag.driver)
    return Ruleset(environment, revision, etag, configuration, documents, experiments)


def _compile(document: Mapping[str, Any], before: Ruleset | None) -> Flag:
    key = document["key"]
    if before is not None and before.documents.get(key) == document:
        return before.configuration.flags[key]
    return compile_flag(document)


def write_state(path: Path, ruleset: Ruleset, data: Any) -> None:
    """Replace the file with this ruleset. Only its owner may read it.

    Raises RulesetError if the file is of another environment, and OSError.
    """
    _require_free(path, ruleset.environment)
    body = json.dumps(data, separators=(",", ":")).encode()
    header = {
        "format": _FORMAT,
        "environment": ruleset.environment,
        "etag": ruleset.etag,
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(header).encode() + b"\n" + body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _require_free(path: Path, environment: str) -> None:
    try:
        header, _ = _read(path)
    except (OSError, RulesetError):  # there is no file yet, or nobody can use it
        return
    if header["environment"] != environment:
        raise RulesetError(
            f"{path} holds the environment {header['environment']}; name another file for {environment}."
        )


def read_state(path: Path, expected: str) -> Ruleset | None:
    """Return the ruleset in the file, if any. Raises RulesetError, also if it is of another environment."""
    try:
        header, body = _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RulesetError(f"{path} cannot be read: {error.strerror}.") from error
    if header["environment"] != expected:
        raise RulesetError(f"{path} holds the environment {header['environment']}, and not {expected}.")
    return compile_ruleset(json.loads(body), header["etag"], expected=expected)


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    first, _, body = path.read_bytes().partition(b"\n")
    try:
        header = json.loads(first)
        is_whole = header["format"] == _FORMAT and header["sha256"] == hashlib.sha256(body).hexdigest()
    except (ValueError, KeyError, TypeError):
        is_whole = False
    if not is_whole:
        raise RulesetError(f"{path} is damaged, or is no ruleset of this client; delete it.")
    return header, body
