"""Log lines: in text and JSON, with the id of the request, without secrets and without storms."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from config.monitoring import log_lines
from config.monitoring.log_lines import Formatter, OutageLog, RateLimitFilter, WithoutRepetition, without_secrets
from config.monitoring.request_ids import current, request_id_of


@pytest.fixture
def _request() -> Any:
    current.environ = {"HTTP_X_REQUEST_ID": "abc-1"}
    yield
    current.environ = None


def record(message: str = "It %s", *arguments: object, error: BaseException | None = None) -> logging.LogRecord:
    information = (type(error), error, error.__traceback__) if error else None
    return logging.LogRecord("config.x", logging.WARNING, __file__, 1, message, arguments, information)


def raised() -> ZeroDivisionError:
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError as error:
        return error
    raise AssertionError


def test_text__record__has_time_level_logger_and_message() -> None:
    time, level, logger, message = Formatter("text").format(record("It %s", "works")).split(" ", 3)
    assert (level, logger, message) == ("WARNING", "config.x", "It works")
    assert time.endswith("Z")


@pytest.mark.usefixtures("_request")
def test_text__record_of_a_request__names_it_once() -> None:
    assert Formatter("text").format(record("It fails")).endswith(" It fails [request abc-1]")
    assert Formatter("text").format(record("It fails, request abc-1")).endswith(" It fails, request abc-1")


@pytest.mark.usefixtures("_request")
def test_json__record__is_one_line_with_all_of_that() -> None:
    line = Formatter("json").format(record("It %s", "works\nwell"))
    assert "\n" not in line
    assert json.loads(line).items() >= {
        "level": "warning", "logger": "config.x", "message": "It works\nwell", "request": "abc-1",
    }.items()  # fmt: skip


def test_lines__exception__has_its_traceback() -> None:
    text = Formatter("text").format(record("It fails", error=raised()))
    assert text.splitlines()[1] == "Traceback (most recent call last):"
    document = json.loads(Formatter("json").format(record("It fails", error=raised())))
    assert document["exception"].endswith("ZeroDivisionError: division by zero")


def test_secrets__in_a_line__are_left_out() -> None:
    for text, clean in [
        ("key hyd_c_Ab3-_xyz is", "key hyd_c_... is"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ..."),
        ("GET /ofrep/v1/streams/x?token=abc&revision=3", "GET /ofrep/v1/streams/x?token=...&revision=3"),
        ("postgres://halyard:hunter2@db:5432/x", "postgres://halyard:...@db:5432/x"),
        ("password=hunter2 host=x", "password=... host=x"),
        ("nothing here: a/b:c", "nothing here: a/b:c"),
    ]:
        assert without_secrets(text) == clean, (text, clean)
        assert Formatter("text").format(record(text)).endswith(clean), (text, clean)
        assert json.loads(Formatter("json").format(record(text)))["message"] == clean, (text, clean)


def test_request_id__sent__is_kept_if_acceptable() -> None:
    assert request_id_of({"HTTP_X_REQUEST_ID": "a.b-c_1"}) == "a.b-c_1"
    environ = {"HTTP_X_REQUEST_ID": "no\nline"}
    assert request_id_of(environ) == request_id_of(environ) != "no\nline"


class TestRateLimitFilter:
    @pytest.fixture
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
        clock = {"now": 0.0}
        monkeypatch.setattr(log_lines.time, "monotonic", lambda: clock["now"])
        return clock

    def test_rate_limit__many_lines_of_a_kind__lets_some_pass_and_says_how_many_it_left_out(self, clock) -> None:
        rate_limit = RateLimitFilter()
        assert [rate_limit.filter(record("No %s", number)) for number in range(30)] == [True] * 20 + [False] * 10
        assert rate_limit.filter(record("Another"))
        clock["now"] = 10
        next_one = record("No %s", 30)
        assert rate_limit.filter(next_one)
        assert next_one.getMessage() == "No 30 [10 more such lines were left out before]"

    def test_rate_limit__few_lines__passes_them_as_they_are(self, clock) -> None:
        rate_limit = RateLimitFilter()
        for at in range(100):
            clock["now"] = at
            line = record("No %s", at)
            assert rate_limit.filter(line)
            assert line.getMessage() == f"No {at}"

    def test_rate_limit__endless_kinds__forgets_old_ones(self, clock) -> None:
        rate_limit = RateLimitFilter()
        for number in range(2500):
            rate_limit.filter(record(f"No {number}"))
        assert len(rate_limit._kinds) <= 1000


@pytest.mark.parametrize(
    ("status", "has_exception", "passes"), [(404, True, False), (503, False, False), (500, True, True)]
)
def test_django__answers_that_are_logged_elsewhere__are_not_logged_again(
    status: int, has_exception: bool, passes: bool
) -> None:
    line = record("Not Found: %s", "/x", error=raised() if has_exception else None)
    line.status_code = status
    assert WithoutRepetition().filter(line) is passes


@pytest.mark.django_db
def test_log__unknown_paths_and_hosts__leave_no_line(client: Any, capfd: Any, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["flags.example.com"]
    logging.config.dictConfig(settings.LOGGING)
    assert client.get("/v1/nothing").status_code == 400
    settings.ALLOWED_HOSTS = ["*"]
    assert client.get("/v1/nothing").status_code == 404
    sys.stderr.flush()
    assert capfd.readouterr().err == ""


def test_outage_log__two_outages__has_the_beginning_and_the_end_of_each(caplog: pytest.LogCaptureFixture) -> None:
    outages = OutageLog(logging.getLogger("config.x"), failing="Cannot store", working="Stored again")
    outages.succeed()
    for problem in ("first", "second"):
        for _ in range(3):
            outages.fail(OSError(problem))
        outages.succeed()
        outages.succeed()
    assert caplog.messages == [
        "Cannot store, and keep trying: first",
        "Stored again",
        "Cannot store, and keep trying: second",
        "Stored again",
    ]
