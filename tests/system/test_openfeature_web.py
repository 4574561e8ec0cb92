"""OpenFeature's own client for browsers, in a browser: what it is served, when it asks again, and
what reaches it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.chromium import Launch, line_printed
from tests.system.openfeature.flags import ADA, BOB, CASES, Case, serving_flags
from tests.system.openfeature.node import node
from tests.system.openfeature.shop import Visit, serving_shop
from tests.system.openfeature.snippets import snippet
from tests.system.server import Keys, Server

pytestmark = [pytest.mark.system, pytest.mark.once]

Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def shop() -> Iterator[int]:
    node()  # sees to it that the packages are there
    with serving_shop() as port:
        yield port


@pytest.fixture(scope="module")
def server(shop: int, tmp_path_factory: pytest.TempPathFactory, demo: tuple[str, Keys]) -> Iterator[Server]:
    """One that the pages of the shop may ask."""
    origin = f"http://127.0.0.1:{shop}"
    with serving_flags(tmp_path_factory.mktemp("server"), demo, CORS_ALLOWED_ORIGINS=origin) as running:
        yield running


@pytest.fixture(scope="module")
def browser(launch_chromium: Launch) -> Iterator[Browser]:
    running = launch_chromium()
    yield running
    running.close()


@pytest.fixture
def open_shop(browser: Browser, shop: int) -> Iterator[Open]:
    """Visit the shop in a browser that was never there."""
    context = browser.new_context()
    yield lambda host="127.0.0.1": Visit(context.new_page(), f"http://{host}:{shop}")
    context.close()


@pytest.fixture
def client_key(server: Server) -> str:
    return server.keys["production"]["client"]


@pytest.fixture
def visit(open_shop: Open, server: Server, client_key: str) -> Visit:
    """A page that is ready, and whose stream is open."""
    visited = open_shop()
    assert visited.start(server, client_key, ADA) == "READY"
    visited.wait_for_streams(1)
    return visited


@pytest.fixture(scope="module")
def patient_visit(browser: Browser, server: Server, shop: int) -> Iterator[Visit]:
    """A page that keeps nothing, shared by all cases."""
    context = browser.new_context()
    visited = Visit(context.new_page(), f"http://127.0.0.1:{shop}")
    options = {"cacheMode": "disabled", "changeDetection": "none"}
    assert visited.start(server, server.keys["production"]["client"], ADA, **options) == "READY"
    yield visited
    context.close()


def create_flag(server: Server, key: str, **values: Any) -> None:
    created = server.ask("POST", "/v1/flags", json={"key": key, "enabled": True, **values})
    assert created.status_code == 201, created.text


def switch(server: Server, key: str, enabled: bool) -> None:
    assert server.ask("PATCH", f"/v1/flags/{key}", json={"enabled": enabled}).status_code == 200


@pytest.mark.parametrize("case", CASES, ids=str)
def test_client__in_a_browser__gets_value_variant_reason_or_error(patient_visit: Visit, case: Case) -> None:
    patient_visit.become(case.context)
    details = patient_visit.ask(case.flag, case.default)
    assert details["value"] == case.value
    assert details["reason"] == case.reason
    assert (details.get("variant"), details.get("errorCode")) == (case.variant, case.error)
    assert not {"rule", "ruleName"} & details["flagMetadata"].keys()  # a client key does not get these


def test_client__opening_the_page_again__learns_that_nothing_changed(
    open_shop: Open, server: Server, client_key: str
) -> None:
    first, second = open_shop(), open_shop()
    first.start(server, client_key, ADA)
    assert (first.asked[0].status, first.asked[0].if_none_match) == (200, None)
    assert second.start(server, client_key, ADA) == "READY"
    second.wait_for_answers(1)
    # Where something was changed lately, the stream that is opened then makes the page ask once
    # more.
    assert {request.status for request in second.asked} == {304}
    assert all(request.if_none_match is not None for request in second.asked)
    details = second.ask("colour", "none")
    assert (details["value"], details["reason"]) == ("#08f", "CACHED")
    create_flag(server, "made-after-304", rules=[])
    second.wait_for("made-after-304", True)  # it has opened the stream, though a 304 names none


def test_client__context_that_changes__gets_the_flags_of_the_new_one(visit: Visit) -> None:
    visit.become({**ADA, "country": "US"})  # the client goes on with what it knows of Ada until it is answered
    visit.wait_for("germany", False)
    assert visit.ask("colour", "none")["value"] == ""
    visit.become(BOB)
    assert visit.ask("half", True)["value"] is False


def test_toggle__page_is_open__arrives_by_itself_as_a_change_of_that_flag_alone(visit: Visit, server: Server) -> None:
    create_flag(server, "toggled")
    visit.wait_for("toggled", True)
    before, heard = len(visit.asked), len(visit.events())
    switch(server, "toggled", False)
    visit.wait_for("toggled", False)
    assert visit.events()[heard:] == [["PROVIDER_CONFIGURATION_CHANGED", ["toggled"]]]
    [asked] = [request for request in visit.asked[before:] if request.status == 200]
    assert "flagConfigEtag=" in asked.query


def test_toggles__fifty_at_once__end_in_the_last_state_after_few_questions(visit: Visit, server: Server) -> None:
    create_flag(server, "toggled-often")
    visit.wait_for("toggled-often", True)
    before = len(visit.asked)
    for at in range(51):
        switch(server, "toggled-often", at % 2 == 1)
    visit.wait_for("toggled-often", False)
    assert len(visit.asked) - before <= 10


def test_toggle__of_another_environment__asks_nothing_of_the_page(visit: Visit, server: Server) -> None:
    create_flag(server, "local")
    visit.wait_for("local", True)
    visit.page.wait_for_timeout(1_200)  # milliseconds: late messages about other flags have arrived
    before = len(visit.asked)
    key = server.keys["staging"]["manage"]
    for enabled in (True, False):
        assert server.ask("PATCH", "/v1/flags/local", key=key, json={"enabled": enabled}).status_code == 200
    switch(server, "local", False)
    visit.wait_for("local", False)
    assert len(visit.asked) - before == 1


def test_schedule__moment_that_passes__arrives_by_itself(visit: Visit, server: Server) -> None:
    at = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
    create_flag(
        server,
        "launch",
        rules=[{"type": "attribute", "startAt": at, "conditions": [{"attribute": "country", "operator": "exists"}]}],
    )
    visit.wait_for("launch", False)
    visit.wait_for("launch", True)


def test_stream__its_process_dies__goes_on_in_the_next_one_and_misses_nothing(visit: Visit, server: Server) -> None:
    create_flag(server, "survivor")
    visit.wait_for("survivor", True)
    first = server.stream_pid()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    switch(server, "survivor", False)
    visit.wait_for("survivor", False)
    assert server.stream_pid() not in (None, first)
    switch(server, "survivor", True)
    visit.wait_for("survivor", True)


@pytest.mark.parametrize("secret", ["", "another-secret-" * 5], ids=["as it was", "with another secret"])
def test_stream__server_restarts__goes_on_and_misses_nothing(visit: Visit, server: Server, secret: str) -> None:
    flag = "moved" if secret else "deployed"
    create_flag(server, flag)
    visit.wait_for(flag, True)
    assert server.stop() == 0
    server.environment["SECRET_KEY"] = secret or server.environment["SECRET_KEY"]
    server.start()
    visit.wait_for_streams(2)  # before there is anything to hear
    switch(server, flag, False)
    visit.wait_for(flag, False)
    switch(server, flag, True)
    visit.wait_for(flag, True)


def test_client__unknown_key__is_fatal_and_asks_no_more(open_shop: Open, server: Server) -> None:
    visit = open_shop()
    assert visit.start(server, "hyd_c_nobody", ADA) == "FATAL"
    details = visit.ask("plain", False)
    assert (details["value"], details["errorCode"]) == (False, "PROVIDER_FATAL")
    assert [request.status for request in visit.asked] == [401]


def test_client__page_of_another_origin__is_not_let_in(open_shop: Open, server: Server, client_key: str) -> None:
    visit = open_shop(host="localhost")
    assert visit.start(server, client_key, ADA) == "ERROR"
    assert visit.ask("plain", False)["value"] is False


def test_guide__example_for_browsers__prints_what_it_says(open_shop: Open, server: Server) -> None:
    example = snippet("web", server)
    page = open_shop().page
    first, second = example.printed.splitlines()
    assert line_printed(page, lambda: page.add_script_tag(content=example.code, type="module")) == first
    assert line_printed(page, lambda: switch(server, "maintenance-banner", True), after=first) == second
