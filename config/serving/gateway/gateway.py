"""What granian calls for each request: it decides which thread serves the request, and what it may wait for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from typing import Any

from django.conf import settings
from django.http import HttpResponse

from config.admin.failure_pages import BUSY, LATE, Failure, show
from config.api.authentication import caller_without_session
from config.database.connections import WouldWait, forbid_waiting, may_wait, waiting_forbidden
from config.monitoring import metrics
from config.monitoring.counting import measure
from config.serving.fast_lane import MAX_BYTES as MAX_BYTES_OF_LANE
from config.serving.fast_lane import Admitted, Attempted, FastLane, Operation, served_operations
from config.serving.gateway.admission import Admission, admit, is_of_browser, view_of
from config.serving.gateway.bodies import Body, BodyCutOff, Discarder, Readers, TooManyBodies, Withheld
from config.serving.gateway.crew import Crew
from config.serving.gateway.exchange import Exchange, Flag, GranianProtocol
from config.serving.gateway.measuring import PROBE, subject_of_view
from config.serving.gateway.pools import Budget, Gatherer, Pool, Task
from config.serving.gateway.timekeeper import Cutter, DiscardCutter, Timekeeper
from config.serving.probes import report
from config.serving.wsgi import Application

SERVING_THREADS = 2
"""How many of granian's threads serve at a time. More of them only take the interpreter from each other."""
BODIES, BODIES_OF_BROWSERS, DISCARDED = 40, 8, 8
"""How many of granian's threads may wait for bodies, by who sends them."""
BODIES_OF_ONE, DISCARDED_OF_ONE = 30, 4
"""How many of them may wait for bodies that are sent with the same key."""
MAX_THREADS = BODIES + BODIES_OF_BROWSERS + DISCARDED + 8
"""All of granian's threads in a worker. The last eight never wait."""
EVALUATING_THREADS = 4
"""Threads for evaluations that the fast lane leaves to Django, or that need the database. None waits for it for long:
see `config.database.outages`.
"""
MAX_WAITING = 1000
"""How many requests may wait for a thread of a pool."""
MAX_BYTES = 128 * 1024**2
"""How much memory the bodies may take that are read for Django."""

_BASE = {
    "SCRIPT_NAME": settings.SCRIPT_NAME,
    "wsgi.errors": sys.stderr,
    "wsgi.multiprocess": True,
    "wsgi.multithread": True,
    "wsgi.run_once": False,
    "wsgi.version": (1, 0),
}

_PREFIX = f"{settings.SCRIPT_NAME}/" if settings.SCRIPT_NAME else ""


@dataclass(eq=False, slots=True)
class LaneTask(Task):
    """A request that the lane serves together with others. `run` serves it alone."""

    exchange: Exchange
    admitted: Admitted


