"""`POST /v1/hooks/<id>`: an alert switches the named flags off. Its token permits nothing else."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from config.models import Change, Environment, Scope
from flags.changes.flag_changes import delete_flag, get_flag, update_flag
from flags.changes.kill_switches import create_kill_switch, revoke_kill_switch
from flags.models import KillSwitch
from tests.answers import data, error
from tests.cases import undone
from tests.conftest import ACTOR, NOON, CommittingClient
from tests.factories import ExperimentFactory, FlagFactory
from tests.flags.api.test_alerts import ALERTMANAGER, GRAFANA

pytestmark = pytest.mark.django_db
WRITER: dict[str, Any] = {"actor": ACTOR, "now": NOON}


class Hook:
    """A kill switch for `shop`, which is on, and `search`, which is off; `other` is on and not named."""

    def __init__(self, environment: Environment) -> None:
        FlagFactory(key="shop", on=True)
        FlagFactory(key="search")
        FlagFactory(key="other", on=True)
        self.environment = environment
        self.switch, self.token = create_kill_switch(
            name="errors", environment=environment, flags=["shop", "search"], **WRITER
        )
        self.path = f"/v1/hooks/{self.switch.pk}"

    def call(self, body: Any, path: str = "", token: str = "", **headers: str) -> Any:
        client = CommittingClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token or self.token}")
        return client.post(path or self.path, body, format="json", headers=headers)

    def states(self) -> dict[str, bool]:
        return {key: get_flag(key, self.environment).enabled for key in ("shop", "search", "other")}


@pytest.fixture
def hook(production: Environment) -> Hook:
    return Hook(production)


def test_hook__alert__switches_the_named_flags_off(subtests: pytest.Subtests, hook: Hook) -> None:
    for body in [ALERTMANAGER, GRAFANA, {"reason": "so"}]:
        with undone(subtests, body=body):
            response = hook.call(body)
            assert data(response) == {"switchedOff": ["shop"], "alreadyOff": ["search"], "missing": []}
            assert hook.states() == {"shop": False, "search": False, "other": True}


def test_hook__alert__is_in_the_history_with_its_actor_and_reason(hook: Hook) -> None:
    hook.call(ALERTMANAGER, **{"X-Request-Id": "of-this-alert"})
    change = Change.objects.latest("revision")
    assert (change.kind, change.key, change.environment) == ("flag", "shop", "production")
    assert (change.actor, change.source, change.request) == ("kill switch errors", "api", "of-this-alert")
    assert change.reason == "Alert HighErrorRate (critical): More than 5 % of requests fail"


def test_hook__same_alert_again__changes_nothing(hook: Hook) -> None:
    hook.call(ALERTMANAGER)
    revision = Change.objects.latest_revision()
    assert data(hook.call(ALERTMANAGER)) == {"switchedOff": [], "alreadyOff": ["shop", "search"], "missing": []}
    assert Change.objects.latest_revision() == revision


def test_hook__with_an_idempotency_key__answers_the_first_answer_again(hook: Hook) -> None:
    first, second = (hook.call({"reason": "so"}, **{"Idempotency-Key": "one"}) for _ in range(2))
    assert data(first) == data(second) == {"switchedOff": ["shop"], "alreadyOff": ["search"], "missing": []}
    assert second["Idempotent-Replayed"] == "true"


def test_hook__resolved_alerts__change_nothing(hook: Hook) -> None:
    body = {**ALERTMANAGER, "status": "resolved", "alerts": [{**ALERTMANAGER["alerts"][0], "status": "resolved"}]}
    assert data(hook.call(body)) == {"switchedOff": [], "alreadyOff": [], "missing": []}
    assert hook.states()["shop"]


def test_hook__some_flags__are_the_only_ones(hook: Hook, production: Environment) -> None:
    update_flag(key="search", environment=production, changes={"enabled": True}, **WRITER)
    assert data(hook.call({"reason": "so", "flags": ["search"]}))["switchedOff"] == ["search"]
    assert hook.states() == {"shop": True, "search": False, "other": True}


def test_hook__flag_that_it_does_not_name__is_refused_with_its_own(hook: Hook) -> None:
    refusal = error(hook.call({"reason": "so", "flags": ["other"]}), 400, "validation_failed")
    assert "shop, search" in refusal["message"]
    assert refusal["details"][0]["field"] == "flags"
    assert hook.states()["other"]


def test_hook__deleted_flag__is_missing_and_the_others_are_switched(hook: Hook, production: Environment) -> None:
    delete_flag(key="search", environment=production, **WRITER)
    assert data(hook.call({"reason": "so"})) == {"switchedOff": ["shop"], "alreadyOff": [], "missing": ["search"]}


def test_hook__flag_of_another_environment__stays_as_it_is(hook: Hook, staging: Environment) -> None:
    update_flag(key="shop", environment=staging, changes={"enabled": True}, **WRITER)
    hook.call({"reason": "so"})
    assert get_flag("shop", staging).enabled


def test_hook__flag_that_an_experiment_drives__is_switched_off(production: Environment) -> None:
    FlagFactory(key="driven", on=True)
    ExperimentFactory(flag={"key": "driven", "serves": {"control": False, "green": True}}, running=True)
    switch, token = create_kill_switch(name="errors", environment=production, flags=["driven"], **WRITER)
    client = CommittingClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    response = client.post(f"/v1/hooks/{switch.pk}", {"reason": "so"}, format="json")
    assert data(response)["switchedOff"] == ["driven"]


# --- who may call it --------------------------------------------------------------------------------------------------


def test_hook__wrong_credentials__are_refused_alike(hook: Hook, api: CommittingClient, settings: Any) -> None:
    settings.ANONYMOUS_SCOPE = "manage"
    other, token = create_kill_switch(name="other", environment=hook.environment, flags=["other"], **WRITER)
    without = CommittingClient()
    by_header = CommittingClient()
    by_header.credentials(HTTP_X_API_KEY=hook.token)
    body = {"reason": "so"}
    answers = [
        without.post(hook.path, body, format="json"),
        by_header.post(hook.path, body, format="json"),
        api.post(hook.path, body, format="json"),
        hook.call(body, token=token),
        hook.call(body, path=f"/v1/hooks/{other.pk}"),
        hook.call(body, path=f"/v1/hooks/{uuid4()}"),
        hook.call(body, path="/v1/hooks/x"),
    ]
    for answer in answers:
        error(answer, 401, "unauthenticated")
        assert answer["WWW-Authenticate"] == "Bearer"
    assert hook.states()["shop"]


def test_hook__revoked__is_refused(hook: Hook) -> None:
    revoke_kill_switch(hook.switch, **WRITER)
    error(hook.call({"reason": "so"}), 401, "unauthenticated")
    assert hook.states()["shop"]


def test_token__of_a_kill_switch__opens_nothing_else(subtests: pytest.Subtests, hook: Hook) -> None:
    client = CommittingClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {hook.token}")
    for method, path in [
        ("get", "/v1/flags"), ("patch", "/v1/flags/other"), ("post", "/v1/flags/other/evaluate"),
        ("get", "/v1/audit"), ("post", "/v1/keys"),
    ]:  # fmt: skip
        with subtests.test(method=method, path=path):
            error(getattr(client, method)(path, {}, format="json" if method != "get" else None), 401, "unauthenticated")


def test_hook__other_methods__are_refused(subtests: pytest.Subtests, hook: Hook) -> None:
    client = CommittingClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {hook.token}")
    for method in ["get", "patch", "delete"]:
        with subtests.test(method=method):
            error(getattr(client, method)(hook.path), 405, "method_not_allowed")


def test_hook__body_that_is_no_json__is_a_clear_error(hook: Hook) -> None:
    client = CommittingClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {hook.token}")
    error(client.post(hook.path, b"{", content_type="application/json"), 400, "malformed_json")
    error(client.post(hook.path, b"a=b", content_type="text/plain"), 415, "unsupported_media_type")
    error(hook.call({"alerts": "x"}), 400, "validation_failed")
    error(hook.call({"reason": "so"}, path=f"{hook.path}?a=b"), 400, "invalid_parameter")


def test_hook__key_of_each_scope__does_not_open_it(hook: Hook, client_of: Any) -> None:
    for scope in Scope:
        error(client_of(scope).post(hook.path, {"reason": "so"}), 401, "unauthenticated")
    assert KillSwitch.objects.count() == 1
