"""Servers that share nothing but a database follow each other, by PostgreSQL's announcements and without them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.system.connections import ask_separately
from tests.system.databases import fresh_database
from tests.system.server import Keys, Server, serving, wait_until
from tests.system.streams import Stream, stream_url

pytestmark = pytest.mark.system

_LISTENERS = "FROM pg_stat_activity WHERE application_name = 'halyard-watcher' AND datname = current_database()"
_OTHERS = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"

_AWAY, _BACK = "Cannot follow changes", "Following changes again"

Hosts = tuple[Server, Server]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[str, Keys]) -> Iterator[Hosts]:
    """Two servers with a RUNTIME_DIR each, as on two hosts."""
    template, keys = prepared
    folders = [tmp_path_factory.mktemp("server") for _ in range(2)]
    with fresh_database(folders[0], template) as url, ExitStack() as running:
        first, second = (running.enter_context(serving(folder, url, keys=keys)) for folder in folders)
        assert first.environment["RUNTIME_DIR"] != second.environment["RUNTIME_DIR"]
        assert first.ask("POST", "/v1/flags", json={"key": "followed"}).status_code == 201
        yield first, second


@pytest.fixture
def database(hosts: Hosts) -> Iterator[psycopg.Connection]:
    """A connection of our own to the hosts' database."""
    url = hosts[0].environment["DATABASE_URL"]
    if url.startswith("sqlite"):
        pytest.skip("SQLite announces nothing")
    with psycopg.connect(url.replace("postgres://", "postgresql://"), autocommit=True) as connection:
        yield connection


def check_following(hosts: Hosts) -> None:
    first, second = hosts
    for writer, reader in ((first, second), (second, first)) * 2:
        for enabled in (True, False):
            assert writer.ask("PATCH", "/v1/flags/followed", json={"enabled": enabled}).status_code == 200
            wait_until(lambda reader=reader, enabled=enabled: follows(reader, enabled), "the other host follows", 10)


def follows(reader: Server, enabled: bool) -> bool:
    answer = ask_separately(reader, "/v1/flags/followed/evaluate", {"userId": "u"})
    return answer.status == 200 and answer.data["enabled"] is enabled


def counts_in_logs(hosts: Hosts, message: str) -> list[int]:
    """How often the workers of each host have logged it."""
    return [host.log.read_text().count(message) for host in hosts]


def test_hosts__on_one_database__follow_each_other(hosts: Hosts) -> None:
    check_following(hosts)


def test_hosts__key_made_and_revoked_on_one__counts_on_the_other(hosts: Hosts) -> None:
    first, second = hosts
    secret = first.run("manage.py", "create_key", "--name", "shared", "--scope", "server").strip()
    wait_until(lambda: second.ask("GET", "/v1/flags", key=secret).status_code == 200, "the key is known there", 10)
    first.run("manage.py", "revoke_key", secret[:12])
    wait_until(lambda: second.ask("GET", "/v1/flags", key=secret).status_code == 401, "it is revoked there", 10)


def test_hosts__flag_switched_on_one__is_reported_by_streams_of_the_other(hosts: Hosts) -> None:
    first, second = hosts
    with closing(Stream(stream_url(second))) as stream:
        answer = first.ask("PATCH", "/v1/flags/followed", json={"enabled": True})
        revision = answer.headers["ETag"].strip('"')
        wait_until(lambda: [event["id"] for event in stream.events][-1:] == [revision], "it is reported", 30)


def test_hosts__whose_listening_connections_are_killed__still_follow_and_listen_again(
    hosts: Hosts, database: psycopg.Connection
) -> None:
    def listeners() -> set[int]:
        return {pid for (pid,) in database.execute(f"SELECT pid {_LISTENERS}")}

    outages = counts_in_logs(hosts, _AWAY)
    wait_until(lambda: len(listeners()) == 4, "every worker listens", 30)
    for _ in range(3):
        before = listeners()
        database.execute(f"SELECT pg_terminate_backend(pid) {_LISTENERS}")
        check_following(hosts)
        wait_until(lambda before=before: len(listeners() - before) == 4, "every worker listens again", 30)
    check_following(hosts)
    # A connection that was closed while the database works is no outage.
    assert counts_in_logs(hosts, _AWAY) == outages


def test_hosts__whose_database_is_away_for_a_while__say_so_once_and_follow_afterwards(
    hosts: Hosts, database: psycopg.Connection
) -> None:
    away, back = ([count + 2 for count in counts_in_logs(hosts, message)] for message in (_AWAY, _BACK))
    connections = SQL("ALTER DATABASE {} ALLOW_CONNECTIONS").format(Identifier(database.info.dbname))
    with psycopg.connect(
        database.info.dsn, password=database.info.password, dbname="postgres", autocommit=True
    ) as other:
        other.execute(connections + SQL(" false"))
        database.execute(f"SELECT pg_terminate_backend(pid) {_OTHERS}")
        wait_until(lambda: counts_in_logs(hosts, _AWAY) == away, "every worker says so", 30)
        other.execute(connections + SQL(" true"))
    wait_until(lambda: counts_in_logs(hosts, _BACK) == back, "every worker is back", 30)
    check_following(hosts)
    assert counts_in_logs(hosts, _AWAY) == away