class Gateway:
    """Takes requests from granian."""

    def __init__(self, application: Application | FastLane, is_stopping: Flag) -> None:
        self._lane = application if isinstance(application, FastLane) else None
        self._django: Any = application.application if isinstance(application, FastLane) else application
        self._is_stopping = is_stopping
        self._crew = Crew(SERVING_THREADS, prepare=forbid_waiting)
        self._readers = Readers(BODIES, settings.BODY_TIMEOUT, most_of_one=BODIES_OF_ONE)
        self._readers_of_browsers = Readers(BODIES_OF_BROWSERS, settings.BODY_TIMEOUT)
        self._discarder = Discarder(DISCARDED, most_of_one=DISCARDED_OF_ONE)
        self._bytes = Budget(MAX_BYTES)
        limits: Any = {"most_waiting": MAX_WAITING, "seconds": settings.DATABASE_TIMEOUT}
        self._evaluations: Pool[Task] = Pool("evaluation", EVALUATING_THREADS, **limits)
        self._others: Pool[Task] = Pool("database", settings.THREADS, **limits)
        self._together = Gatherer("events", self._perform_together, **limits)
        cutters: list[Cutter | DiscardCutter] = [DiscardCutter(self._discarder)]
        cutters += [Cutter(readers, self._cut) for readers in (self._readers, self._readers_of_browsers)]
        self._timekeeper = Timekeeper(cutters, [self._evaluations, self._others, self._together])

    def start(self) -> None:
        """Start the threads that watch the others."""
        self._crew.start()
        self._timekeeper.start()
        measure(self._measure)

    def _measure(self) -> None:
        pools = (self._evaluations, self._others, self._together)
        for pool in pools:
            metrics.queue_length.set(pool.count_waiting(), pool.name)
            metrics.pool_threads.set(pool.most_threads, pool.name)
            metrics.pool_busy.set(pool.count_busy(), pool.name)
        metrics.pool_threads.set(MAX_THREADS, "serving")
        metrics.pool_busy.set(self._crew.count_busy(), "serving")
        metrics.bodies.set(self._readers.count(), "key")
        metrics.bodies.set(self._readers_of_browsers.count(), "browser")
        metrics.bodies.set(self._discarder.count(), "refused")

    def __call__(self, protocol: GranianProtocol, scope: dict[str, Any]) -> None:
        self._crew.call(self._take, protocol, scope)

    def _take(self, protocol: GranianProtocol, scope: dict[str, Any]) -> bool:
        """Serve a request in this thread of granian's, or leave it to a thread of a pool.

        Returns whether all of the body was read. If not, the connection ends only once granian has its thread back.
        """
        environ: dict[str, Any] = _BASE | scope
        raw = scope["wsgi.input"]
        if _PREFIX and f"{environ['PATH_INFO']}/".startswith(_PREFIX):  # a proxy may have removed it
            environ["PATH_INFO"] = environ["PATH_INFO"][len(_PREFIX) - 1 :] or "/"
        exchange = Exchange(protocol, environ, self._is_stopping)
        try:
            if not self._serve_in_lane(exchange, raw):
                self._leave_to_django(exchange, raw)
        except TooManyBodies:
            self._refuse(exchange)
        except (Exception, WouldWait):
            exchange.fail()
        return exchange.is_read

    def _serve_in_lane(self, exchange: Exchange, raw: Any) -> bool:
        """Return whether the request has, or will get, its answer."""
        if self._lane is None:
            return False
        exchange.environ["wsgi.input"] = Body(exchange, raw, self._readers, time.monotonic())
        admitted = self._lane.admit(exchange.environ)
        if admitted is not None:
            exchange.subject = subject_of_view(admitted.call.operation.view, "POST")
        if admitted is not None and admitted.call.operation.handle_together is not None:
            run, give_up = partial(self._perform, exchange, admitted), partial(self._refuse, exchange)
            if not self._together.submit(LaneTask(partial(_do, run, exchange), give_up, exchange, admitted)):
                give_up()
        elif admitted is not None:
            self._perform(exchange, admitted)
        return admitted is not None or exchange.is_cut

    def _perform(self, exchange: Exchange, admitted: Admitted) -> None:
        """Do what the lane does for this request, here or, if that waits for the database, in a pool."""
        assert self._lane is not None  # noqa: S101 (it has admitted the request)
        try:
            served = self._lane.perform(admitted)
        except WouldWait:
            self._submit(exchange, partial(self._perform, exchange, admitted), self._pool_for(exchange.environ))
            return
        if served is not None:
            exchange.answer(*served)
        elif may_wait():
            self._call_django(exchange)
        else:
            self._submit_to_django(exchange)

    def _perform_together(self, requests: Sequence[LaneTask]) -> None:
        """Do what the lane does for requests whose operations serve several of them together."""
        assert self._lane is not None  # noqa: S101 (it has admitted the requests)
        by_operation: dict[Operation, list[LaneTask]] = {}
        for request in requests:
            by_operation.setdefault(request.admitted.call.operation, []).append(request)
        for several in by_operation.values():
            replies = self._lane.attempt_together([request.admitted for request in several])
            for request, reply in zip(several, replies, strict=True):
                _do(partial(self._finish, request.exchange, request.admitted, reply), request.exchange)

    def _finish(self, exchange: Exchange, admitted: Admitted, reply: Attempted) -> None:
        assert self._lane is not None  # noqa: S101 (it has admitted the request)
        served = self._lane.finish(admitted, reply)
        if served is not None:
            exchange.answer(*served)
        else:
            self._submit_to_django(exchange)

    def _leave_to_django(self, exchange: Exchange, raw: Any) -> None:
        """Have Django serve a request, once its body is read if the caller may send one."""
        environ = exchange.environ
        admission = admit(environ)
        length, limit = int(environ.get("CONTENT_LENGTH") or 0), settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        exchange.is_read = admission is Admission.NO_BODY
        if exchange.is_read and (response := report(environ, is_stopping=bool(self._is_stopping.value))) is not None:
            exchange.subject = PROBE
            exchange.respond(response)
            return
        environ["wsgi.input"] = BytesIO() if exchange.is_read else Withheld()
        if admission in (Admission.READ, Admission.READ_OF_BROWSER):
            readers = self._readers if admission is Admission.READ else self._readers_of_browsers
            # A body in chunks is read to one byte beyond the limit, so that Django refuses it.
            body = self._read(Body(exchange, raw, readers, time.monotonic()), length or limit + 1)
            if exchange.is_cut:
                exchange.end()
                return
            if body is not None:
                environ["wsgi.input"], length = BytesIO(body), len(body)
        # granian may close the connection on which a body is left, and has to say so before it knows.
        exchange.closes = length > limit or admission is Admission.WITHHOLD
        self._submit_to_django(exchange)
        # Many clients send all of a body before they read the answer.
        if admission is Admission.DISCARD or (admission is Admission.READ and length > limit):
            exchange.is_read = self._discarder.discard(exchange, raw)

    def _read(self, body: Body, size: int) -> bytes | None:
        """Return the body, or None if it has ended early. Raises TooManyBodies."""
        if not self._bytes.take(size):
            raise TooManyBodies
        body.exchange.when_over = partial(self._bytes.give_back, size)
        try:
            whole = body.read(size)
        except BodyCutOff:
            return None
        self._bytes.give_back(size - len(whole))  # of a body in chunks, whose length was not known
        body.exchange.when_over = partial(self._bytes.give_back, len(whole))
        return whole

    def _submit_to_django(self, exchange: Exchange) -> None:
        """Have Django serve a request in a pool. What probably needs no database does not queue behind what does."""
        if _is_remembered(exchange.environ):
            self._submit(exchange, partial(self._call_django_from_memory, exchange), self._evaluations)
        else:
            self._submit(exchange, partial(self._call_django, exchange), self._pool_for(exchange.environ))

    def _submit(self, exchange: Exchange, run: Callable[[], None], pool: Pool[Task]) -> None:
        """Have a thread of a pool do the rest, or refuse the request if none is free in time."""
        if not pool.submit(Task(partial(_do, run, exchange), partial(self._refuse, exchange))):
            self._refuse(exchange)

    def _pool_for(self, environ: dict[str, Any]) -> Pool[Task]:
        """Return the threads for a request: evaluations have their own, unless only the database knows who asks."""
        return self._evaluations if _is_from_memory(environ) and not is_of_browser(environ) else self._others

    def _call_django(self, exchange: Exchange) -> None:
        try:
            exchange.respond(self._django(exchange.environ, _ignore_start))
        finally:
            exchange.end()

    def _call_django_from_memory(self, exchange: Exchange) -> None:
        """Have Django serve a request here if it needs no database, and otherwise in the pool for what does."""
        try:
            with waiting_forbidden():
                response = self._django(exchange.environ, _ignore_start)
        except WouldWait:  # what was remembered has just been forgotten
            exchange.environ["wsgi.input"].seek(0)
            self._submit(exchange, partial(self._call_django, exchange), self._others)
            return
        try:
            exchange.respond(response)
        finally:
            exchange.end()

    def _refuse(self, exchange: Exchange) -> None:
        """Answer that the service has too much to do."""
        exchange.respond(self._answer(BUSY, exchange))
        exchange.end()

    def _cut(self, exchange: Exchange) -> int:
        """Answer a request whose body is late, and return the size of the answer."""
        response = self._answer(LATE, exchange)
        response.headers["Connection"] = "close"
        return exchange.cut(response)

    def _answer(self, failure: Failure, exchange: Exchange) -> HttpResponse:
        """Return a failure as a page, or as the API at this path words it, with the headers of the middleware."""
        response: HttpResponse = self._django.answer_by(show(failure), exchange.environ)
        return response


