"""`/metrics` of a real server: the sum over its workers, also after one was killed and while the database is away."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from functools import partial

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.system.cluster import Cluster
from tests.system.connections import ENOUGH_FOR_EVERY_WORKER
from tests.system.databases import fresh_database
from tests.system.outages import refusing
from tests.system.server import Keys, Server, serving, wait_until
from tests.system.streams import Stream, stream_url
from tests.system.test_last_known_state import has_saved, make_flag, on_postgresql

pytestmark = pytest.mark.system

Shown = dict[str, float]
EVALUATIONS, EVENTS = 'halyard_evaluations_total{outcome="fresh"}', 'halyard_events_total{status="accepted"}'
REQUESTS = 'halyard_requests_total{operation="evaluate_flag",status="200"}'
USER = {"userId": "known"}


def shown(server: Server) -> Shown:
    """Return what `/metrics` shows, by the text of each series. The request needs no key and no allowed host."""
    answer = httpx.get(f"{server.url}/metrics", headers={"Host": "10.1.2.3"}, timeout=30)
    assert answer.status_code == 200, answer.text
    found: Shown = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def shows(server: Server, series: str, value: float) -> bool:
    return shown(server).get(series) == value


def ask_every_worker(server: Server, path: str, body: object) -> list[int]:
    """Return the statuses of enough requests on connections of their own."""
    found = []
    for _ in range(ENOUGH_FOR_EVERY_WORKER):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        headers = {**server.headers("client"), "Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        response.read()
        found.append(response.status)
        connection.close()
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[str, Keys]) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    template, keys = prepared
    settings = {"METRICS_TOKEN": "the-token-of-prometheus"}
    with fresh_database(folder, template) as url, serving(folder, url, keys=keys, **settings) as running:
        yield running


@pytest.mark.once
def test_counts__of_two_workers__are_added_up_and_outlive_a_worker(server: Server) -> None:
    make_flag(server, "known")
    before, number = shown(server), ENOUGH_FOR_EVERY_WORKER
    expected = {series: before.get(series, 0) + number for series in (EVALUATIONS, EVENTS, REQUESTS)}
    for path, body in (("/v1/flags/known/evaluate", USER), ("/v1/events", {"event": "view", **USER})):
        assert set(ask_every_worker(server, path, body)) <= {200, 202}
    for series, count in expected.items():
        wait_until(partial(shows, server, series, count), f"{series} is the sum of all workers", 10)
    for killed in server.worker_pids():
        server.replace_worker(killed)
    assert {series: shown(server)[series] for series in expected} == expected
    assert shown(server)['halyard_process_deaths_total{kind="worker"}'] == 2
    ask_every_worker(server, "/v1/flags/known/evaluate", USER)
    wait_until(partial(shows, server, EVALUATIONS, expected[EVALUATIONS] + number), "the successors count on", 10)
    processes = {"worker-1", "worker-2", "streams", "supervisor"}
    assert {f'process_resident_memory_bytes{{process="{name}"}}' for name in processes} <= shown(server).keys()
    assert len({value for series, value in shown(server).items() if series.startswith("halyard_revision{")}) == 1
    refused = httpx.get(f"{server.url}/metrics", headers={"X-Forwarded-For": "10.0.0.7"})
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
    token = {"X-Forwarded-For": "10.0.0.7", "Authorization": "Bearer the-token-of-prometheus"}
    assert httpx.get(f"{server.url}/metrics", headers=token).status_code == 200


@pytest.mark.once
def test_streams__that_are_open__are_counted(server: Server) -> None:
    series = 'halyard_streams_open{process="streams"}'
    streams = [Stream(stream_url(server)) for _ in range(2)]
    wait_until(partial(shows, server, series, 2), "both streams are counted", 10)
    for stream in streams:
        stream.close()
    wait_until(partial(shows, server, series, 0), "no stream is left", 30)


@on_postgresql
def test_outage__of_the_database__is_counted_by_what_could_and_could_not_be_answered(
    cluster: Cluster, start_server: Callable[..., Server]
) -> None:
    server = start_server(cluster.url, workers=1)
    make_flag(server, "known")
    make_flag(server, "driven")
    serves = {"control": True, "green": True}
    variants = [{"key": key, "weight": 1} for key in serves]
    for body in ({"key": "e", "flag": {"key": "driven", "serves": serves}}, {"key": "free"}):
        assert server.ask("POST", "/v1/experiments", json={**body, "variants": variants}).status_code == 201
        assert server.ask("POST", f"/v1/experiments/{body['key']}/start").status_code == 200
    variant = "/v1/experiments/free/variant"
    for _ in range(2):  # the second is remembered
        assert server.ask("POST", variant, json=USER).status_code == 200
    wait_until(partial(has_saved, server), "the state is saved", 30)
    away, postponed = 'halyard_database_up{process="worker-1"}', "halyard_exposures_postponed_total{}"
    with refusing(cluster):
        wait_until(partial(shows, server, away, 0), "the database is away", 30)
        before = shown(server)
        for _ in range(3):
            assert server.ask("POST", "/v1/flags/driven/evaluate", json=USER).status_code == 200
        assert [server.ask("POST", variant, json={"userId": user}).status_code for user in ("known", "new")] == [
            200,
            503,
        ]
        assert server.ask("POST", "/v1/events", json={"event": "e", **USER}).status_code == 503
        wait_until(partial(shows, server, 'halyard_evaluations_total{outcome="stale"}', 3), "all are counted", 10)
        during = shown(server)
    assert during[postponed] - before.get(postponed, 0) == 3
    assert during['halyard_variant_answers_total{outcome="unavailable"}'] == 1
    answers = 'halyard_variant_answers_total{outcome="remembered"}'
    assert during[answers] - before.get(answers, 0) == 1
    wait_until(partial(is_counted, server), "the user is recorded by a later evaluation", 60)


def is_counted(server: Server) -> bool:
    """Evaluate the driven flag, and return whether metrics count its exposure beside the one from before."""
    assert server.ask("POST", "/v1/flags/driven/evaluate", json=USER).status_code == 200
    return shown(server)['halyard_exposures_recorded_total{source="assignment"}'] == 2
