"""`manage.py serve` as an operator meets it: started, asked under load, hurt, and stopped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.system.load import ANSWERED, Question, load
from tests.system.server import ROOT, SECONDS_TO_START, SECONDS_TO_STOP, Server, wait_until
from tests.system.streams import Stream, stream_url

pytestmark = [pytest.mark.system, pytest.mark.once]

EVALUATION = b'{"data":{"enabled":true,"reason":"default"}}'


def question_for(server: Server) -> Question:
    """An evaluation of a flag that is made here."""
    assert server.ask("POST", "/v1/flags", json={"key": "asked", "enabled": True}).status_code == 201
    headers = {**server.headers("client"), "Content-Type": "application/json"}
    return Question(server.port, "/v1/flags/asked/evaluate", headers, b'{"userId": "u"}', EVALUATION)


@pytest.mark.parametrize(("threads", "on_fresh"), [("64", 32), ("4", 250)], ids=["busy", "overloaded"])
def test_serve__terminated_under_load__answers_every_request_whose_connection_it_accepted(
    start_server: Callable[..., Server], threads: str, on_fresh: int
) -> None:
    """No request is lost: accepted connections get the whole answer; after that, connections are refused.

    A kept connection may be closed after an answer with `Connection: close`, or while it is idle.
    """
    server = start_server(THREADS=threads)
    processes = server.pids()
    with load(question_for(server), processes=2, on_fresh=on_fresh, on_kept=8) as counted:
        for _ in range(20):
            assert server.answers()
        assert server.stop() == 0
    assert counted.pop(ANSWERED) > 500
    assert set(counted) <= {"refused"}
    assert not any(map(exists, processes))
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", server.port)) != 0
    assert "WARNING _granian" not in server.log.read_text()  # of more threads than cores


def exists(pid: int | None) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_serve__workers_killed__are_replaced_until_too_many_have_died(start_server: Callable[..., Server]) -> None:
    server = start_server()
    check_that_others_serve(server)
    for _ in range(4):
        check_that_both_are_replaced(server)
    assert 1 + 4 * 2 + kill_until_it_gives_up(server) > 10


def check_that_others_serve(server: Server) -> None:
    """Kill one worker. Every connection is served meanwhile."""
    first = server.worker_pids()
    assert len(first) == 2
    os.kill(first[0], signal.SIGKILL)
    # Half of these wait in the queue of the worker that is no more.
    for _ in range(40):
        assert server.ask("GET", "/v1/flags").status_code == 200
    wait_until(lambda: len(server.worker_pids()) == 2, "the worker is replaced", 30)
    assert first[0] not in server.worker_pids()


def check_that_both_are_replaced(server: Server) -> None:
    before = server.worker_pids()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: len(server.worker_pids()) == 2 and not {*server.worker_pids()} & {*before},
        "both workers are replaced",
        30,
    )
    assert server.ask("GET", "/v1/flags").status_code == 200


def kill_until_it_gives_up(server: Server) -> int:
    """Kill workers as soon as there are any, until the server ends with an error, and return how many."""
    process = server.process
    assert process is not None
    killed: set[int] = set()

    def has_given_up() -> bool:
        for pid in {*server.worker_pids()} - killed:
            killed.add(pid)
            with suppress(ProcessLookupError):  # the server has ended it by itself
                os.kill(pid, signal.SIGKILL)
        return process.poll() is not None

    wait_until(has_given_up, "the server gives up", 60)
    assert process.returncode == 1
    assert "workers died within" in server.log.read_text()
    return len(killed)


def test_serve__main_process_killed__its_processes_end_and_store_what_they_counted(
    start_server: Callable[..., Server],
) -> None:
    server = start_server()
    url = stream_url(server)  # before there is a flag, because this evaluates all of them
    assert server.ask("POST", "/v1/flags", json={"key": "counted", "enabled": True}).status_code == 201
    for _ in range(30):
        assert server.ask("POST", "/v1/flags/counted/evaluate", json={"userId": "ada"}).status_code == 200
    with closing(Stream(url)) as stream:
        pids = {*server.worker_pids(), server.stream_pid()}
        assert server.process is not None
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        stream.wait_for_end()
    wait_until(lambda: not any(map(exists, pids)), "its processes end", 30)
    server.kill()
    server.start()
    assert server.ask("GET", "/v1/flags/counted/usage").json()["data"]["total"] == 30


def test_serve__fork_server__has_one_thread_and_no_connection(server: Server) -> None:
    [pid] = server.fork_server_pids()
    assert len([*Path(f"/proc/{pid}/task").iterdir()]) == 1
    names = [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()]
    # The one on which it is asked for processes.
    assert len([name for name in names if name.startswith("socket:")]) == 1
    assert not [name for name in names if "sqlite" in name or "runtime" in name]


def test_serve__fork_server_killed__is_replaced_with_all_that_it_started(start_server: Callable[..., Server]) -> None:
    server = start_server()
    before = {*server.fork_server_pids(), *server.worker_pids(), server.stream_pid()}
    os.kill(server.fork_server_pids()[0], signal.SIGKILL)
    for _ in range(20):
        assert server.ask("GET", "/v1/flags").status_code == 200
    wait_until(lambda: len(server.worker_pids()) == 2 and bool(server.stream_pid()), "all serve", SECONDS_TO_START)
    assert not {*server.fork_server_pids(), *server.worker_pids(), server.stream_pid()} & before
    wait_until(lambda: not any(map(exists, before)), "the others end", SECONDS_TO_STOP)
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--port", "{port}"), "Cannot listen on 127.0.0.1, port {port}: Address already in use."),
        (("--port", "65536"), "Cannot listen on 127.0.0.1, port 65536: ports go from 0 to 65535."),
        (
            ("--port", "0", "--stream-port", "{port}"),
            "Cannot listen on 127.0.0.1, port {port}: Address already in use.",
        ),
        (("--host", "host.invalid"), "Cannot listen on host.invalid, port 8000: "),
        (("--host", "192.0.2.1"), "Cannot listen on 192.0.2.1, port 8000: Cannot assign requested address."),
        (("--workers", "0"), "--workers must be 1 or more."),
    ],
)
def test_serve__address_that_it_cannot_have__says_so_in_one_line(
    server: Server, arguments: tuple[str, ...], expected: str
) -> None:
    refused = server.try_to_run("manage.py", "serve", *(argument.format(port=server.port) for argument in arguments))
    assert refused.returncode == 1
    assert refused.stdout == ""
    [line] = refused.stderr.splitlines()
    assert line.startswith(f"CommandError: {expected.format(port=server.port)}")


def test_serve__insecure_setting_in_production__refuses_to_start_and_names_it(server: Server) -> None:
    refused = subprocess.run(
        [sys.executable, "manage.py", "serve", "--port", "0"],
        cwd=ROOT,
        env={**server.environment, "ANONYMOUS_SCOPE": "manage", "SECRET_KEY": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 1
    assert "ANONYMOUS_SCOPE is insecure with DEBUG off" in refused.stderr
    assert "SECRET_KEY is insecure with DEBUG off" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("seconds", [0, 0.5, 1.5])
def test_serve__interrupted_at_a_terminal_while_it_starts__ends_without_a_traceback(
    server: Server, tmp_path: Path, seconds: float
) -> None:
    process = subprocess.Popen(
        [sys.executable, "manage.py", "serve", "--port", "0", "--workers", "2"],
        cwd=ROOT, env={**server.environment, "RUNTIME_DIR": str(tmp_path)}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline().startswith("Halyard serves")
    time.sleep(seconds)  # of the time in which its processes load the code
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=SECONDS_TO_STOP)
    assert (process.returncode in (0, 130), errors) == (True, "")  # before or after it listens to signals
