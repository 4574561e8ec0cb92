"""Load from wrk, and the use of CPU and memory by the processes under it."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


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


@dataclass(frozen=True)
class Sample:
    """The measurements of one run of load."""

    requests_a_second: float
    microseconds_a_request: float
    milliseconds_50: float
    milliseconds_99: float


def press(request: Request, pids: Iterable[int], *, seconds: int, connections: int = 32) -> Sample:
    """Ask from so many kept connections as fast as answers come; every answer must be a good one."""
    program = shutil.which("wrk")
    if program is None:
        raise MissingTool("The benchmarks need wrk, which is not installed here: `apt-get install wrk`.")
    processes = tuple(pids)
    before = cpu_seconds(processes)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(_script(request))
        script.flush()
        command = [program, "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", script.name, request.url]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = cpu_seconds(processes) - before
    if trouble := re.search(r"Non-2xx.*|Socket errors.*", output):
        raise RuntimeError(f"{request.url}: {trouble[0]}")
    [total] = re.findall(r"(\d+) requests in", output)
    [rate] = re.findall(r"Requests/sec:\s+([\d.]+)", output)
    return Sample(float(rate), used / int(total) * 1e6, _percentile(output, 50), _percentile(output, 99))


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
