"""What `experiments` knows of recent users. `flags` does not know experiments, so these register two functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from config.models import Environment
from config.snapshot import yield_cpu
from flags.engine.conditions import USER_ID
from flags.engine.types import Configuration
from flags.usage.attributes import names_of_document


class Names(Protocol):
    """Return the names of the attributes that experiments of the environment with this key read."""

    def __call__(self, environment_key: str) -> Iterable[str]: ...


class Variants(Protocol):
    """Return the stored variants of recent users in experiments with these keys, by user id and experiment key."""

    def __call__(self, environment: Environment, experiments: Collection[str]) -> Mapping[str, Mapping[str, str]]: ...


@dataclass(slots=True)
class _Sources:
    names: Names | None = None
    variants: Variants | None = None


_sources = _Sources()


def register(*, names: Names | None, variants: Variants | None) -> None:
    """Call these functions from now on. None stands for no function."""
    _sources.names, _sources.variants = names, variants


def names_of_experiments(environment_key: str) -> Iterable[str]:
    return () if _sources.names is None else _sources.names(environment_key)


def stored_variants(environment: Environment, experiments: Collection[str]) -> Mapping[str, Mapping[str, str]]:
    if _sources.variants is None or not experiments:
        return {}
    return _sources.variants(environment, experiments)


def names_in_use(environment_key: str, configuration: Configuration) -> frozenset[str]:
    """Return the names of the attributes that anything reads in an environment."""
    return frozenset({*names_of(configuration), *names_of_experiments(environment_key)}) - {USER_ID}


def names_of(configuration: Configuration) -> Iterator[str]:
    """Yield the names that rules and segments read, some of them several times."""
    for flag in configuration.flags.values():
        yield_cpu()
        for rule in flag.rules:
            yield from names_of_document(rule.source)
    for segment in configuration.segments.values():
        yield from names_of_document(segment.source)
