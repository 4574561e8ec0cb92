"""Requests of granian: which thread serves them, what is read of them, and what they get if there is too much to do."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pytest
from django.conf import settings

from config.models import Scope
from config.serving.gateway import gateway as module
from config.serving.gateway.bodies import Body
from config.serving.gateway.exchange import Exchange
from config.serving.wsgi import Application
from events.models import Event
from experiments.exposures import assignment
from experiments.models import Exposure
from tests.config.serving.gateway.granian import Protocol, Slow
from tests.config.serving.gateway.servers import Server, error_of
from tests.counted import counting_anew, of
from tests.factories import ExperimentFactory, KeyFactory
from tests.threads import SECONDS, Threads

pytestmark = pytest.mark.django_db(transaction=True)

EVALUATE, TRACK = "/v1/flags/f/evaluate", "/v1/events"
USER = b'{"userId": "u"}'
EVENT = b'{"event": "view", "userId": "u"}'
DRIVEN = {"key": "f", "serves": {"control": False, "green": True}}
LIMIT = 5 * 1024**2


def test_evaluation__as_most_clients_send_it__needs_no_pool(server: Server) -> None:
    answer = server.ask("POST", EVALUATE, USER)
    assert (answer.status, json.loads(answer.body)["data"]["enabled"]) == (200, True)
    assert server.evaluations.tasks == server.others.tasks == []


def test_evaluation__that_is_left_to_django__has_threads_of_its_own(server: Server) -> None:
    server.others.is_full = True
    assert server.ask("POST", EVALUATE, USER, Cookie="a=b").status == 200
    assert error_of(server.ask("POST", EVALUATE, b'{"user": 1}')) == "validation_failed"
    assert len(server.evaluations.tasks) == 2


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_ruleset__while_all_other_threads_are_taken__is_answered(server: Server, method: str) -> None:
    server.others.is_full = True
    assert server.ask(method, "/v1/ruleset").status == 200
    assert server.ask(method, "/v1/flags").status == 503
    assert server.ask(method, "/nowhere").status == 503


def test_evaluation__of_a_flag_that_an_experiment_drives__records_in_a_pool(server: Server) -> None:
    experiment = ExperimentFactory(running=True, flag=DRIVEN)
    assert server.ask("POST", EVALUATE, USER).status == 200
    assert server.evaluations.tasks
    assert Exposure.objects.filter(experiment_id=experiment.pk, user_id="u").exists()
    assert server.ask("POST", EVALUATE, USER).status == 200  # reads what was stored, and remembers it
    so_far = len(server.evaluations.tasks)
    assert server.ask("POST", EVALUATE, USER).status == 200
    assert len(server.evaluations.tasks) == so_far


def test_track__one_event__is_recorded_by_the_thread_of_events(server: Server) -> None:
    assert server.ask("POST", TRACK, EVENT).status == 202
    assert (len(server.together.tasks), server.others.tasks, server.evaluations.tasks) == (1, [], [])
    assert Event.objects.count() == 1


@pytest.fixture
def variant() -> str:
    """The path at which users of a running experiment get their variant."""
    return f"/v1/experiments/{ExperimentFactory(running=True).key}/variant"


LEFT_TO_DJANGO = pytest.mark.parametrize(
    ("has_lane", "cookie"), [(True, "a=b"), (False, None)], ids=["cookie", "no lane"]
)


@LEFT_TO_DJANGO
def test_variant__that_is_remembered_and_left_to_django__needs_no_thread_of_what_waits(
    server: Server, variant: str, has_lane: bool, cookie: str | None
) -> None:
    for _ in range(2):  # recorded, then remembered
        assert server.ask("POST", variant, USER, Cookie=cookie).status == 200
    if not has_lane:
        server.gateway._lane = None
    server.others.is_full = True
    answer = server.ask("POST", variant, USER, Cookie=cookie)
    assert (answer.status, set(json.loads(answer.body)["data"])) == (200, {"variant", "experimentId"})
    assert server.ask("POST", variant, b'{"userId": "new"}', Cookie=cookie).status == 503
    assert server.ask("POST", variant, b'{"user": 1}', Cookie=cookie).status == 503
    assert list(Exposure.objects.values_list("user_id", flat=True)) == ["u"]


@LEFT_TO_DJANGO
def test_variant__that_is_forgotten_meanwhile__is_recorded_by_a_thread_that_may_wait(
    server: Server, variant: str, has_lane: bool, cookie: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_lane:
        server.gateway._lane = None
    monkeypatch.setattr(module, "_is_remembered", lambda _: True)
    with counting_anew() as counts:
        assert server.ask("POST", variant, USER, Cookie=cookie).status == 200
    assert (len(server.evaluations.tasks), len(server.others.tasks)) == (1, 1)
    assert Exposure.objects.filter(user_id="u").count() == 1
    assert of(counts, "requests_total") == {("get_variant", "200"): 1}
    assert of(counts, "variant_answers_total") == {("database",): 1}


@pytest.mark.parametrize(("path", "body"), [(TRACK, EVENT), ("/v1/flags", b'{"key": "new"}')])
def test_request__for_which_no_thread_is_free__gets_503_and_when_to_try_again(
    server: Server, path: str, body: bytes
) -> None:
    server.others.is_full = server.together.is_full = True
    answer = server.ask("POST", path, body, X_Request_Id="r", Origin="https://shop.example")
    assert (answer.status, error_of(answer), answer.headers["Retry-After"]) == (503, "unavailable", "1")
    assert answer.headers["X-Request-Id"] == "r"
    assert not Event.objects.exists()


def test_request__that_has_waited_too_long__gets_503(server: Server) -> None:
    server.others.is_open = False
    answer = server.take("GET", "/v1/flags")
    [task] = server.others.tasks
    task.give_up()
    assert (answer.status, error_of(answer)) == (503, "unavailable")


def test_page_of_the_admin__for_which_no_thread_is_free__gets_503(server: Server) -> None:
    server.others.is_full = True
    answer = server.ask("GET", "/admin/", Authorization=None, X_Request_Id="r")
    assert (answer.status, answer.headers["Retry-After"], answer.headers["X-Frame-Options"]) == (503, "1", "DENY")
    assert b"There is too much to do now" in answer.body
    assert b"<code>r</code>" in answer.body


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_probe__without_a_free_thread_a_key_or_an_allowed_host__is_answered(server: Server, path: str) -> None:
    server.ask("POST", EVALUATE, USER)  # which loads the state
    server.others.is_full = server.evaluations.is_full = True
    answer = server.ask("GET", path, Authorization=None, Host="10.1.2.3")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")


def test_evaluation__while_the_database_is_away__needs_no_pool_for_a_flag_that_an_experiment_drives(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ExperimentFactory(running=True, flag=DRIVEN)
    for circuit in (assignment._reading, assignment._recording):
        monkeypatch.setattr(circuit, "_is_open", True)
        monkeypatch.setattr(circuit, "_next_try", float("inf"))
    assert server.ask("POST", EVALUATE, USER).status == 200
    assert server.evaluations.tasks == []
    assert not Exposure.objects.exists()


def test_evaluation__of_a_user_of_the_admin__leaves_the_threads_of_evaluations_alone(server: Server) -> None:
    cookie = f"{settings.SESSION_COOKIE_NAME}=abc"
    assert server.ask("POST", EVALUATE, USER, Authorization=None, Cookie=cookie).status == 401
    assert (len(server.others.tasks), len(server.evaluations.tasks)) == (1, 0)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", EVALUATE, {"Authorization": "Bearer unknown"}, 401),
        ("POST", EVALUATE, {"Authorization": None}, 401),
        ("POST", "/v1/flags", {"Authorization": None}, 401),
        ("POST", "/v1/flags", {"Content_Length": str(LIMIT + 1), "Authorization": "Bearer unknown"}, 401),
        ("POST", "/v1/flags", {"Content_Length": str(LIMIT + 1), "Expect": "100-continue"}, 413),
        ("POST", "/nowhere", {"Authorization": None}, 404),
        ("POST", "/admin/login/", {"Authorization": None}, 403),
    ],
)
def test_body__of_a_caller_who_is_refused__is_not_read(
    server: Server, method: str, path: str, headers: dict[str, str | None], status: int
) -> None:
    raw = Slow()
    answer = server.ask(method, path, USER, raw, **headers)
    assert (answer.status, answer.headers["Connection"]) == (status, "close")
    assert not raw.is_read.is_set()


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/v1/nowhere", {}, 404),
        ("PUT", "/v1/flags", {}, 405),
        ("POST", "/v1/flags", {"Content_Length": str(LIMIT + 1)}, 413),
    ],
)
def test_body__of_a_known_caller_whose_request_is_refused__is_thrown_away(
    server: Server, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    raw = io.BytesIO(bytes(100))
    answer = server.ask(method, path, USER, raw, **headers)
    assert (answer.status, raw.tell()) == (status, 100)
    assert answer.headers.get("Connection") == ("close" if status == 413 else None)


def test_bodies__of_one_key_that_do_not_come__leave_room_for_those_of_another(server: Server) -> None:
    environ = {"HTTP_AUTHORIZATION": f"Bearer {server.key}"}
    readers = server.gateway._readers
    for _ in range(module.BODIES_OF_ONE):
        waiting = Body(Exchange(Protocol(), environ, server.gateway._is_stopping), Slow(), readers, time.monotonic())
        readers._reading[waiting] = waiting.begun
    assert server.ask("POST", EVALUATE, USER).status == 503
    other = KeyFactory(scope=Scope.CLIENT)[1]
    assert server.ask("POST", EVALUATE, USER, Authorization=f"Bearer {other}").status == 200


def test_body__of_a_refused_request_that_does_not_come__is_late_once_there_is_an_answer(
    server: Server, threads: Threads
) -> None:
    raw, late = Slow(), server.gateway._discarder.late
    taking = threads.start(server.take, "PUT", "/v1/flags", USER, raw)
    assert raw.is_read.wait(SECONDS)
    while not late(float("inf")):
        time.sleep(0.001)
    assert late(0) == []
    raw.finish()
    assert taking.result(SECONDS).status == 405


@pytest.mark.parametrize("authorization", [None, "Bearer unknown", "Basic YTpi"])
@pytest.mark.parametrize("anonymous", ["none", "manage"])
def test_body__of_a_browser__is_read_before_the_database_says_whether_it_is_signed_in(
    server: Server, settings: Any, anonymous: str, authorization: str | None
) -> None:
    settings.ANONYMOUS_SCOPE = anonymous
    raw = io.BytesIO(b"username=a&password=b&csrfmiddlewaretoken=c")
    form = "application/x-www-form-urlencoded"
    headers = {"Authorization": authorization, "Cookie": "halyard_csrf=x", "Content_Type": form}
    assert server.ask("POST", "/admin/login/", bytes(len(raw.getvalue())), raw, **headers).status == 403
    assert raw.tell() == len(raw.getvalue())


def test_body__in_chunks__is_read_to_one_byte_beyond_the_limit_and_then_thrown_away(server: Server) -> None:
    raw = io.BytesIO(bytes(LIMIT + 1000))
    answer = server.ask("POST", "/v1/flags", USER, raw, Transfer_Encoding="chunked", Content_Length=None)
    assert (answer.status, error_of(answer), answer.headers["Connection"]) == (413, "body_too_large", "close")
    assert raw.tell() == LIMIT + 1000


def test_body__in_chunks__is_read_whole(server: Server) -> None:
    raw = io.BytesIO(b'{"key": "chunked"}')
    assert server.ask("POST", "/v1/flags", USER, raw, Transfer_Encoding="chunked", Content_Length=None).status == 201


def test_body__in_chunks__takes_no_more_memory_than_it_is_long_while_its_request_waits(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.gateway._bytes, "_left", LIMIT + 100)
    server.others.is_open = False
    sent = {"Transfer_Encoding": "chunked", "Content_Length": None}
    waiting = server.take("POST", "/v1/flags", USER, io.BytesIO(b'{"key": "waits"}'), **sent)
    assert server.ask("POST", EVALUATE, USER, io.BytesIO(USER), **sent).status == 200
    server.others.tasks[0].run()
    assert waiting.status == 201


@pytest.mark.parametrize("path", [EVALUATE, "/v1/flags"])
def test_body__that_ends_early__is_not_acted_upon(server: Server, path: str) -> None:
    raw = io.BytesIO(b'{"key": "short"}')
    answer = server.ask("POST", path, USER, raw, Content_Length="99")
    assert (answer.status, error_of(answer)) == (400, "malformed_json")


@pytest.mark.parametrize(("path", "body"), [(EVALUATE, USER), ("/v1/flags", b'{"key": "late"}')])
def test_body__that_is_late__gets_408_and_is_not_acted_upon(server: Server, path: str, body: bytes) -> None:
    answer = server.cut(path, body, server.gateway._readers, Authorization=f"Bearer {server.key}")
    assert (answer.status, error_of(answer), answer.headers["Connection"]) == (408, "body_timeout", "close")
    assert server.evaluations.tasks == server.others.tasks == []


def test_form_of_the_admin__that_is_late__gets_a_page(server: Server) -> None:
    answer = server.cut("/admin/login/", b"a=b", server.gateway._readers_of_browsers, Cookie="halyard_csrf=x")
    assert (answer.status, answer.headers["Connection"]) == (408, "close")
    assert b"Your form took too long" in answer.body


def test_body__so_many_are_read_already__gets_503(
    server: Server, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.gateway._readers, "_most", 1)
    raw = Slow()
    taking = threads.start(server.take, "POST", EVALUATE, USER, raw)
    assert raw.is_read.wait(SECONDS)
    for path in (EVALUATE, "/v1/flags"):
        assert server.ask("POST", path, USER).status == 503
    raw.finish(USER)
    assert taking.result(SECONDS).status == 200


def test_bodies__that_take_too_much_memory__get_503_until_others_are_done(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.gateway._bytes, "_left", 50)
    server.others.is_open = False
    server.take("POST", "/v1/flags", b'{"key": "first"}' + b" " * 20)
    assert server.ask("POST", "/v1/flags", b'{"key": "second"}' + b" " * 20).status == 503
    [task] = server.others.tasks
    task.give_up()
    server.others.is_open = True
    assert server.ask("POST", "/v1/flags", b'{"key": "third"}' + b" " * 20).status == 201


def test_page__that_is_a_stream__is_sent_whole(server: Server) -> None:
    answer = server.ask("GET", "/static/config/halyard.svg", Authorization=None)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "image/svg+xml")
    assert answer.body.startswith(b"<svg")


def test_server__is_stopping__closes_each_connection_with_its_answer(server: Server) -> None:
    server.gateway._is_stopping.value = 1
    for answer in (
        server.ask("POST", EVALUATE, USER),
        server.ask("GET", "/v1/flags"),
        server.ask("GET", "/static/config/halyard.svg", Authorization=None),
    ):
        assert (answer.status, answer.headers["Connection"]) == (200, "close")


@pytest.mark.parametrize("path", [EVALUATE, "/v1/flags"])
def test_gateway__defect_outside_of_djangos_handling__gets_500(
    server: Server, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(Application, "__call__", fail)
    monkeypatch.setattr(module.Gateway, "_serve_in_lane", lambda *_: False)
    assert server.ask("POST", path, USER).status == 500


def test_gateway__without_the_lane__leaves_all_to_django(threads: Threads, server: Server) -> None:
    server.gateway._lane = None
    assert server.ask("POST", EVALUATE, USER).status == 200
    assert server.ask("POST", TRACK, EVENT).status == 202
    assert (len(server.evaluations.tasks), len(server.others.tasks)) == (1, 1)
