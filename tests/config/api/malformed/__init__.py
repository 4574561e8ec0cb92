"""The table of malformed requests: what each is, and the status, code and field that answer it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.config.api.malformed import bodies, events, fields, queries, requests, targeting, types
from tests.config.api.malformed.cases import Case


def cases() -> Iterator[Case]:
    """Yield the rows. Some bodies are as large as the limit allows, so they are not kept."""
    for rows in (
        types.wrong_types,
        bodies.bodies,
        bodies.values,
        bodies.sizes,
        fields.designs,
        fields.texts,
        fields.read_only,
        targeting.rules,
        targeting.values,
        targeting.segments,
        targeting.moments,
        targeting.promotions,
        targeting.in_use,
        events.events,
        queries.lists,
        queries.tampered,
        queries.filters,
        queries.choices,
        queries.results,
        queries.numbers,
        requests.paths_and_methods,
        requests.headers,
    ):
        yield from rows()
