"""A service in memory, and providers that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openfeature.evaluation_context import EvaluationContext

from tests.flags.clients.python.service import Service, Watched


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def start(service: Service) -> Iterator[Callable[..., Watched]]:
    """Return a function that makes a provider, by default in local mode and initialized."""
    started: list[Watched] = []

    def start(*, initialize: bool = True, **options: Any) -> Watched:
        provider = Watched(service, **{"mode": "local", **options})
        started.append(provider)
        if initialize:
            provider.initialize(EvaluationContext())
        return provider

    yield start
    for _ in started:
        service.end_stream()
    for provider in started:
        provider.shutdown()
