"""What `flags` needs to know of experiments: the attributes that they read, and stored variants of recent users.

`experiments` registers two functions, because `flags` may not import it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from config.models import Environment
from config.snapshot import yield_cpu
from flags.engine.conditions import USER_ID
from flags.engine.types import Configuration
from flags.usage.attributes import attributes_in


class ReadNames(Protocol):
    """Return the attribute names that experiments of this environment read."""

    def __call__(self, environment_key: str) -> Iterable[str]: ...


class ReadVariants(Protocol):
    """Return stored variants of recent users in these experiments, by user id and experiment key."""

    def __call__(self, environment: Environment, experiments: Collection[str]) -> Mapping[str, Mapping[str, str]]: ...


@dataclass(slots=True)
class _Sources:
    names: ReadNames | None = None
    variants: ReadVariants | None = None


_sources = _Sources()


def register(*, names: ReadNames | None, variants: ReadVariants | None) -> None:
    """Use these functions from now on. None stands for no function."""
    _sources.names, _sources.variants = names, variants


def attributes_of_experiments(environment_key: str) -> Iterable[str]:
    return () if _sources.names is None else _sources.names(environment_key)


def stored_variants(environment: Environment, experiments: Collection[str]) -> Mapping[str, Mapping[str, str]]:
    if _sources.variants is None or not experiments:
        return {}
    return _sources.variants(environment, experiments)


def attributes_in_use(environment_key: str, configuration: Configuration) -> frozenset[str]:
    """Return the attribute names that flags, segments and experiments of an environment read."""
    return frozenset({*attributes_of(configuration), *attributes_of_experiments(environment_key)}) - {USER_ID}


def attributes_of(configuration: Configuration) -> Iterator[str]:
    """Yield the attribute names that flags and segments read, with repetitions."""
    for flag in configuration.flags.values():
        yield_cpu()
        for rule in flag.rules:
            yield from attributes_in(rule.source)
    for segment in configuration.segments.values():
        yield from attributes_in(segment.source)
