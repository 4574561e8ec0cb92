"""Signing in to the admin, by many at a time, beside evaluations."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from tests.system.server import Server, wait_until

pytestmark = [pytest.mark.system, pytest.mark.faults, pytest.mark.once]

PEOPLE, EVALUATIONS = 32, 20
SECONDS_OF_PATIENCE = 10
LOGIN = "/admin/login/"
BOTH = {200, 503}
"""The form with an error, and the page that asks to come back."""
WRONG = {"username": "ada", "password": "not-the-password"}


def test_evaluations__32_log_ins_at_a_time__are_all_answered(start_server: Callable[..., Server]) -> None:
    """One worker has fewer threads than people sign in: without a bound, they would take all of them."""
    server = start_server(workers=1, THREADS="8", LOGIN_FAILURE_LIMIT="1000000")
    assert server.ask("POST", "/v1/flags", json={"key": "known", "enabled": True}).status_code == 201
    must_stop, statuses = threading.Event(), Counter[int]()
    arguments = (server, must_stop, statuses)
    people = [threading.Thread(target=sign_in_again_and_again, args=arguments) for _ in range(PEOPLE)]
    for person in people:
        person.start()
    try:
        wait_until(lambda: evaluates(server) and statuses.keys() == BOTH, "people are let in and asked to wait", 120)
    finally:
        must_stop.set()
        for person in people:
            person.join()
    assert statuses.keys() == BOTH


def sign_in_again_and_again(server: Server, must_stop: threading.Event, statuses: Counter[int]) -> None:
    with server.client() as browser:
        del browser.headers["Authorization"]
        form = browser.get(LOGIN)
        [token] = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', form.text)
        # The cookie is for https alone, which a proxy would end.
        cookie = f"halyard_csrf={form.cookies['halyard_csrf']}"
        headers = {"Cookie": cookie, "Referer": f"https://127.0.0.1:{server.port}/"}
        while not must_stop.is_set():
            answer = browser.post(LOGIN, data={**WRONG, "csrfmiddlewaretoken": token}, headers=headers)
            statuses[answer.status_code] += 1


def evaluates(server: Server) -> bool:
    with server.client() as client:
        for at in range(EVALUATIONS):
            body = {"userId": f"user-{at}"}
            answer = client.post("/v1/flags/known/evaluate", json=body, timeout=SECONDS_OF_PATIENCE)
            assert answer.json()["data"]["enabled"] is True
    return True
