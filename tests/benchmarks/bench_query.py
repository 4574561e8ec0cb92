"""Pages of the event query among ten million events, against the same pages among a hundred
thousand, on PostgreSQL.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg

from tests.benchmarks.servers import serving_on_postgresql
from tests.benchmarks.tables import print_bars

FEW, MANY = 100_000, 10_000_000
LIMIT, PAGE = 10, 1000
AT_ONCE = 999
"""Rows of a page on the way to page 1,000: ten of them come before it."""
ROUNDS = 40
MOST_RATIO = 3

QUERIES = (
    "",
    "from=2026-01-15&to=2026-03-15",
    "userId=ada",
    "event=view",
    "userId=ada&event=view",
    "event=view&from=2026-01-15&to=2026-03-15",
    "experimentId=button",
    "experimentId=button&variant=blue",
    "event=view&properties.plan=pro",
    "userId=ada&properties.plan=pro",
)

# One name in four is `view`, one plan in two `pro`; one event in four is of the experiment, and
# half of those `blue`. One user has 50,000 events in a table of any size, each far from the next.
_ROWS = """
    INSERT INTO events_event
        (id, environment_id, user_id, name, timestamp, received_at, experiment, variant, properties)
    SELECT
        ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
        (SELECT id FROM config_environment WHERE key = 'production'),
        CASE WHEN n %% (%(count)s::int / 50000) = 0 THEN 'ada' ELSE 'user-' || n %% (%(count)s::int / 20) END,
        (ARRAY['view', 'search', 'basket', 'purchase'])[1 + (hashint4(n) & 3)],
        moment, moment,
        CASE WHEN is_seen THEN 'button' ELSE '' END,
        CASE WHEN is_seen THEN variant ELSE '' END,
        jsonb_build_object('plan', plan, 'path', path)
            || CASE WHEN is_seen THEN jsonb_build_object('experimentId', 'button', 'variant', variant) ELSE '{}' END
    FROM (
        SELECT n,
            timestamptz '2026-01-01 00:00Z' + n * (interval '90 days' / %(count)s::int) AS moment,
            (hashint4(n) >> 2) & 3 = 0 AS is_seen,
            (ARRAY['blue', 'red'])[1 + ((hashint4(n) >> 4) & 1)] AS variant,
            (ARRAY['pro', 'free'])[1 + ((hashint4(n) >> 5) & 1)] AS plan,
            '/products/' || n %% 997 AS path
        FROM generate_series(1, %(count)s::int) AS n
    ) AS made
"""


_INDEXES = """
    SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'events_event' AND indexname NOT LIKE '%_pkey'
"""
_FOREIGN_KEYS = "SELECT conname FROM pg_constraint WHERE conrelid = 'events_event'::regclass AND contype = 'f'"


def run() -> bool:
    print(f"Query: pages of {LIMIT} among {FEW:,} and among {MANY:,} events, {ROUNDS} rounds, PostgreSQL")
    with ExitStack() as stack:
        few, many = (stack.enter_context(querying(count)) for count in (FEW, MANY))
        print(f"{'milliseconds (medians)':52}{'page 1':>16}{'page ' + str(PAGE):>18}")
        ratios = [ratio for query in QUERIES for ratio in compare(query, few, many)]
    return print_bars({f"each page within {MOST_RATIO} times; the worst: {max(ratios):.2f}": max(ratios) <= MOST_RATIO})


@contextmanager
def querying(count: int) -> Iterator[httpx.Client]:
    """A client of a server that has so many events."""
    with (
        serving_on_postgresql(workers=1) as server,
        server.client("server") as client,
    ):
        started = time.monotonic()
        fill(server.environment["DATABASE_URL"], count)
        print(f"{count:,} events made in {time.monotonic() - started:.0f} seconds")
        yield client


def fill(url: str, count: int) -> None:
    """Make the events in the database itself, and the indexes when they are there."""
    with psycopg.connect(urlunsplit(urlsplit(url)._replace(scheme="postgresql")), autocommit=True) as connection:
        connection.execute("SET maintenance_work_mem = '512MB'")
        connection.execute("SET synchronous_commit = off")
        for (name,) in connection.execute(_FOREIGN_KEYS).fetchall():  # no page asks for them, and checking takes long
            connection.execute(f'ALTER TABLE events_event DROP CONSTRAINT "{name}"')
        indexes = connection.execute(_INDEXES).fetchall()
        for name, _ in indexes:
            connection.execute(f'DROP INDEX "{name}"')
        connection.execute(_ROWS, {"count": count})
        for _, definition in indexes:
            connection.execute(definition)
        connection.execute("VACUUM (ANALYZE) events_event")


def compare(query: str, few: httpx.Client, many: httpx.Client) -> list[float]:
    """How many times as long as among few events the first page takes among many, and page 1,000."""
    cells, ratios = [], []
    for cursors in ({}, {}), (cursor_of(few, query), cursor_of(many, query)):
        taken: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):  # by turns, so that a slow moment of the machine hits both
            for client, cursor, times in zip((few, many), cursors, taken, strict=True):
                times.append(ask(client, query, cursor))
        one, other = map(median, taken)
        cells.append(f"{one * 1e3:6.2f}{other * 1e3:7.2f}")
        ratios.append(other / one)
    print(f"{query or 'all':52}{cells[0]:>16}{cells[1]:>18}")
    return ratios


def ask(client: httpx.Client, query: str, cursor: dict[str, str]) -> float:
    """The seconds that a page takes."""
    started = time.perf_counter()
    response = client.get("/v1/events", params={**httpx.QueryParams(query), **cursor, "limit": LIMIT})
    taken = time.perf_counter() - started
    assert len(response.raise_for_status().json()["data"]) == LIMIT
    return taken


def cursor_of(client: httpx.Client, query: str) -> dict[str, str]:
    """Of page 1,000, reached in longer strides."""
    parameters = {**httpx.QueryParams(query), "limit": str(AT_ONCE)}
    for _ in range((PAGE - 1) * LIMIT // AT_ONCE):
        link = client.get("/v1/events", params=parameters).raise_for_status().headers["Link"]
        [cursor] = re.findall(r"[?&]cursor=([A-Za-z0-9_-]+)", link)
        parameters["cursor"] = cursor
    return {"cursor": cursor}
