"""Event streams of a real server: every change reaches the streams that it concerns, and no others."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.system.processes import run_script
from tests.system.server import Server, wait_until
from tests.system.streams import Stream, stream_url

pytestmark = pytest.mark.system

SECONDS_OF_SILENCE = 1.5
"""Longer than any message is delayed, so that a stream without a message by then gets none."""
AWAY, BACK = "cannot follow changes", "follow changes again"

Listen = Callable[..., Stream]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Open streams, which are closed at the end of the test."""
    with ExitStack() as opened:

        def start(url: str, **options: str) -> Stream:
            stream = Stream(url, **options)
            opened.callback(stream.close)
            return stream

        yield start


def create_flag(server: Server, key: str, **values: object) -> None:
    assert server.ask("POST", "/v1/flags", json={"key": key, **values}).status_code == 201


def switch(server: Server, key: str, enabled: bool, *, environment: str = "production") -> int:
    """Switch a flag and return the revision of the change."""
    secret = server.keys[environment]["manage"]
    answer = server.ask("PATCH", f"/v1/flags/{key}", json={"enabled": enabled}, key=secret)
    assert answer.status_code == 200
    return int(answer.headers["ETag"].strip('"'))


def test_stream__flag_switched_by_the_api__tells_its_environment_of_the_revision(
    server: Server, listen: Listen
) -> None:
    create_flag(server, "by-api")
    production, staging = listen(stream_url(server)), listen(stream_url(server, key=server.keys["staging"]["client"]))
    before = int(time.time())
    revision = switch(server, "by-api", True)
    [event] = production.wait_for_events(1)
    assert event["type"] == "refetchEvaluation"
    assert (event["id"], event["etag"]) == (str(revision), str(revision))
    assert before <= event["lastModified"] <= time.time()
    switched_there = switch(server, "by-api", True, environment="staging")
    assert [event["id"] for event in staging.wait_for_events(1)] == [str(switched_there)]
    time.sleep(SECONDS_OF_SILENCE)
    assert len(production.events) == len(staging.events) == 1


def test_stream__client_asks_again_when_notified__gets_what_it_was_notified_of(server: Server, listen: Listen) -> None:
    create_flag(server, "asked-again")
    stream = listen(stream_url(server))
    for count, enabled in enumerate([True, False, True], 1):
        switch(server, "asked-again", enabled)
        event = stream.wait_for_events(count)[-1]
        answer = server.ask(
            "POST",
            "/ofrep/v1/evaluate/flags",
            params={"flagConfigEtag": event["etag"], "flagConfigLastModified": event["lastModified"]},
            json={"context": {"targetingKey": "u", "flags": ["asked-again"]}},
        )
        assert [flag["value"] for flag in answer.json()["flags"]] == [enabled]


def test_stream__flag_switched_in_another_process__is_reported(server: Server, listen: Listen) -> None:
    create_flag(server, "by-script")
    stream = listen(stream_url(server))
    run_script(server, "switch('by-script', True)")
    assert len(stream.wait_for_events(1)) == 1


def test_stream__segment_changes__is_reported_in_every_environment(server: Server, listen: Listen) -> None:
    streams = [listen(stream_url(server, key=server.keys[environment]["client"])) for environment in server.keys]
    answer = server.ask("POST", "/v1/segments", json={"key": "announced", "userIds": ["ada"]})
    assert answer.status_code == 201
    revision = answer.headers["ETag"].strip('"')
    # What an earlier test has changed or scheduled may be announced first.
    wait_until(
        lambda: all(revision in [event["id"] for event in stream.events] for stream in streams), "all hear of it", 30
    )


def test_stream__burst_of_changes__is_reported_in_few_messages_and_the_last_revision(
    server: Server, listen: Listen
) -> None:
    create_flag(server, "burst")
    stream = listen(stream_url(server))
    started = time.monotonic()
    revisions = [switch(server, "burst", at % 2 == 0) for at in range(50)]
    took = time.monotonic() - started
    wait_until(lambda: bool(stream.events) and stream.events[-1]["id"] == str(revisions[-1]), "the last arrives", 30)
    assert len(stream.events) <= 3 + took
    ids = [int(event["id"]) for event in stream.events]
    assert ids == sorted(ids)


