"""The thread that follows the configuration in local mode. It fetches rulesets and listens for changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from .api import Api, logger, pause_after
from .local import LocalEvaluator
from .ruleset import Ruleset, RulesetError, compile_ruleset, write_state
from .stream import Stream

_ATTEMPTS_FOR_A_REVISION = 5
_SECONDS_TO_CATCH_UP = 0.2

Changed = Callable[[Ruleset, list[str]], None]


class FetchError(Exception):
    """The ruleset cannot be fetched now. `response` is the refusal, if any."""

    def __init__(self, message: str, response: httpx.Response | None = None) -> None:
        super().__init__(message)
        self.response = response


class Follower:
    """Keeps the ruleset of an evaluator current.

    `on_change` is called with a new ruleset and the keys of the flags that differ, `on_stale` when the service stops
    answering, and `on_recovery` when it answers again.
    """

    def __init__(
        self,
        api: Api,
        evaluator: LocalEvaluator,
        *,
        environment: str | None,
        state_file: Path | None,
        poll_interval: float,
        on_change: Changed,
        on_stale: Callable[[str], None],
        on_recovery: Callable[[], None],
    ) -> None:
        self._api, self._evaluator = api, evaluator
        self._environment, self._state_file, self._poll_interval = environment, state_file, poll_interval
        self._on_change, self._on_stale, self._on_recovery = on_change, on_stale, on_recovery
        self._is_stale, self._is_announced = False, True
        self._complaint = ""
        self._refused_streams = 0
        self._stop = threading.Event()
        self._stream = Stream()
        self._thread: threading.Thread | None = None

    def start(self, *, is_current: bool, pause: float = 0.0) -> None:
        """Begin to follow, now or after a pause. Unless the ruleset is current, the next answer is announced."""
        self._stop, self._is_announced = threading.Event(), is_current
        self._thread = threading.Thread(target=self._run, args=[pause], name="halyard-rulesets", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 2.0) -> None:
        self._stop.set()
        self._stream.close()
        if self._thread is not None:
            self._thread.join(timeout)
            self._thread = None

    def fetch(self) -> bool:
        """Fetch the ruleset if it changed, and return whether it did. Raises FetchError."""
        before = self._evaluator.ruleset
        headers = {"If-None-Match": before.etag} if before is not None and before.etag else {}
        try:
            response = self._api.client.get("/v1/ruleset", headers=headers)
        except httpx.HTTPError as error:
            raise FetchError(f"the service does not answer ({type(error).__name__})") from error
        if response.status_code == 304:
            return False
        if response.status_code != 200:
            raise FetchError(f"the service answers {response.status_code} to GET /v1/ruleset", response)
        try:
            data: Any = response.json()["data"]
            etag = response.headers.get("ETag", "")
            after = compile_ruleset(data, etag, before=before, expected=self._environment)
        except (ValueError, KeyError, TypeError, RulesetError) as error:
            raise FetchError(str(error), response) from error
        self._evaluator.ruleset = after
        self._save(after, data)
        changed = after.changed_since(before)
        if before is not None and changed:
            self._on_change(after, changed)
        return True

    def _save(self, ruleset: Ruleset, data: Any) -> None:
        if self._state_file is None:
            return
        try:
            write_state(self._state_file, ruleset, data)
        except (OSError, RulesetError) as error:
            self._complain(f"The last known state cannot be saved: {error}")

    def _run(self, pause: float) -> None:
        """Fetch, and listen until the stream ends. Then begin again, after failures at growing intervals."""
        failures, stop = 0, self._stop
        while not stop.wait(pause):
            try:
                self._fetch_known()
                failures = 0
                pause = self._listen()
            except FetchError as error:
                failures += 1
                pause = pause_after(failures, error.response)
                if not stop.is_set():
                    self._become_stale(f"Flags may be out of date: {error}.")
            except Exception:  # any error: without this thread the flags would never change
                failures += 1
                pause = pause_after(failures)
                logger.exception("Following the flags failed; it begins again")

    def _fetch_known(self) -> None:
        self.fetch()
        if self._is_stale or not self._is_announced:
            self._is_stale, self._is_announced, self._complaint = False, True, ""
            self._on_recovery()

    def _listen(self) -> float:
        """Fetch what the stream announces until it ends. Return the pause before it is opened again."""
        self._stream = stream = Stream()
        if self._stop.is_set():
            return 0.0
        try:
            for revision in stream.revisions(self._api, self._revision()):
                self._reach(revision)
        except httpx.HTTPError as error:
            logger.debug("The event stream ended with %s", type(error).__name__)
        self._refused_streams = 0 if stream.was_opened else self._refused_streams + 1
        return pause_after(1 + self._refused_streams) if stream.is_offered else self._poll_interval

    def _reach(self, revision: int) -> None:
        """Fetch until the ruleset has at least this revision. Another host may learn of a change a little later."""
        for _ in range(_ATTEMPTS_FOR_A_REVISION):
            if self._revision() >= revision:
                return
            self._fetch_known()
            if self._revision() < revision and self._stop.wait(_SECONDS_TO_CATCH_UP):
                return

    def _revision(self) -> int:
        ruleset = self._evaluator.ruleset
        return 0 if ruleset is None else ruleset.revision

    def _become_stale(self, message: str) -> None:
        self._complain(message)
        if not self._is_stale:
            self._is_stale = True
            self._on_stale(message)

    def _complain(self, message: str) -> None:
        if message != self._complaint:
            self._complaint = message
            logger.warning(message)
