"""What `experiments` knows of recent users. `flags` does not know experiments, so these register two functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from config.models import Environment


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
