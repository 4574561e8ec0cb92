"""The output and exit status of `.ci/test-and-check`, with a fake `make`."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

TARGETS = ("test", "test-postgresql", "check", "test-system")
SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "test-and-check"
MAKE = """#!/bin/sh
echo "$1 begins"
sleep 0.1
{action}
echo "$1 ends"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "make").touch(mode=0o700)
    return tmp_path


def start(folder: Path, action: str) -> subprocess.Popen[str]:
    (folder / "make").write_text(MAKE.format(action=action))
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": str(folder)}
    return subprocess.Popen(
        [SCRIPT], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_all__that_pass__print_one_after_the_other_and_leave_nothing(folder: Path) -> None:
    running = start(folder, "")
    printed, complaints = running.communicate(timeout=30)
    assert (running.returncode, complaints) == (0, "")
    assert printed.splitlines() == [
        line for target in TARGETS for line in (f"=== make {target} ===", f"{target} begins", f"{target} ends")
    ]
    assert [file.name for file in folder.iterdir()] == ["make"]


@pytest.mark.parametrize("target", TARGETS)
def test_one__that_fails__is_named_after_the_others_have_ended(folder: Path, target: str) -> None:
    running = start(folder, f'if [ "$1" = {target} ]; then exit 2; fi')
    printed, complaints = running.communicate(timeout=30)
    assert (running.returncode, complaints) == (1, f"Failed: make {target}\n")
    assert printed.count(" begins") == 4
    assert printed.count(" ends") == 3


def test_all__interrupted__end_with_what_they_started(folder: Path) -> None:
    running = start(folder, 'sleep 60 & echo $! > "pid-$1"; wait')
    files = [folder / f"pid-{target}" for target in ("test", "check", "test-system")]
    wait_until(lambda: all(file.exists() and file.read_text().endswith("\n") for file in files))
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=30)
    assert running.returncode == 143
    wait_until(lambda: not any(is_running(int(file.read_text())) for file in files))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