def _is_from_memory(environ: dict[str, Any]) -> bool:
    """Return whether a request asks for an evaluation, or for something else that needs no database."""
    found = served_operations().find(environ["PATH_INFO"])
    if found is not None:
        return not found[0].records
    if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
        return False
    view = view_of(environ)
    return getattr(view, "actions", {}).get("get") in getattr(getattr(view, "cls", None), "never_waits", ())


def _is_remembered(environ: dict[str, Any]) -> bool:
    """Return whether a request whose body is read is for an operation that records, but has nothing to record."""
    found, body = served_operations().find(environ["PATH_INFO"]), environ["wsgi.input"]
    if found is None or not isinstance(body, BytesIO):
        return False
    (operation, key), content = found, body.getvalue()
    if len(content) > MAX_BYTES_OF_LANE or is_of_browser(environ):
        return False
    try:
        caller = caller_without_session(environ, datetime.now(UTC))
        return caller is not None and operation.needs_no_database(caller, key, content)
    except Exception:  # Django meets the same exception, and answers it
        return False


def _do(run: Callable[[], None], exchange: Exchange) -> None:
    try:
        run()
    except (Exception, WouldWait):
        exchange.fail()


def _ignore_start(status: str, headers: list[tuple[str, str]]) -> None:
    """Stand for WSGI's `start_response`: the response that Django returns has all of this."""
