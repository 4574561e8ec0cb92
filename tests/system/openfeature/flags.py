"""Flags of every type, and what an OpenFeature client must get: the same table for each language."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.system.databases import fresh_database
from tests.system.server import Keys, Server, serving

ADA = {"targetingKey": "ada", "country": "DE"}
BOB = {"targetingKey": "bob", "country": "US"}
NOBODY: dict[str, Any] = {"country": "US"}
"""A context without a targeting key."""

_GERMANY = {"type": "attribute", "conditions": [{"attribute": "country", "operator": "equals", "value": "DE"}]}
_SMALL = {"columns": 2, "title": "Small", "beta": None, "sizes": [1, 2.5]}
_LARGE = {"columns": 4, "title": "Größe «L» 🎉", "nested": {"deep": [True, {}]}}


def _values(kind: str, **values: Any) -> dict[str, Any]:
    return {"type": kind, "variants": [{"key": key, "value": value} for key, value in values.items()]}


FLAGS: list[dict[str, Any]] = [
    {"key": "plain", "enabled": True},
    {"key": "switched-off"},
    {"key": "dotted.key_2-x", "enabled": True},
    {"key": "germany", "enabled": True, "rules": [{**_GERMANY, "name": "Germans"}]},
    {"key": "half", "enabled": True, "rules": [{"type": "percentage", "percentage": 50}]},
    {"key": "dependent", "enabled": True, "prerequisites": [{"flag": "switched-off"}]},
    {"key": "beta", "enabled": True, **_values("boolean", yes=True, no=False)},
    {
        "key": "colour",
        "enabled": True,
        "rules": [{**_GERMANY, "variant": "sea"}],
        **_values("string", sea="#08f", sun=""),
    },
    {"key": "dull-colour", **_values("string", sea="#08f", sun="")},
    {"key": "limit", "enabled": True, **_values("number", few=10, many=9007199254740991)},
    {
        "key": "price",
        "enabled": True,
        "rules": [{**_GERMANY, "variant": "full"}],
        **_values("number", full=5, less=2.5),
    },
    {"key": "layout", "enabled": True, "rules": [_GERMANY], **_values("object", large=_LARGE, small=_SMALL)},
    {
        "key": "button",
        "enabled": True,
        "rules": [{"type": "users", "userIds": ["ada"], "split": [{"variant": "buy", "weight": 1}]}],
        **_values("string", buy="Buy", get="Get"),
    },
]


@dataclass(frozen=True)
class Case:
    """One question to a client, and its answer. The type of the default names the method that is
    called.
    """

    flag: str
    default: Any
    context: dict[str, Any]
    value: Any
    variant: str | None = None
    reason: str = "ERROR"
    error: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    """The rule, as a client with a server key sees it."""

    def __str__(self) -> str:
        return f"{self.flag} as {type(self.default).__name__} for {self.context.get('targetingKey', 'nobody')}"


_RULE = {"rule": 0}
CASES = [
    Case("plain", False, ADA, True, "on", "STATIC"),
    Case("plain", False, NOBODY, True, "on", "STATIC"),
    Case("dotted.key_2-x", False, BOB, True, "on", "STATIC"),
    Case("switched-off", True, ADA, False, "off", "DISABLED"),
    Case("germany", False, ADA, True, "on", "TARGETING_MATCH", metadata={"rule": 0, "ruleName": "Germans"}),
    Case("germany", True, BOB, False, "off", "UNKNOWN"),
    Case("germany", True, NOBODY, False, "off", "UNKNOWN"),
    Case("half", False, ADA, True, "on", "SPLIT", metadata=_RULE),
    Case("half", True, BOB, False, "off", "SPLIT"),
    Case("half", True, NOBODY, True, error="TARGETING_KEY_MISSING"),
    Case("dependent", True, ADA, False, "off", "UNKNOWN"),
    Case("beta", False, BOB, True, "yes", "STATIC"),
    Case("colour", "none", ADA, "#08f", "sea", "TARGETING_MATCH", metadata=_RULE),
    Case("colour", "none", BOB, "", "sun", "UNKNOWN"),
    Case("dull-colour", "none", ADA, "", "sun", "DISABLED"),
    Case("button", "none", ADA, "Buy", "buy", "SPLIT", metadata=_RULE),
    Case("limit", 1, ADA, 10, "few", "STATIC"),
    Case("price", 1.5, ADA, 5.0, "full", "TARGETING_MATCH", metadata=_RULE),
    Case("price", 1.5, BOB, 2.5, "less", "UNKNOWN"),
    Case("layout", {}, ADA, _LARGE, "large", "TARGETING_MATCH", metadata=_RULE),
    Case("layout", {}, BOB, _SMALL, "small", "UNKNOWN"),
    Case("unheard-of", "mine", ADA, "mine", error="FLAG_NOT_FOUND"),
    Case("plain", "mine", ADA, "mine", error="TYPE_MISMATCH"),
    Case("colour", False, ADA, False, error="TYPE_MISMATCH"),
    Case("layout", 7, ADA, 7, error="TYPE_MISMATCH"),
]


@contextmanager
def serving_flags(folder: Path, demo: tuple[str, Keys], **settings: str) -> Iterator[Server]:
    """A server that clients reach without a proxy, with these flags and those of the demo."""
    template, keys = demo
    with (
        fresh_database(folder, template) as url,
        serving(folder, url, keys=keys, DEBUG="true", **settings) as running,
    ):
        create_flags(running)
        yield running


def create_flags(server: Server) -> None:
    for flag in FLAGS:
        created = server.ask("POST", "/v1/flags", json=flag)
        assert created.status_code == 201, created.text