def test_stream__scheduled_moment__is_reported_when_it_comes(server: Server, listen: Listen) -> None:
    moment = (datetime.now(UTC) + timedelta(seconds=4)).replace(microsecond=0)
    rule = {"type": "percentage", "percentage": 100, "startAt": moment.isoformat()}
    create_flag(server, "scheduled", enabled=True, rules=[rule])
    [event] = listen(stream_url(server)).wait_for_events(1)
    assert datetime.now(UTC) >= moment
    assert event["lastModified"] == int(moment.timestamp())
    assert event["etag"] == f"{event['id']}.{event['lastModified']}"
    # Every new connection would receive it for another half an hour.
    assert server.ask("DELETE", "/v1/flags/scheduled").status_code == 204


def test_stream__opened_after_a_change__begins_with_it(server: Server, listen: Listen) -> None:
    create_flag(server, "missed")
    url = stream_url(server)
    revision = switch(server, "missed", True)
    url_alone, _, answered_at = url.partition("#")
    assert int(answered_at) < revision
    assert [event["id"] for event in listen(url).wait_for_events(1)] == [str(revision)]
    heard_nothing = listen(url_alone)
    wait_until(lambda: [event["id"] for event in heard_nothing.events][-1:] == [str(revision)], "it arrives", 30)
    missed = listen(url, last_event_id=str(revision - 1))
    assert [event["id"] for event in missed.wait_for_events(1)] == [str(revision)]
    up_to_date = listen(url, last_event_id=str(revision))
    time.sleep(SECONDS_OF_SILENCE)
    assert up_to_date.events == []


def test_stream__address_that_is_not_good__is_refused_and_no_token_is_logged(server: Server, listen: Listen) -> None:
    url, _, _ = stream_url(server).partition("#")
    elsewhere = url.replace("/production?", "/staging?")
    forged = url.replace("&revision=", "x&revision=")
    for wrong in (forged, elsewhere, url.partition("?")[0], url.replace("token=", "token=%00%FF")):
        answer = httpx.get(wrong)
        assert answer.status_code == 401
        assert set(answer.json()) == {"errorDetails"}
    assert httpx.get(url.replace("/streams/", "/other/")).status_code == 404
    assert httpx.post(url).status_code == 405
    listen(url).close()
    log = server.log.read_text()
    assert "token=" not in log
    assert url.partition("token=")[2].partition("&")[0] not in log


def test_stream__key_revoked__ends_and_is_not_opened_again(server: Server, listen: Listen) -> None:
    secret = server.run("manage.py", "create_key", "--name", "brief", "--scope", "client").strip()
    url = stream_url(server, key=secret)
    revoked, other = listen(url), listen(stream_url(server))
    server.run("manage.py", "revoke_key", secret[:12])
    revoked.wait_for_end()
    assert revoked.is_complete
    assert listen(url).status == 401
    assert not other.has_ended


def test_stream__key_made_this_moment__opens_at_once(server: Server, listen: Listen) -> None:
    for _ in range(3):
        secret = server.run("manage.py", "create_key", "--name", "brief", "--scope", "client").strip()
        assert listen(stream_url(server, key=secret)).status == 200


@pytest.mark.once
def test_serve__terminated__ends_every_stream_properly_and_logs_each_that_has_ended(
    start_server: Callable[..., Server], listen: Listen
) -> None:
    server = start_server(workers=1, ACCESS_LOG="true")
    begun = time.monotonic()
    left, *streams = (listen(stream_url(server)) for _ in range(21))
    pid = server.stream_pid()
    time.sleep(0.5)  # the stream process writes its log four times a second
    assert logged_streams(server) == []
    left.close()
    wait_until(lambda: len(logged_streams(server)) == 1, "the line is written", 5)
    assert server.stop() == 0
    for stream in streams:
        stream.wait_for_end()
    assert all(stream.is_complete for stream in streams)
    assert not Path(f"/proc/{pid}").exists()
    lines = logged_streams(server)
    assert len(lines) == 21
    for line, milliseconds in lines:
        assert "token" not in line
        assert 500 <= milliseconds <= 1000 * (time.monotonic() - begun)


