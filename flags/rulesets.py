"""Rulesets: all that somebody needs who evaluates flags without asking the service, as JSON.

Written once for each configuration that this process holds, and not before somebody asks.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from config.documents import Document
from flags import snapshot
from flags.engine.types import Configuration, Flag, Segment

# What is for people, or was checked when it was written, decides nothing.
_LEFT_OUT = ("schema", "archivedAt")
_SPEED_OVER_SIZE = 6


@dataclass(frozen=True, slots=True)
class Ruleset:
    """The JSON of a configuration, as it is and as gzip, and the revision that it stands at."""

    configuration: Configuration
    etag: str
    plain: bytes
    zipped: bytes


_written: dict[str, Ruleset] = {}
_lock = threading.Lock()


def ruleset(environment_key: str) -> Ruleset:
    """The ruleset of an environment as this process knows it."""
    configuration = snapshot.configuration(environment_key)
    known = _written.get(environment_key)
    if known is None or known.configuration is not configuration:
        with _lock:  # many ask at the same moment, right after a change
            known = _written.get(environment_key)
            if known is None or known.configuration is not configuration:
                known = _written[environment_key] = _write(environment_key, configuration)
    return known


def document(environment_key: str, configuration: Configuration) -> Document:
    """The configuration of an environment by the names of the API: flags as they stand there, and all segments."""
    return {
        "environment": environment_key,
        "revision": configuration.revision,
        "flags": [_flag(configuration.flags[key]) for key in sorted(configuration.flags)],
        "segments": [_segment(configuration.segments[key]) for key in sorted(configuration.segments)],
    }


def _write(environment_key: str, configuration: Configuration) -> Ruleset:
    plain = orjson.dumps({"data": document(environment_key, configuration)})
    etag = f'"{environment_key}-{configuration.revision}"'
    return Ruleset(configuration, etag, plain, gzip.compress(plain, _SPEED_OVER_SIZE, mtime=0))


def _flag(flag: Flag) -> Mapping[str, object]:
    own = {name: value for name, value in flag.source.items() if name not in _LEFT_OUT}
    archived = {"archived": True} if "archivedAt" in flag.source else {}
    return {**own, "enabled": flag.enabled, **archived}


def _segment(segment: Segment) -> Mapping[str, object]:
    return {name: segment.source[name] for name in ("key", "conditions", "userIds") if name in segment.source}
