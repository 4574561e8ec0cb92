"""Freshness: a write takes effect for the next request, on every worker and from every writer."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from tests.selection import number_of_examples
from tests.system.connections import ENOUGH_FOR_EVERY_WORKER, ask_separately, is_on, is_on_everywhere
from tests.system.processes import run_script, script
from tests.system.random_changes import FLAGS, USERS, RandomChanges
from tests.system.server import PROXY_HEADERS, Server, wait_until

pytestmark = pytest.mark.system

RANDOM_CHANGES = 400


def create_flag(server: Server, key: str, **values: object) -> None:
    assert server.ask("POST", "/v1/flags", json={"key": key, **values}).status_code == 201


def count_stale(server: Server, key: str, *, toggles: int) -> int:
    """Toggle on one connection, asking after each toggle on a fresh one, so that either worker
    answers.
    """
    writer = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {**server.headers(), "Content-Type": "application/json"}
    stale = 0
    for at in range(toggles):
        enabled = at % 2 == 0
        writer.request("PATCH", f"/v1/flags/{key}", json.dumps({"enabled": enabled}), headers)
        response = writer.getresponse()
        response.read()
        assert response.status == 200
        stale += is_on(server, key) is not enabled
    writer.close()
    return stale


@pytest.mark.parametrize("toggles", [1_000, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.faults])])
def test_toggle__followed_by_an_evaluation_on_a_fresh_connection__is_never_stale(server: Server, toggles: int) -> None:
    toggles = number_of_examples(toggles, connection.vendor)
    assert len(server.worker_pids()) == 2
    create_flag(server, f"toggled-{toggles}")
    assert count_stale(server, f"toggled-{toggles}", toggles=toggles) == 0


def test_toggle__seen_through_every_operation_that_shows_it__is_the_same(server: Server) -> None:
    create_flag(server, "shown")
    for enabled in (True, False) * 10:
        server.ask("PATCH", "/v1/flags/shown", json={"enabled": enabled})
        assert server.ask("GET", "/v1/flags/shown").json()["data"]["enabled"] is enabled
        listed = server.ask("GET", "/v1/flags", params={"search": "shown"}).json()["data"]
        assert [flag["enabled"] for flag in listed] == [enabled]


def test_key__made_and_revoked_by_commands__counts_for_the_next_request(server: Server) -> None:
    for _ in range(3):
        secret = server.run("manage.py", "create_key", "--name", "brief", "--scope", "server").strip()
        with server.client(key=secret) as client:
            assert client.get("/v1/flags").status_code == 200
            server.run("manage.py", "revoke_key", secret[:12])
            # On connections of their own, so that either worker is asked.
            assert {server.ask("GET", "/v1/flags", key=secret).status_code for _ in range(6)} == {401}
            assert client.get("/v1/flags").status_code == 401


def test_experiment__started__assigns_at_once_on_every_worker(server: Server) -> None:
    variants = [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]
    for at in range(10):
        assert server.ask("POST", "/v1/experiments", json={"key": f"e{at}", "variants": variants}).status_code == 201
        assert server.ask("POST", f"/v1/experiments/e{at}/start").status_code == 200
        asked = [server.ask("POST", f"/v1/experiments/e{at}/variant", json={"userId": "u"}) for _ in range(4)]
        assert {response.status_code for response in asked} == {200}
        assert server.ask("POST", f"/v1/experiments/e{at}/stop").status_code == 200
        asked = [server.ask("POST", f"/v1/experiments/e{at}/variant", json={"userId": "u"}) for _ in range(4)]
        assert {response.status_code for response in asked} == {409}


def test_flags__switched_in_one_transaction_of_another_process__are_all_on_for_the_next_request(server: Server) -> None:
    keys = [f"bulk-{at}" for at in range(20)]
    for key in keys:
        create_flag(server, key)
    for enabled in (True, False, True):
        run_script(server, f"with transaction.atomic():\n    for key in {keys!r}:\n        switch(key, {enabled})\n")
        assert {key: is_on_everywhere(server, key) for key in keys} == {key: {enabled} for key in keys}


def test_flags__switched_in_the_admin__are_so_for_the_next_request(server: Server) -> None:
    """One by its switch, and several that were selected in the list."""
    keys = ["by-hand-1", "by-hand-2", "by-hand-3"]
    for key in keys:
        create_flag(server, key)
    ids = [server.ask("GET", f"/v1/flags/{key}").json()["data"]["id"] for key in keys]
    headers = admin_headers(server)
    for wanted in ("on", "off") * 2:
        # Production is protected, so the page would ask.
        agreed = {"agreed": [f"{key} is {wanted}" for key in keys], "typed_name": "Production"}
        switch = {"switch": f"production:{wanted}", **agreed}
        pressed = server.ask("POST", f"/admin/flags/flag/{ids[0]}/toggle/", data=switch, headers=headers)
        assert pressed.status_code == 302
        assert is_on_everywhere(server, keys[0]) == {wanted == "on"}
        action = {"action": f"production:{wanted}", "_selected_action": ids[1:], **agreed}
        pressed = server.ask("POST", "/admin/flags/flag/", data=action, headers=headers)
        assert pressed.status_code == 302
        assert [is_on_everywhere(server, key) for key in keys[1:]] == [{wanted == "on"}] * 2


def admin_headers(server: Server) -> dict[str, str]:
    """Return the headers and cookies that the browser of a superuser sends with a form."""
    session = run_script(
        server,
        "from importlib import import_module\n"
        "from django.conf import settings\n"
        "from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY\n"
        "from django.contrib.auth.models import User\n"
        "user = User.objects.create_superuser('ada')\n"
        "session = import_module(settings.SESSION_ENGINE).SessionStore()\n"
        "session[SESSION_KEY] = str(user.pk)\n"
        "session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[-1]\n"
        "session[HASH_SESSION_KEY] = user.get_session_auth_hash()\n"
        "session.create()\n"
        "print(session.session_key)\n",
    ).strip()
    token = "c" * 32
    return {
        **PROXY_HEADERS,
        "Cookie": f"halyard_session={session}; halyard_csrf={token}",
        "X-CSRFToken": token,
        "Referer": f"https://127.0.0.1:{server.port}/admin/",
    }


def test_change__rolled_back__is_never_seen_and_its_revision_not_missed(server: Server) -> None:
    """Workers that look while the transaction is open, after it, and at the change that then takes
    its revision.
    """
    create_flag(server, "undecided")
    code = """