def logged_streams(server: Server) -> list[tuple[str, float]]:
    """Return the lines about streams in the access log, with their milliseconds."""
    pattern = (
        r".* INFO access GET /ofrep/v1/streams/production 200 ([\d.]+) ms \d+ bytes event_stream from 127.0.0.1 .*"
    )
    return [(found[0], float(found[1])) for found in re.finditer(pattern, server.log.read_text())]


def test_streams__opened_and_left__leave_nothing_behind(server: Server, listen: Listen) -> None:
    url, pid = stream_url(server), server.stream_pid()
    descriptors = Path(f"/proc/{pid}/fd")
    before = len(list(descriptors.iterdir()))
    streams = [listen(url) for _ in range(100)]
    assert len(list(descriptors.iterdir())) >= before + 100
    for stream in streams:
        stream.close()
    wait_until(lambda: len(list(descriptors.iterdir())) <= before + 5, "the connections are closed", 30)


def test_serve__stream_process_killed__comes_back_on_the_same_port(server: Server, listen: Listen) -> None:
    create_flag(server, "survives")
    workers, before = server.worker_pids(), server.stream_pid()
    assert before is not None
    url = stream_url(server)
    for stop in (signal.SIGKILL, signal.SIGTERM):
        stream, killed = listen(url), server.stream_pid()
        assert killed is not None
        os.kill(killed, stop)
        stream.wait_for_end()
        # Until it is gone it may still take somebody in, whose stream then ends at once.
        wait_until_gone(killed)
        again = listen(url)  # waits in the queue until there is somebody
        assert again.status == 200
        assert server.stream_pid() not in (None, killed)
        heard = len(again.events)
        switch(server, "survives", stop is signal.SIGKILL)
        again.wait_for_events(heard + 1)
    assert server.worker_pids() == workers


def test_streams__several_signals_at_once__end_properly(server: Server, listen: Listen) -> None:
    """As when an operator presses Ctrl-C in a terminal, which the supervisor's SIGTERM follows."""
    streams = [listen(stream_url(server)) for _ in range(20)]
    pid = server.stream_pid()
    with suppress(ProcessLookupError):
        for _ in range(20):
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
            time.sleep(0.0001)
    for stream in streams:
        stream.wait_for_end()
    assert all(stream.is_complete for stream in streams)
    wait_until_gone(pid)
    wait_until(lambda: server.stream_pid() is not None, "another one serves", 30)


def test_stream__while_the_database_is_away__stays_open_and_tells_afterwards(server: Server, listen: Listen) -> None:
    url = server.environment["DATABASE_URL"]
    if url.startswith("sqlite"):
        pytest.skip("SQLite is never away")
    away, back = (count_in_log(server, message) + 1 for message in (AWAY, BACK))
    create_flag(server, "away")
    address = stream_url(server)
    stream = listen(address)
    with psycopg.connect(url.replace("postgres://", "postgresql://")) as connection:
        name = connection.info.dbname
        other = psycopg.connect(
            connection.info.dsn, password=connection.info.password, dbname="postgres", autocommit=True
        )
    with other:
        allow = SQL("ALTER DATABASE {} ALLOW_CONNECTIONS ").format(Identifier(name))
        other.execute(allow + SQL("false"))
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        with (server.folder / "runtime" / "signal").open("r+b") as shared:
            shared.write(os.urandom(8))  # there is something to look at
        wait_until(lambda: count_in_log(server, AWAY) == away, "it says so", 30)
        assert listen(address).status == 200
        other.execute(allow + SQL("true"))
    wait_until(lambda: count_in_log(server, BACK) == back, "it is back", 30)
    answer = server.ask_after_outage("PATCH", "/v1/flags/away", json={"enabled": True})
    revision = answer.headers["ETag"].strip('"')
    wait_until(lambda: [event["id"] for event in stream.events][-1:] == [revision], "the change arrives", 30)
    assert count_in_log(server, AWAY) == away


def wait_until_gone(pid: int | None) -> None:
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the process ends", 30)


def count_in_log(server: Server, message: str) -> int:
    """How often a message was logged."""
    return server.log.read_text().count(message)
