"""The attributes that the sample keeps: those that rules, segments and experiments of the environment read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from config.snapshot import give_way
from flags.engine.conditions import USER_ID, compile_reader
from flags.engine.types import Attributes, Configuration, Context
from flags.recent_users.names import names_of_document
from flags.recent_users.sources import names_of_experiments

LONGEST_VALUE = 1_000
"""In bytes of JSON. The sample leaves out values that are longer."""
LONGEST = 8_000
"""The most bytes of JSON of all values of a user. The sample leaves out what goes beyond it."""


def names_in_use(environment_key: str, configuration: Configuration) -> frozenset[str]:
    """Return the names of the attributes that anything reads in an environment."""
    return frozenset({*names_of(configuration), *names_of_experiments(environment_key)}) - {USER_ID}


def names_of(configuration: Configuration) -> Iterator[str]:
    """Yield the names that rules and segments read, some of them several times."""
    for flag in configuration.flags.values():
        give_way()
        for rule in flag.rules:
            yield from names_of_document(rule.source)
    for segment in configuration.segments.values():
        yield from names_of_document(segment.source)


class Reader(NamedTuple):
    """Reads the attributes with certain names."""

    names: frozenset[str]
    read: Mapping[str, Callable[[Context], object]]

    @classmethod
    def of(cls, names: frozenset[str]) -> Reader:
        return cls(names, {name: compile_reader(name) for name in sorted(names)})

    def values(self, context: Context) -> dict[str, Any]:
        """Return the values that the user has, within the limits, by the names that conditions use."""
        values = ((name, read(context)) for name, read in self.read.items())
        return within_limits({name: value for name, value in values if value is not None})


def within_limits(attributes: Attributes) -> dict[str, Any]:
    """Return the attributes without values that are too long, and without those that make too much together."""
    kept: dict[str, Any] = {}
    size = 0
    for name, value in attributes.items():
        length = len(orjson.dumps(value))
        if length <= LONGEST_VALUE and size + length <= LONGEST:
            kept[name] = value
            size += length
    return kept