with transaction.atomic():
    switch("undecided", True)
    signal_file.signal_change()
    pause()
    transaction.set_rollback(True)
signal_file.signal_change()
pause()
"""
    for _ in range(3):
        with script(server, code) as writer:
            writer.wait_for_pause()
            for _ in range(20):
                assert is_on_everywhere(server, "undecided") == {False}
            writer.go_on()
            writer.wait_for_pause()
            assert is_on_everywhere(server, "undecided") == {False}
            writer.go_on()
        for enabled in (True, False):
            assert server.ask("PATCH", "/v1/flags/undecided", json={"enabled": enabled}).status_code == 200
            assert is_on_everywhere(server, "undecided") == {enabled}


def test_change__committed_after_a_while__is_seen_from_then_on(server: Server) -> None:
    create_flag(server, "decided")
    with script(server, 'with transaction.atomic():\n    switch("decided", True)\n    pause()\npause()\n') as writer:
        writer.wait_for_pause()
        assert is_on_everywhere(server, "decided") == {False}
        writer.go_on()
        writer.wait_for_pause()
        assert is_on_everywhere(server, "decided") == {True}
        writer.go_on()


def test_workers__after_many_random_changes__answer_as_a_server_that_has_just_started(
    start_server: Callable[..., Server],
) -> None:
    server = start_server()
    changes = RandomChanges(server, seed=5)
    for _ in range(RANDOM_CHANGES):
        changes.make_one()
        ask_separately(
            server, "/v1/evaluate", USERS[0]
        )  # either worker catches up now and then, from wherever it stands
    assert changes.done.keys() == {operation.__name__ for operation in changes.operations}
    newcomer = start_server(server.environment["DATABASE_URL"], workers=1)
    for environment in sorted(server.keys):
        key = server.keys[environment]["client"]
        for user in USERS:
            [expected] = answers(newcomer, key, user, times=1)
            assert answers(server, key, user, times=ENOUGH_FOR_EVERY_WORKER) == [expected]


def answers(server: Server, key: str, user: Mapping[str, Any], *, times: int) -> list[Any]:
    """The different accounts of all flags that so many questions get: of each by itself, and of all
    at once.
    """
    accounts: list[Any] = []
    for _ in range(times):
        one_by_one = {flag: ask_separately(server, f"/v1/flags/{flag}/evaluate", user, key=key) for flag in FLAGS}
        account = (one_by_one, ask_separately(server, "/v1/evaluate", user, key=key))
        if account not in accounts:
            accounts.append(account)
    return accounts


def test_toggle__after_the_signal_file_was_removed_and_a_worker_died__is_soon_never_stale_again(server: Server) -> None:
    """Temporary folders are cleaned by others; a worker that starts then must not share a file of
    its own.
    """
    create_flag(server, "cleaned")
    (Path(server.environment["RUNTIME_DIR"]) / "signal").unlink()
    server.replace_worker(server.worker_pids()[0])
    wait_until(lambda: count_stale(server, "cleaned", toggles=60) == 0, "the workers share one file again", 30)
