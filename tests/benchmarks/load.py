"""Load from wrk, and the use of CPU and memory by the processes under it."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_LONGEST_ACTION = 600


EACH = "<each>"
"""A placeholder in a body, which each request replaces by another text."""


class MissingTool(Exception):
    """A program that is not installed here; the message says how to get it."""


@dataclass(frozen=True)
class Request:
    """A request that is repeated."""

    url: str
    method: str
    headers: Mapping[str, str]
    body: Any
    population: int = 0
    """The number of texts that replace `EACH`, the same in every run of load; with 0, no text is
    repeated.
    """
    pause: int = 0
    """The milliseconds for which each connection waits before a request, on average."""


@dataclass(frozen=True)
class Sample:
    """The measurements of one run of load."""

    requests_a_second: float
    microseconds_a_request: float
    milliseconds_50: float
    milliseconds_99: float
    failed: int = 0
    """Answers that were bad, or did not come in time."""


def press(request: Request, pids: Iterable[int], *, seconds: int, connections: int = 32) -> Sample:
    """Ask from so many kept connections as fast as answers come; every answer must be a good one."""
    processes = tuple(pids)
    before = cpu_seconds(processes)
    with pressing(request, seconds=seconds, connections=connections) as wrk:
        output = wrk.communicate()[0]
    sample = _sample(output, cpu_seconds(processes) - before)
    if sample.failed:
        raise RuntimeError(f"{request.url}: {sample.failed} of the answers were bad, or did not come in time")
    return sample


def press_while(requests: Sequence[Request], act: Callable[[], object], *, connections: int) -> list[Sample]:
    """Press several requests side by side, each from so many connections, for as long as an action takes.

    The samples have no CPU time, because nobody can tell whose it is. They count refusals.
    """
    with ExitStack() as stack:
        clients = [
            stack.enter_context(
                pressing(request, seconds=_LONGEST_ACTION, connections=connections, patience=_LONGEST_ACTION)
            )
            for request in requests
        ]
        try:
            act()
        finally:
            for wrk in clients:
                wrk.send_signal(signal.SIGINT)  # it then prints what it has measured
        outputs = [wrk.communicate()[0] for wrk in clients]
    return [_sample(output, 0.0) for output in outputs]


@contextmanager
def pressing(request: Request, *, seconds: int, connections: int, patience: int = 2) -> Iterator[subprocess.Popen[str]]:
    """Run wrk, which must have ended at the end of the block. An answer that takes longer than its patience is an
    error.
    """
    program = shutil.which("wrk")
    if program is None:
        raise MissingTool("The benchmarks need wrk, which is not installed here: `apt-get install wrk`.")
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(_script(request))
        script.flush()
        sizes = ["-t1", f"-c{connections}", f"-d{seconds}s", f"--timeout={patience}s"]
        command = [program, *sizes, "--latency", "-s", script.name, request.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as wrk:
            yield wrk
        if wrk.returncode != 0:
            raise subprocess.CalledProcessError(wrk.returncode, command)


def _sample(output: str, used: float) -> Sample:
    troubles = re.findall(r"Non-2xx or 3xx responses: \d+|Socket errors: .*", output)
    failed = sum(int(count) for trouble in troubles for count in re.findall(r"\s(\d+)", trouble))
    [total] = re.findall(r"(\d+) requests in", output)
    [rate] = re.findall(r"Requests/sec:\s+([\d.]+)", output)
    return Sample(float(rate), used / int(total) * 1e6, _percentile(output, 50), _percentile(output, 99), failed)


def resident_mib(pid: int) -> float:
    """Return the memory of a process, including shared pages."""
    [kib] = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(kib) / 1024


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU time of these processes and their threads so far, in user space and in the
    kernel.
    """
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_A_SECOND


def _script(request: Request) -> str:
    # A text in JSON is one in Lua too.
    headers = {**request.headers, "Content-Type": "application/json"}
    lines = [f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}" for name, value in headers.items()]
    lines.append(f"wrk.method = {json.dumps(request.method)}")
    if request.pause:  # of that length on average, because even ones would make all connections ask at once
        lines.append(f"function delay() return math.random(0, {2 * request.pause}) end")
    head, *tail = json.dumps(request.body).split(EACH)
    if tail:
        run = "user" if request.population else secrets.token_hex(4)
        number = f"count % {request.population}" if request.population else "count"
        lines.append(f"local count = {secrets.randbelow(request.population or 1)}")
        lines.append("function request()")
        lines.append("  count = count + 1")
        text = f"{json.dumps(f'{head}{run}-')} .. ({number}) .. {json.dumps(tail[0])}"
        lines.append(f"  return wrk.format(nil, nil, nil, {text})")
        lines.append("end")
    else:
        lines.append(f"wrk.body = {json.dumps(head)}")
    return "\n".join(lines)


def _percentile(output: str, percent: int) -> float:
    [(number, unit)] = re.findall(rf"^\s+{percent}%\s+([\d.]+)(us|ms|s)\s*$", output, re.MULTILINE)
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]
