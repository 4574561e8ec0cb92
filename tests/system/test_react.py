"""An application in React, as the guide shows it: installed from a running service, built, and visited in a browser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from tests.chromium import Launch
from tests.guide.transcripts import ADDRESS
from tests.system.databases import fresh_database
from tests.system.javascript.experiments import events
from tests.system.openfeature.snippets import experiment, prints_as_the_page_says, run_commands
from tests.system.react.shop import Visit, build
from tests.system.react.shop import serving as serving_site
from tests.system.server import Keys, Server, free_port, serving

pytestmark = [pytest.mark.system, pytest.mark.once]

TEXTS = {"pay": "Pay", "order": "Order now"}
PLAIN_USER = "user-00042"
"""The user of the page that has no values from its server."""

USERS = ["ann", "ben", "cleo", "dan"]
LATE_USER, *BUYERS = USERS


@pytest.fixture(scope="module")
def site() -> str:
    """The address of the shop, whose scripts may ask the service."""
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def server(site: str, tmp_path_factory: pytest.TempPathFactory, prepared: tuple[str, Keys]) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    template, keys = prepared
    settings = {"DEBUG": "true", "ANONYMOUS_SCOPE": "manage", "CORS_ALLOWED_ORIGINS": site}
    with fresh_database(folder, template) as url, serving(folder, url, keys=keys, **settings) as running:
        running.run("-m", "flags.clients")
        yield running


@pytest.fixture
def visit(
    site: str, server: Server, launch_chromium: Launch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Visit]]:
    """Opens the page of a user in a browser of its own."""
    run_commands(experiment("web", server).create)
    folder = tmp_path_factory.mktemp("shop")
    build(folder, server)
    with ExitStack() as opened:
        opened.enter_context(serving_site(folder, int(site.rpartition(":")[2])))
        browser = opened.enter_context(launch_chromium())
        addresses = {PLAIN_USER: site, **{user: f"{site}/users/{user}" for user in USERS}}
        yield lambda user: Visit(browser.new_context().new_page(), addresses[user])


def results(server: Server) -> Any:
    return server.ask("GET", "/v1/experiments/order-button").json()["data"]["results"]


def users_of(server: Server, **filters: str) -> dict[str, int]:
    """Return how many of these events each user has."""
    return Counter(event["userId"] for event in events(server, **filters))


def expected_results(shown: dict[str, str], buyers: list[str]) -> Any:
    """Return the results of the users who saw these texts, of whom some bought."""
    users, bought = Counter(shown.values()), Counter(shown[user] for user in buyers)
    return {
        variant: {"sampleSize": users[text], "conversion": pytest.approx(bought[text] / users[text])}
        for variant, text in TEXTS.items()
    }


def test_application__with_an_experiment__shows_counts_and_survives_an_outage(
    visit: Callable[[str], Visit], server: Server
) -> None:
    plain = visit(PLAIN_USER)
    plain.wait_for("Order now")
    assert plain.texts() == ["Pay", "Order now"]  # the recorder sees the flash that values from the server avoid
    plain.order()
    read = partial(prints_as_the_page_says, "react", "curl", {ADDRESS: server.url})
    plain.wait_until(read, "the results are those of the page")

    visits = {PLAIN_USER: plain, **{user: visit(user) for user in USERS}}
    shown = {user: visit.text() for user, visit in visits.items()}
    assert set(shown.values()) == set(TEXTS.values())

    for user in BUYERS:
        visits[user].order()
    buyers = [PLAIN_USER, *BUYERS]
    plain.wait_until(lambda: results(server) == expected_results(shown, buyers), "the users and purchases count")
    assert {user: visits[user].texts() for user in USERS} == {user: [shown[user]] for user in USERS}

    server.kill()
    for user, visit in visits.items():
        if user != PLAIN_USER:
            visit.forget_values()
        visit.reload()
        visit.wait_for(shown[user])
    assert {user: visits[user].texts() for user in USERS} == {user: [shown[user]] for user in USERS}
    visits[LATE_USER].order()

    server.start()
    for user, visit in visits.items():
        visit.reload()
        visit.wait_for(shown[user])
        visit.order()  # it leaves with any exposure that a reload reports again
    clicks = dict.fromkeys(visits, 2)
    plain.wait_until(lambda: users_of(server, event="purchase") == clicks, "all purchases are there")
    assert results(server) == expected_results(shown, [*visits])
    assert users_of(server, event="experiment_exposure") == dict.fromkeys(visits, 1)

    server.ask("PATCH", "/v1/flags/order-button", json={"enabled": False})
    for visit in visits.values():
        visit.wait_for("Pay")
