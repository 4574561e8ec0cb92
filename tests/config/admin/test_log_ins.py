"""Log-ins: they are logged, and guessing passwords ends for a while."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.test import Client

from config.monitoring.log_lines import RateLimitFilter
from tests.conftest import NOON

pytestmark = pytest.mark.django_db

HERE, THERE = "203.0.113.7", "198.51.100.1"


@pytest.fixture(autouse=True)
def _user(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.AXES_FAILURE_LIMIT = 3
    # It would write into a line how many of earlier tests it has left out.
    monkeypatch.setattr(RateLimitFilter, "filter", lambda *_: True)
    User.objects.create_user("ada", password="right", is_staff=True)
    User.objects.create_user("bob", password="right", is_staff=True)


def sign_in(name: str = "ada", password: str = "wrong", address: str = HERE) -> Any:
    return Client().post("/admin/login/", {"username": name, "password": password}, REMOTE_ADDR=address)


def test_log_in__wrong_passwords__lock_the_account_for_this_address() -> None:
    assert [sign_in().status_code for _ in range(2)] == [200, 200]
    locked = sign_in()
    assert (locked.status_code, locked.headers["Retry-After"]) == (429, "900")
    assert "Nobody can sign in to this account from your address for 15 minutes." in locked.content.decode()
    assert sign_in(password="right").status_code == 429
    assert sign_in(password="right", address=THERE).status_code == 302
    assert sign_in("bob", "right").status_code == 302


def test_log_in__after_the_time__is_possible_again() -> None:
    with time_machine.travel(NOON, tick=False) as traveller:
        assert [sign_in().status_code for _ in range(3)][-1] == 429
        traveller.shift(timedelta(minutes=16))
        assert sign_in(password="right").status_code == 302


def test_log_in__right_password__forgets_wrong_ones() -> None:
    for _ in range(3):
        assert [sign_in().status_code for _ in range(2)] == [200, 200]
        assert sign_in(password="right").status_code == 302


def test_log_in__longest_names__are_refused_and_locked_like_others() -> None:
    assert [sign_in("a" * 5000).status_code for _ in range(3)] == [200, 200, 429]
    assert sign_in("a" * 150).status_code == 200


def test_log_in__attempts__are_logged_without_the_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for name, password in (("ada", "hunter2"), ("a\nb", "hunter2"), ("ada", "right")):
        sign_in(name, password)
    lines = [record.getMessage() for record in caplog.records if record.name == "config.admin.log_ins"]
    assert lines == [
        f"Signing in as 'ada' from {HERE} failed",
        f"Signing in as 'a\\nb' from {HERE} failed",
        f"'ada' has signed in from {HERE}",
    ]
    assert "hunter2" not in caplog.text


def test_log_in__each_attempt_at_a_locked_account__is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    for password in ("wrong", "wrong", "wrong", "wrong", "right"):
        sign_in(password=password)
    lines = [record.getMessage() for record in caplog.records if record.name == "config.admin.log_ins"]
    tried = f"Signing in as 'ada' from {HERE}"
    assert lines == [f"{tried} failed"] * 2 + [f"{tried} is locked"] * 3


def test_log_in__from_an_address_that_is_not_known__is_logged_without_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    Client().force_login(User.objects.get(username="ada"))
    sign_in(address="")
    lines = [record.getMessage() for record in caplog.records if record.name == "config.admin.log_ins"]
    assert lines == ["'ada' has signed in", "Signing in as 'ada' failed"]


def test_command__checks_a_password__without_a_request() -> None:
    assert authenticate(username="ada", password="right") is not None
    assert authenticate(username="ada", password="wrong") is None
