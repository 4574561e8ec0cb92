"""Calls as OpenFeature's clients make them."""

from __future__ import annotations

from typing import Any

BULK = "/ofrep/v1/evaluate/flags"
USER = {"targetingKey": "u"}


def one(client: Any, key: str, context: Any = USER, **headers: str) -> Any:
    return client.post(f"{BULK}/{key}", {"context": context}, **headers)


def ask(client: Any, key: str, context: Any = USER) -> Any:
    """Evaluate one flag."""
    response = one(client, key, context)
    assert response.status_code == 200, response.content
    return response.json()


def bulk(client: Any, context: Any = USER, query: str = "", **headers: str) -> Any:
    return client.post(f"{BULK}{query}", {"context": context}, **headers)


def ask_all(client: Any, context: Any = USER) -> Any:
    """Evaluate all flags."""
    response = bulk(client, context)
    assert response.status_code == 200, response.content
    return response.json()


def by_key(answer: Any) -> dict[str, Any]:
    evaluations = {evaluation["key"]: evaluation for evaluation in answer["flags"]}
    assert len(evaluations) == len(answer["flags"])
    return evaluations
