"""A second server on the same database that leaves every request to Django, to compare the fast lane with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.benchmarks.load import Request, Sample
from tests.system.server import Server, serving

Subject = tuple[Request, list[int]]


@contextmanager
def serving_without_lane(server: Server) -> Iterator[Server]:
    """Serve with the same settings and keys, but for the lane."""
    folder = server.folder / "without-lane"
    folder.mkdir()
    copied = ("SECRET_KEY", "THREADS", "STREAM_URL")
    settings = {name: server.environment[name] for name in copied if name in server.environment}
    database = server.environment["DATABASE_URL"]
    with serving(folder, database, keys=server.keys, workers=server.workers, **settings, FAST_LANE="false") as other:
        yield other


def elsewhere(request: Request, server: Server, other: Server) -> Subject:
    """Return the same request to another server."""
    return replace(request, url=request.url.replace(server.url, other.url)), other.pids()


def ratio_of_cpu(sample: Sample, other: Sample) -> float:
    return sample.microseconds_a_request / other.microseconds_a_request


def ratio_of_rates(sample: Sample, other: Sample) -> float:
    return sample.requests_a_second / other.requests_a_second
