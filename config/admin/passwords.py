"""Checks of passwords, which take half a second of a processor each: one at a time, and behind everything else."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

from django.contrib import admin
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

MOST_AT_ONCE = 3
"""One is computed, and the others wait for it. Whatever comes besides is asked to come back."""
RETRY_AFTER_SECONDS = 3
_LOWER_PRIORITY = 10


class TooManyChecks(Exception):
    """More passwords are being checked than this process allows."""


class OneAtATimePasswordHasher(PBKDF2PasswordHasher):
    """Django's own, with the same hashes. It computes one hash at a time in each process.

    Raises TooManyChecks if others wait already, so that signing in never takes the threads of other requests.
    """

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        if not _places.acquire(blocking=False):
            raise TooManyChecks
        try:
            return _computing.submit(super().encode, password, salt, iterations).result()
        finally:
            _places.release()


def _step_back() -> None:
    """Let all other threads go first. Only on Linux has a thread a priority of its own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWER_PRIORITY)


_places = threading.BoundedSemaphore(MOST_AT_ONCE)
_computing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="passwords", initializer=_step_back)


class PasswordMiddleware:
    """Answers a request whose password cannot be checked now."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, TooManyChecks):
            return None
        context = {**admin.site.each_context(request), "title": "Try again in a moment"}
        answer = render(request, "admin/busy.html", context, status=HTTPStatus.SERVICE_UNAVAILABLE)
        answer["Retry-After"] = str(RETRY_AFTER_SECONDS)
        return answer
