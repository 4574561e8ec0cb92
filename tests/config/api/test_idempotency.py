"""`Idempotency-Key`: what is sent again does nothing twice, and gets the answer of its first time."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern

from config import snapshot
from config.api.idempotency import HEADER
from config.database import idempotency
from config.database.idempotency import RETENTION, delete_expired
from config.models import Change, IdempotencyKey, Scope
from config.urls import urlpatterns
from events.models import Event
from tests.conftest import NOON, CommittingClient
from tests.factories import KeyFactory
from tests.openapi import document
from tests.transactions import case_undone

pytestmark = pytest.mark.django_db

KEY = "8e03978e-40d5-43dd-bc93-6894a57f9324"
TWO = [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]
TRACK = ("/v1/events", {"event": "buy", "userId": "ada"})
CREATIONS: dict[str, Any] = {
    "/v1/flags": {"key": "new", "enabled": True},
    "/v1/segments": {"key": "new", "userIds": ["ada"]},
    "/v1/metrics": {"key": "new", "type": "count", "event": "view"},
    "/v1/experiments": {"key": "new", "variants": TWO},
    "/v1/environments": {"key": "new", "name": "New"},
    "/v1/events": {"event": "buy", "userId": "ada"},
    "/v1/events/batch": {"events": [{"event": "buy", "userId": "ada"}, {"event": "buy"}]},
}

ELSEWHERE = ("/v1/experiments/{experiment_key}/phases", "/v1/hooks/{hook_id}", "/v1/keys")
"""Operations with tests of their own: a phase needs a running experiment, a kill switch has callers of its own, and a
secret is shown once.
"""


def post(client: Any, path: str, body: Any, key: str = KEY, **headers: str) -> Any:
    return client.post(path, body, headers={HEADER: key, **headers})


def done() -> tuple[int, int]:
    """All that a request could have done."""
    return Change.objects.latest_revision(), Event.objects.count()


def check_is_replayed(again: Any, first: Any) -> None:
    assert again["Idempotent-Replayed"] == "true"
    assert (again.status_code, again.content) == (first.status_code, first.content)


def check_is_conflict(response: Any) -> None:
    assert response.status_code == 409
    assert response.json()["error"]["code"] == "idempotency_conflict"


# --- the same request again -------------------------------------------------------------------------------------------


def test_request__sent_again__gets_the_first_answer_and_does_nothing(subtests: pytest.Subtests, api: CommittingClient):
    for path, body in CREATIONS.items():
        with subtests.test(path=path, body=body), case_undone():
            first = post(api, path, body)
            assert first.status_code in (201, 202)
            assert "Idempotent-Replayed" not in first
            before = done()
            again = post(api, path, body)
            check_is_replayed(again, first)
            for name in ("Content-Type", "Location", "ETag", "Vary", "Allow"):
                assert again.get(name) == first.get(name)
            assert again["X-Request-Id"] != first["X-Request-Id"]
            assert done() == before


def test_request__first_of_its_key__is_seen_by_the_next_request(api: CommittingClient):
    post(api, "/v1/flags", CREATIONS["/v1/flags"])
    assert api.post("/v1/flags/new/evaluate", {"userId": "ada"}).json()["data"]["enabled"]
    [change] = Change.objects.filter(kind="flag")
    assert change.key == "new"


def test_request__without_a_key_or_with_another__is_done_again(api: CommittingClient):
    path, body = TRACK
    ids = {post(api, path, body, key).json()["data"]["id"] for key in ("one", "two", "ONE", "o ne", "*" * 255)}
    ids.add(api.post(path, body).json()["data"]["id"])
    assert Event.objects.count() == len(ids) == 6


def test_request__without_a_key__asks_for_none(api: CommittingClient):
    with CaptureQueriesContext(
        connection,
    ) as asked:
        api.post(*TRACK)
    assert asked.captured_queries
    assert not [query for query in asked.captured_queries if "idempotency" in query["sql"]]


def test_request__with_a_key__costs_two_statements_and_a_transaction(api: CommittingClient):
    with CaptureQueriesContext(connection) as asked:
        post(api, *TRACK)
    ours = [query["sql"].split()[0] for query in asked.captured_queries if "idempotency" in query["sql"]]
    assert ours == ["INSERT", "UPDATE"]


def test_request__sent_as_gzip_again__is_the_same(api: CommittingClient):
    raw = b'{"event": "buy", "userId": "ada"}'
    sent = [
        api.generic("POST", "/v1/events", data, "application/json", headers={HEADER: KEY, **headers})
        for data, headers in [(raw, {}), (gzip.compress(raw, mtime=1), {"Content-Encoding": "gzip"})]
    ]
    check_is_replayed(sent[1], sent[0])


# --- another request --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/events", {"event": "buy", "userId": "bob"}),
        ("/v1/events", {"userId": "ada", "event": "buy"}),
        ("/v1/events/batch", {"event": "buy", "userId": "ada"}),
        ("/v1/flags", {"key": "new"}),
    ],
)
def test_key__sent_with_another_body_or_path__is_refused(api: CommittingClient, path: str, body: Any):
    first = post(api, *TRACK)
    before = done()
    check_is_conflict(post(api, path, body))
    assert done() == before
    check_is_replayed(post(api, *TRACK), first)


def test_key__of_another_caller_or_environment__is_another_key(
    api: CommittingClient, client_of: Callable[..., CommittingClient], settings: Any
):
    settings.ANONYMOUS_SCOPE = "manage"
    users = [CommittingClient(), CommittingClient()]
    for at, user in enumerate(users):
        user.force_login(User.objects.create_superuser(f"user-{at}"))
    anonymous = CommittingClient()
    for client in (*users, anonymous):
        client.default_format = "json"
    senders = [(each, {}) for each in (api, client_of(Scope.CLIENT), client_of(Scope.MANAGE, "staging"))]
    senders += [(each, {"X-Environment": name}) for each in (*users, anonymous) for name in ("production", "staging")]
    firsts = [post(client, *TRACK, **headers) for client, headers in senders]
    assert Event.objects.count() == len({first.json()["data"]["id"] for first in firsts}) == 9
    for (client, headers), first in zip(senders, firsts, strict=True):
        check_is_replayed(post(client, *TRACK, **headers), first)


def test_key__of_a_caller_who_may_not__learns_so_and_nothing_else(client_of: Callable[..., CommittingClient]):
    response = post(client_of(Scope.SERVER), "/v1/flags", CREATIONS["/v1/flags"])
    assert response.status_code == 403
    assert not IdempotencyKey.objects.exists()


def test_key__of_a_revoked_api_key__replays_nothing(db: None):
    key, secret = KeyFactory(name="shop")
    client = CommittingClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    client.default_format = "json"
    assert post(client, *TRACK).status_code == 202
    key.revoked_at = NOON
    key.save(update_fields=["revoked_at"])
    snapshot.reset()
    assert post(client, *TRACK).status_code == 401


def test_key__not_acceptable__is_refused_by_its_name(subtests: pytest.Subtests, api: CommittingClient):
    for key, code in [
        ("", "invalid_value"),
        (" ", "invalid_value"),
        ("k\N{LATIN SMALL LETTER E WITH ACUTE}y", "invalid_value"),
        ("k\ty", "invalid_value"),
        ("k\x7fy", "invalid_value"),
        ("k" * 256, "too_long"),
    ]:
        with subtests.test(key=key):
            response = post(api, *TRACK, key)
            assert response.status_code == 400
            error = response.json()["error"]
            assert error["code"] == "invalid_parameter"
            assert [(each["field"], each["code"]) for each in error["details"]] == [("Idempotency-Key", code)]
            assert not Event.objects.exists()


def test_key__where_nothing_is_created__means_nothing(api: CommittingClient):
    post(api, "/v1/flags", CREATIONS["/v1/flags"])
    for enabled in (False, True):
        response = api.patch("/v1/flags/new", {"enabled": enabled}, headers={HEADER: KEY})
        assert response.json()["data"]["enabled"] is enabled


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "refused", "accepted"),
    [
        ("/v1/events", {"event": "buy"}, TRACK[1]),
        ("/v1/events/batch", {"events": [{"event": "buy"}]}, {"events": [TRACK[1]]}),
        ("/v1/flags", {"key": "-"}, {"key": "new"}),
    ],
)
def test_request__refused__leaves_its_key_to_the_next(api: CommittingClient, path: str, refused: Any, accepted: Any):
    assert post(api, path, refused).status_code == 400
    assert not IdempotencyKey.objects.exists()
    assert post(api, path, accepted).status_code in (201, 202)


def test_request__that_is_no_json__leaves_its_key_to_the_next(api: CommittingClient):
    response = api.generic("POST", "/v1/events", b"{", "application/json", headers={HEADER: KEY})
    assert response.json()["error"]["code"] == "malformed_json"
    assert post(api, *TRACK).status_code == 202


def test_request__refused_because_of_what_is_there__may_succeed_later(api: CommittingClient):
    api.post("/v1/flags", {"key": "new"})
    assert post(api, "/v1/flags", {"key": "new"}).json()["error"]["code"] == "already_exists"
    api.delete("/v1/flags/new")
    assert post(api, "/v1/flags", {"key": "new"}).status_code == 201


def test_request__whose_answer_cannot_be_kept__has_done_nothing(subtests: pytest.Subtests, api: CommittingClient):
    before = done()
    for path, body in CREATIONS.items():
        with subtests.test(path=path, body=body), case_undone():
            with mock.patch("config.api.idempotency.store_response", side_effect=OperationalError("away")):
                assert post(api, path, body).status_code == 503
            assert done() == before
            assert not IdempotencyKey.objects.exists()
            assert "Idempotent-Replayed" not in post(api, path, body)


# --- for how long -----------------------------------------------------------------------------------------------------


def test_answer__within_a_day__is_given_again_and_then_no_more(api: CommittingClient):
    with time_machine.travel(NOON, tick=False) as clock:
        first = post(api, *TRACK)
        clock.move_to(NOON + RETENTION - timedelta(microseconds=1))
        check_is_replayed(post(api, *TRACK), first)
        check_is_conflict(post(api, "/v1/events", {"event": "sell", "userId": "ada"}))
        clock.move_to(NOON + RETENTION)
        second = post(api, "/v1/events", {"event": "sell", "userId": "ada"})
        assert second.status_code == 202
        clock.move_to(NOON + 2 * RETENTION - timedelta(seconds=1))
        check_is_replayed(post(api, "/v1/events", {"event": "sell", "userId": "ada"}), second)
        check_is_conflict(post(api, *TRACK))


def test_answer__kept__tells_nothing_of_what_was_sent(api: CommittingClient):
    post(api, "/v1/events", {"event": "buy", "userId": "secret-user"}, "secret-key")
    [kept] = IdempotencyKey.objects.values()
    assert all(re.fullmatch("[0-9a-f]{64}", kept[name]) for name in ("id", "request"))
    assert "secret" not in repr(kept | {"body": bytes(kept["body"])})


def make_kept(*ages: timedelta) -> None:
    IdempotencyKey.objects.bulk_create(
        IdempotencyKey(id=f"{at:064}", request="", at=NOON - age, status=202, headers={}, body=b"")
        for at, age in enumerate(ages)
    )


def test_delete_expired__answers_of_all_ages__deletes_those_of_a_day_and_more_in_short_transactions(monkeypatch):
    monkeypatch.setattr(idempotency, "_ROWS_A_TRANSACTION", 2)
    young = [timedelta(0), RETENTION - timedelta(microseconds=1)]
    make_kept(*young, RETENTION, *[RETENTION + timedelta(days=days) for days in range(4)])
    assert delete_expired(NOON) == "deleted 5 expired"
    assert sorted(NOON - kept.at for kept in IdempotencyKey.objects.all()) == young
    assert delete_expired(NOON) == "deleted 0 expired"


def test_delete_expired__key_used_anew_meanwhile__stays(monkeypatch):
    make_kept(RETENTION)
    real = IdempotencyKey.objects.last_used_until

    class Raced:
        """The row is replaced between the look and the deletion."""

        def __init__(self, moment: datetime) -> None:
            self.rows = real(moment)

        def order_by(self, *columns: str) -> Any:
            return self.rows.order_by(*columns)

        def filter(self, **conditions: Any) -> Any:
            IdempotencyKey.objects.update(at=NOON)
            return self.rows.filter(**conditions)

    monkeypatch.setattr(IdempotencyKey.objects, "last_used_until", Raced)
    assert delete_expired(NOON) == "deleted 0 expired"
    assert IdempotencyKey.objects.count() == 1


# --- the document -----------------------------------------------------------------------------------------------------


def test_document__operations_with_the_header__are_those_that_heed_it():
    described = {
        (path, method)
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
        if any(each["name"] == HEADER for each in operation.get("parameters", []))
    }
    heeding = {
        (re.sub(r"<\w+:(\w+)>", r"{\1}", f"/{pattern.pattern}"), method)
        for pattern in urlpatterns
        if isinstance(pattern, URLPattern)
        for method, action in getattr(pattern.callback, "actions", {}).items()
        if getattr(getattr(pattern.callback.cls, action), "is_idempotent", False)
    }
    assert described == heeding == {(path, "post") for path in (*CREATIONS, *ELSEWHERE)}
    for path, method in described:
        operation = document()["paths"][path][method]
        assert "idempotency_conflict" in operation["responses"]["409"]["description"]
        [success] = [response for status, response in operation["responses"].items() if status < "300"]
        assert "Idempotent-Replayed" in success["headers"]
