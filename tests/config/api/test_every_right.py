"""Every operation, called with each right and without it: by keys, without a key, and by users of the admin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import URLPattern
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from config.models import ApiKey, Scope
from config.urls import urlpatterns
from experiments.metrics.changes import create_metric
from flags.changes.segment_changes import create_segment
from flags.models import Flag, Segment
from tests.answers import error
from tests.config.api.calls import CALLS, KEY_ID, Call
from tests.conftest import ACTOR, NOON, CommittingClient
from tests.factories import ExperimentFactory, FlagFactory, KeyFactory, UserFactory
from tests.transactions import case_undone, rolled_back


def test_calls__of_the_matrix__are_all_operations():
    served = {
        (method.upper(), re.sub(r"<\w+:\w+>", "[^/]+", f"/{pattern.pattern}"))
        for pattern in urlpatterns
        if isinstance(pattern, URLPattern)
        for method in getattr(pattern.callback, "actions", {})
        if method != "head" and not pattern.callback.cls.own_credentials
    }
    assert len(CALLS) == len(served)
    assert all(
        any(method == call.method and re.fullmatch(path, call.path.partition("?")[0]) for call in CALLS)
        for method, path in served
    )


@pytest.fixture(scope="module")
def things_of_the_module(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with rolled_back(django_db_blocker):
        _create_things()
        yield


@pytest.fixture
def things(things_of_the_module: None, db: None) -> None:
    """The objects that the calls name."""


def _create_things() -> None:
    FlagFactory(key="known")
    create_segment(key="known", actor=ACTOR, now=NOON)
    create_metric(key="known", type="count", event="view", actor=ACTOR, now=NOON)
    ExperimentFactory(key="draft")
    ExperimentFactory(key="running", running=True)
    ExperimentFactory(key="stopped", running=True, stopped_at=timezone.now())
    key, _ = KeyFactory(name="known", common=False)
    ApiKey.objects.filter(pk=key.pk).update(id=KEY_ID)


def call_with(client: Any, call: Call, **headers: str) -> Any:
    return client.generic(
        call.method,
        call.path,
        b"" if call.body is None else client._encode_data(call.body, "json")[0],
        content_type="application/json",
        **headers,
    )


def refusal(response: Any, call: Call, status: int, code: str) -> str:
    """What the refusal says. OpenFeature's protocol has no envelope, and goes by the status alone."""
    if call.path.startswith("/ofrep/"):
        assert (response.status_code, response.json().keys()) == (status, {"errorDetails"})
        return str(response.json()["errorDetails"])
    return str(error(response, status, code)["message"])


def test_key__of_each_scope__may_do_exactly_what_its_scope_says(subtests, things, client_of):
    for scope in Scope:
        client = client_of(scope)
        for call in CALLS:
            with subtests.test(scope=scope, call=call), case_undone():
                response = call_with(client, call)
                if scope.includes(call.scope):
                    assert response.status_code == call.status, response.content
                    continue
                said = refusal(response, call, 403, "forbidden")
                assert call.scope.value in said
                assert scope.value in said
                assert not Flag.objects.filter(key="new").exists()
                assert not Segment.objects.filter(key="new").exists()


def test_no_key__is_unauthenticated_for_every_operation(subtests, things):
    for call in CALLS:
        with subtests.test(call=call), case_undone():
            response = call_with(CommittingClient(), call)
            assert "Bearer" in refusal(response, call, 401, "unauthenticated")
            assert response["WWW-Authenticate"] == "Bearer"


def test_anonymous__of_each_scope__may_do_exactly_what_its_scope_says(subtests, settings, things):
    for scope in Scope:
        settings.ANONYMOUS_SCOPE = scope.value
        for call in CALLS:
            with subtests.test(scope=scope, call=call), case_undone():
                response = call_with(CommittingClient(), call)
                if scope.includes(call.scope):
                    assert response.status_code == call.status, response.content
                else:
                    refusal(response, call, 403, "forbidden")


def test_session__with_the_permission__may(subtests, things):
    for call in CALLS:
        with subtests.test(call=call), case_undone():
            response = call_with(signed_in(UserFactory(permissions=[call.permission])), call)
            assert response.status_code == call.status, response.content


def test_session__with_every_other_permission__may_not(subtests, things):
    for call in CALLS:
        with subtests.test(call=call), case_undone():
            others = {other.permission for other in CALLS} - {call.permission}
            response = call_with(signed_in(UserFactory(permissions=others)), call)
            assert call.permission in refusal(response, call, 403, "forbidden")


def signed_in(user: User) -> CommittingClient:
    client = CommittingClient()
    client.force_login(user)
    return client
