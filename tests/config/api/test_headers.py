"""The reason of a change, as it comes off the wire, for every kind of thing that the API writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import quote

import pytest

from config.models import Change
from tests.config.api.conftest import World
from tests.config.api.wire import Answer, failure, send
from tests.transactions import case_undone


def patch(world: World, reason: str | None) -> Answer:
    headers: Mapping[str, str | None] = {"X-Change-Reason": reason}
    return send("PATCH", "/v1/flags/known", b'{"enabled": true}', headers, key=world.key)


def on_the_wire(text: str) -> str:
    """UTF-8 as WSGI hands it over: a character for each byte."""
    return text.encode().decode("latin-1")


def test_reason__of_a_write__is_kept_with_the_change(subtests: pytest.Subtests, world: World) -> None:
    for sent, kept in [
        ("Launch day", "Launch day"),
        (on_the_wire("Größer 🙂"), "Größer 🙂"),
        (quote("Größer 🙂"), "Größer 🙂"),
        ("more%20than%0Aone line", "more than\none line"),
        ("now 50% of all", "now 50% of all"),
        ("100%FF", "100%FF"),
        (None, ""),
        ("x" * 1000, "x" * 1000),
        (quote("🙂" * 1000), "🙂" * 1000),
    ]:
        with subtests.test(sent=sent, kept=kept), case_undone():
            assert patch(world, sent).status == 200
            assert Change.objects.first().reason == kept


def test_reason__that_cannot_be_kept__is_refused_and_nothing_written(subtests: pytest.Subtests, world: World) -> None:
    before = world.stored()
    for sent, code in [
        ("x" * 1001, "too_long"),
        (quote("🙂" * 1001), "too_long"),
        ("a%00b", "invalid_value"),
        ("\xfc", "invalid_value"),
        ("", "invalid_value"),
        ("  ", "invalid_value"),
    ]:
        with subtests.test(sent=sent):
            answer = patch(world, sent)
            error = failure(answer)
            assert (answer.status, error["code"]) == (400, "invalid_parameter")
            assert [(detail["field"], detail["code"]) for detail in error["details"]] == [("X-Change-Reason", code)]
            assert world.stored() == before


def test_reason__empty__says_how_to_send_what_is_not_ascii(world: World) -> None:
    [detail] = failure(patch(world, ""))["details"]
    assert "percent-encode characters other than ASCII" in detail["message"]


def test_reason__of_a_read__is_not_looked_at(world: World) -> None:
    assert send("GET", "/v1/flags/known", headers={"X-Change-Reason": "\xfc"}, key=world.key).status == 200


_DESIGN = {"key": "new", "variants": [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]}


def test_reason__of_every_operation_that_writes__is_kept(subtests: pytest.Subtests, world: World) -> None:
    for method, path, body in [
        ("POST", "/v1/flags", {"key": "new"}),
        ("PATCH", "/v1/flags/known", {"description": "new"}),
        ("DELETE", "/v1/flags/known", None),
        ("POST", "/v1/flags/known/archive", None),
        ("POST", "/v1/flags/archived/restore", None),
        ("POST", "/v1/flags/archived/revert", {"revision": 3}),
        ("POST", "/v1/segments", {"key": "new"}),
        ("PATCH", "/v1/segments/listed", {"description": "new"}),
        ("DELETE", "/v1/segments/listed", None),
        ("POST", "/v1/metrics", {"key": "new", "type": "count", "event": "view"}),
        ("PATCH", "/v1/metrics/defined", {"description": "new"}),
        ("DELETE", "/v1/metrics/defined", None),
        ("POST", "/v1/experiments", _DESIGN),
        ("PATCH", "/v1/experiments/draft", {"description": "new"}),
        ("DELETE", "/v1/experiments/draft", None),
        ("POST", "/v1/experiments/draft/start", None),
        ("POST", "/v1/experiments/running/stop", None),
    ]:
        with subtests.test(method=method, path=path), case_undone():
            raw = b"" if body is None else json.dumps(body).encode()
            assert send(method, path, raw, {"X-Change-Reason": "because"}, key=world.key).status < 300
            assert Change.objects.first().reason == "because"
