"""Checks of passwords: one at a time, a few that wait, and a page that asks all others to come back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher, check_password
from django.contrib.auth.models import User
from django.test import Client

from config import settings as ours
from config.admin import passwords
from config.admin.passwords import MAX_AT_ONCE, OneAtATimePasswordHasher, TooManyChecks
from tests.admin import sign_in, text_of

LOGIN, PASSWORD = "/admin/login/", "a-long-Passphrase-1"
SALT, ITERATIONS = "salt", 2


@pytest.fixture(autouse=True)
def as_in_production(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.PASSWORD_HASHERS = ours.PASSWORD_HASHERS
    monkeypatch.setattr(PBKDF2PasswordHasher, "iterations", ITERATIONS)


@pytest.fixture
def busy() -> Iterator[None]:
    """Let as many checks run as may."""
    for _ in range(MAX_AT_ONCE):
        assert passwords._places.acquire(blocking=False)
    yield
    passwords._places.release(MAX_AT_ONCE)


@pytest.fixture
def user(db: None) -> User:
    return User.objects.create_superuser("ada", password=PASSWORD)


def encode() -> str:
    return OneAtATimePasswordHasher().encode(PASSWORD, SALT)


def test_hasher__any_password__has_the_hash_of_django() -> None:
    assert encode() == PBKDF2PasswordHasher().encode(PASSWORD, SALT)
    assert check_password(PASSWORD, encode())
    assert not check_password("another", encode())


def test_hasher__32_at_once__computes_one_and_lets_two_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    has_begun, may_end, refused = threading.Event(), threading.Event(), threading.Semaphore(0)
    running: list[int] = []
    compute = PBKDF2PasswordHasher.encode

    def slowly(*arguments: Any) -> str:
        running.append(threading.get_native_id())
        has_begun.set()
        assert may_end.wait(30)
        return compute(*arguments)

    def try_to_encode(_: int) -> str | None:
        try:
            return encode()
        except TooManyChecks:
            refused.release()
            return None

    monkeypatch.setattr(PBKDF2PasswordHasher, "encode", slowly)
    with ThreadPoolExecutor(32) as threads:
        answers = threads.map(try_to_encode, range(32))
        for _ in range(32 - MAX_AT_ONCE):
            assert refused.acquire(timeout=30)
        assert has_begun.wait(30)
        assert len(running) == 1
        may_end.set()
        hashes = [answer for answer in answers if answer is not None]
    assert hashes == [compute(OneAtATimePasswordHasher(), PASSWORD, SALT)] * MAX_AT_ONCE
    assert len(running) == MAX_AT_ONCE
    assert len(set(running)) == 1


def test_hasher__computation_that_fails__leaves_its_place_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(PBKDF2PasswordHasher, "encode", lambda *_: 1 / 0)
        for _ in range(2 * MAX_AT_ONCE):
            with pytest.raises(ZeroDivisionError):
                encode()
    assert encode()


def test_login__place_is_free__signs_in(client: Client, user: User) -> None:
    response = client.post(LOGIN, {"username": "ada", "password": PASSWORD, "next": "/admin/"})
    assert (response.status_code, response.headers["Location"]) == (302, "/admin/")


@pytest.mark.parametrize("name", ["ada", "nobody"])
def test_login__too_many_at_once__asks_to_come_back(client: Client, user: User, busy: None, name: str) -> None:
    response = client.post(f"{LOGIN}?next=/admin/", {"username": name, "password": PASSWORD})
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "3"
    assert "Yours was not checked. Nothing was saved." in text_of(response)
    assert f'href="{LOGIN}?next=/admin/"' in response.content.decode()


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/admin/auth/user/add/", {"username": "grace", "usable_password": "true"}),
        ("/admin/password_change/", {"old_password": PASSWORD}),
    ],
)
def test_password_form__too_many_at_once__changes_nothing(
    user: User, request: pytest.FixtureRequest, path: str, values: dict[str, str]
) -> None:
    client = sign_in(username="root")
    client.force_login(user)
    stored = user.password
    request.getfixturevalue("busy")
    response = client.post(path, {**values, "password1": PASSWORD, "password2": PASSWORD})
    assert response.status_code == 503
    assert User.objects.get(username="ada").password == stored
    assert not User.objects.filter(username="grace").exists()


def test_thread_of_checks__on_linux__steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr(passwords.os, "setpriority", lambda *arguments: given.extend(arguments), raising=False)
    monkeypatch.setattr(passwords.sys, "platform", "linux")
    passwords._step_back()
    assert given[1:] == [threading.get_native_id(), passwords._LOWER_PRIORITY]
