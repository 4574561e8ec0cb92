"""The table of malformed requests: what each is, and the status, code and field that answer it."""

from __future__ import annotations

from tests.config.api.malformed import bodies, events, fields, queries, requests, types
from tests.config.api.malformed.cases import Case

CASES: list[Case] = [
    *types.wrong_types(),
    *bodies.bodies(),
    *bodies.values(),
    *bodies.sizes(),
    *fields.designs(),
    *fields.texts(),
    *fields.read_only(),
    *events.events(),
    *queries.lists(),
    *queries.tampered(),
    *queries.filters(),
    *requests.paths_and_methods(),
    *requests.headers(),
]
