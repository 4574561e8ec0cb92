"""Halyard's provider for pages, from its package, in a browser: values, exposures and conversions, also while the
service is away.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from flags.clients import npm
from tests.chromium import Launch, line_printed
from tests.system.javascript.experiments import events, results, start_experiment
from tests.system.javascript.packages import install
from tests.system.openfeature.flags import ADA, BOB, CASES, Case, serving_flags
from tests.system.openfeature.shop import BULK, QuietFiles
from tests.system.openfeature.snippets import command, experiment, files, run_commands
from tests.system.server import Keys, Server, wait_until

pytestmark = [pytest.mark.system, pytest.mark.once]

BATCH = "/v1/events/batch"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def shop(folder: Path) -> Iterator[str]:
    """The address of a site with the page."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=folder)) as site:
        site.daemon_threads = True
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}"
        site.shutdown()


@pytest.fixture(scope="module")
def server(shop: str, tmp_path_factory: pytest.TempPathFactory, demo: tuple[str, Keys]) -> Iterator[Server]:
    with serving_flags(
        tmp_path_factory.mktemp("server"), demo, CORS_ALLOWED_ORIGINS=shop, ANONYMOUS_SCOPE="manage"
    ) as running:
        yield running


@pytest.fixture(scope="module")
def browser(launch_chromium: Launch) -> Iterator[Browser]:
    running = launch_chromium()
    yield running
    running.close()


class Visit:
    """A page of the shop with the provider, and its requests to the service."""

    def __init__(self, page: Page, shop: str, options: dict[str, Any]) -> None:
        self.page, self._shop, self._options = page, shop, options
        self.statuses: list[int] = []
        self.batches = 0
        page.on("response", lambda response: self._note(response.url, response.request.method, response.status))
        self.load()

    def _note(self, url: str, method: str, status: int) -> None:
        if method == "POST" and BULK in url:
            self.statuses.append(status)
        self.batches += method == "POST" and BATCH in url and status == 202

    def load(self) -> None:
        self.page.goto(f"{self._shop}/page.html")
        self.page.wait_for_function("window.shop")

    def start(self, context: dict[str, Any], **options: Any) -> str:
        status: str = self.page.evaluate("shop.start", {"context": context, **self._options, **options})
        return status

    def ask(self, flag: str, default: Any) -> dict[str, Any]:
        details: dict[str, Any] = self.page.evaluate("shop.ask", {"flag": flag, "default": default})
        return details

    def wait_for(self, flag: str, value: Any, default: Any) -> None:
        script = "([flag, value, fallback]) => shop.ask({flag, default: fallback}).value === value"
        self.page.wait_for_function(script, arg=[flag, value, default], timeout=15_000)

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Let the browser deliver its events, which it does only during a call."""
        wait_until(lambda: bool(self.page.evaluate("true")) and condition(), what, 30)

    def hide(self) -> None:
        """Hide the page, as another tab would: headless browsers show all of their pages."""
        self._show("hidden")

    def show(self) -> None:
        self._show("visible")

    def _show(self, state: str) -> None:
        script = """(state) => {
          Object.defineProperty(document, "visibilityState", {value: state, configurable: true});
          document.dispatchEvent(new Event("visibilitychange"));
        }"""
        self.page.evaluate(script, state)

    def warnings(self) -> list[str]:
        given: list[str] = self.page.evaluate("shop.warnings")
        return given


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that was never in the shop."""
    opened = browser.new_context()
    yield opened
    opened.close()


@pytest.fixture
def visit(context: BrowserContext, shop: str, server: Server) -> Visit:
    options = {"url": server.url, "key": server.keys["production"]["client"]}
    return Visit(context.new_page(), shop, options)


@pytest.fixture(scope="module")
def patient_visit(browser: Browser, shop: str, server: Server) -> Iterator[Visit]:
    """A page that is shared by all cases."""
    opened = browser.new_context()
    visited = Visit(opened.new_page(), shop, {"url": server.url, "key": server.keys["production"]["client"]})
    assert visited.start(ADA) == "READY"
    yield visited
    opened.close()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_provider__in_a_browser__gets_value_variant_reason_or_error(patient_visit: Visit, case: Case) -> None:
    patient_visit.page.evaluate("shop.become", case.context)
    details = patient_visit.ask(case.flag, case.default)
    assert details["value"] == case.value
    assert details["reason"] == case.reason
    assert (details.get("variant"), details.get("errorCode")) == (case.variant, case.error)


def test_context__with_a_cycle__is_refused_until_there_is_another_one(patient_visit: Visit) -> None:
    patient_visit.page.evaluate("shop.becomeCyclic")
    details = patient_visit.ask("plain", False)
    assert (details["value"], details["errorCode"]) == (False, "INVALID_CONTEXT")
    patient_visit.page.evaluate("shop.become", ADA)
    assert patient_visit.ask("plain", False)["value"] is True


def test_exposure__flag_is_used_over_reloads__is_counted_once_with_its_conversion(visit: Visit, server: Server) -> None:
    start_experiment(server, "web")
    for _ in range(3):
        visit.load()
        assert visit.start(ADA) == "READY"
        assert [visit.ask("web", "none")["value"] for _ in range(3)] == ["new"] * 3
        visit.wait_until(lambda: len(events(server, experimentId="web")) == 1, "the exposure is there")
    visit.page.evaluate("shop.track", {"event": "bought-web", "details": {"revenue": 49.95, "currency": "EUR"}})
    visit.wait_until(lambda: results(server, "web") == (1, 1.0), "the conversion counts")
    [exposure] = events(server, event="experiment_exposure", experimentId="web")
    about = {"country": "DE", "experimentId": "web", "variant": "treatment"}
    assert (exposure["userId"], exposure["properties"]) == ("ada", about)
    broken_down = server.ask("GET", "/v1/experiments/web/results?breakdown=country").json()["data"]["breakdown"]
    assert [value["value"] for value in broken_down["values"] if value["users"]] == ["DE"]
    [bought] = events(server, event="bought-web")
    assert bought["properties"] == {"revenue": 49.95, "currency": "EUR"}


def test_exposure__flag_is_not_used_or_not_of_its_type__is_not_counted(visit: Visit, server: Server) -> None:
    start_experiment(server, "unused")
    visit.start(ADA)
    assert visit.ask("unused", False)["errorCode"] == "TYPE_MISMATCH"
    visit.page.evaluate("shop.track", {"event": "unused-done", "details": {}})
    visit.wait_until(lambda: len(events(server, event="unused-done")) == 1, "the queue is sent")
    assert results(server, "unused") == (0, 0)


def test_page__hidden_or_left__sends_the_queue_at_once(visit: Visit, server: Server) -> None:
    visit.start(ADA)
    visit.page.evaluate("shop.track", {"event": "hidden", "details": {}})
    visit.hide()
    visit.wait_until(lambda: len(events(server, event="hidden")) == 1, "the event of the hidden page is there")
    visit.show()
    visit.page.evaluate("shop.track", {"event": "left", "details": {}})
    visit.page.goto("about:blank")
    visit.wait_until(lambda: len(events(server, event="left")) == 1, "the event of the left page is there")
    visit.load()
    visit.start(ADA)
    visit.page.evaluate("shop.track", {"event": "returned", "details": {}})
    visit.wait_until(lambda: len(events(server, event="returned")) == 1, "the page has sent all it had")
    assert [len(events(server, event=name)) for name in ("hidden", "left")] == [1, 1]


def test_service__is_away__page_shows_the_same_values_and_loses_no_event(visit: Visit, server: Server) -> None:
    start_experiment(server, "away")
    visit.start(ADA)
    assert visit.ask("colour", "none")["value"] == "#08f"
    server.kill()
    try:
        visit.load()
        assert visit.start(ADA) == "READY"
        details = visit.ask("colour", "none")
        assert (details["value"], details["reason"]) == ("#08f", "CACHED")
        assert visit.ask("away", "none")["value"] == "new"
        visit.load()
        assert visit.start(BOB) == "ERROR"
        assert visit.ask("colour", "none")["value"] == "none"
        visit.load()
        visit.start(ADA)
        assert visit.ask("away", "none")["value"] == "new"
    finally:
        server.start()
    visit.page.reload()
    visit.page.wait_for_function("window.shop")
    visit.start(ADA)
    visit.wait_until(lambda: results(server, "away") == (1, 0), "the exposure is counted")
    assert len(events(server, experimentId="away")) == 1


def test_toggle__page_is_open__arrives_by_itself(visit: Visit, server: Server) -> None:
    server.ask("POST", "/v1/flags", json={"key": "toggled-for-pages", "enabled": True})
    visit.start(ADA)
    visit.wait_for("toggled-for-pages", True, False)
    for enabled in (False, True):
        server.ask("PATCH", "/v1/flags/toggled-for-pages", json={"enabled": enabled})
        visit.wait_for("toggled-for-pages", enabled, not enabled)
    heard = [event for event in visit.page.evaluate("shop.events") if event[0] == "PROVIDER_CONFIGURATION_CHANGED"]
    assert heard[-2:] == [["PROVIDER_CONFIGURATION_CHANGED", ["toggled-for-pages"]]] * 2


def test_page__opened_again__gets_its_values_without_a_download(visit: Visit) -> None:
    visit.start(ADA)
    visit.load()
    assert visit.start(ADA) == "READY"
    visit.wait_until(lambda: len(visit.statuses) == 2, "the page has asked again")
    assert visit.statuses == [200, 304]


def bootstrap(server: Server, targeting_key: str, *, environment: str = "production") -> dict[str, Any]:
    body = {"context": {"targetingKey": targeting_key, "country": "DE"}}
    answer = server.ask("POST", BULK, key=server.keys[environment]["client"], json=body)
    return {**answer.json(), "targetingKey": targeting_key}


def test_bootstrap__of_the_user__is_shown_before_any_answer(visit: Visit, server: Server) -> None:
    start_experiment(server, "rendered")
    given = bootstrap(server, "ada")
    visit.page.route(f"**{BULK}", lambda route: route.abort())
    assert visit.start(ADA, bootstrap=given) == "READY"
    assert visit.ask("colour", "none")["value"] == "#08f"
    assert visit.ask("rendered", "none")["value"] == "new"
    visit.page.unroute(f"**{BULK}")
    visit.show()
    visit.wait_until(lambda: results(server, "rendered") == (1, 0), "the exposure is counted once the service answers")
    assert visit.warnings() == []


@pytest.mark.parametrize(
    ("options", "whose"),
    [
        ({"targeting_key": "bob"}, "user bob"),
        ({"targeting_key": "ada", "environment": "staging"}, "environment staging"),
    ],
)
def test_bootstrap__of_another_user_or_environment__is_ignored_with_a_warning(
    visit: Visit, server: Server, options: dict[str, str], whose: str
) -> None:
    given = bootstrap(server, **options)
    assert visit.start(ADA, bootstrap=given, environment="production") == "READY"
    assert visit.ask("colour", "none")["value"] == "#08f"
    assert visit.warnings() == [f"Halyard: The bootstrap is ignored, because it is of the {whose}."]


def test_bootstrap__of_an_unknown_environment__reports_no_exposure_of_it(visit: Visit, server: Server) -> None:
    start_experiment(server, "foreign")
    given = bootstrap(server, "ada")
    given["metadata"]["flagSetId"] = "elsewhere"
    visit.page.route(f"**{BULK}", lambda route: route.abort())
    assert visit.start(ADA, bootstrap=given) == "READY"
    assert visit.ask("foreign", "none")["value"] == "new"
    visit.page.unroute(f"**{BULK}")
    visit.show()
    visit.wait_until(lambda: len(visit.warnings()) == 1, "the service has answered")
    visit.page.evaluate("shop.track", {"event": "foreign-done", "details": {}})
    visit.wait_until(lambda: len(events(server, event="foreign-done")) == 1, "the queue is sent")
    assert events(server, experimentId="foreign") == []


def test_key__unknown__is_fatal_and_asks_no_more(visit: Visit) -> None:
    assert visit.start(ADA, key="hyd_c_nobody") == "FATAL"
    assert visit.ask("plain", False)["errorCode"] == "PROVIDER_FATAL"
    visit.show()
    assert visit.statuses == [401]


def test_module__in_a_page_without_a_build_step__shows_tracks_and_changes(
    visit: Visit, shop: str, server: Server
) -> None:
    start_experiment(server, "alone")
    server.ask("POST", "/v1/flags", json={"key": "toggled-alone", "enabled": True})
    options = {"url": server.url, "key": server.keys["production"]["client"], "context": ADA}
    name, _ = npm.browser_module()
    script = f"""
      import {{ createClient }} from "{shop}/{name}";
      const client = createClient({json.dumps(options)});
      await client.ready;
      const shown = client.value("alone", "none");
      client.track("bought-alone");
      client.onChange((flags) => (window.changed = [flags, client.value("toggled-alone", true)]));
      window.shown = [shown, client.value("alone", false), client.value("unheard-of", 7)];
    """
    visit.page.add_script_tag(content=script, type="module")
    visit.page.wait_for_function("window.shown")
    assert visit.page.evaluate("shown") == ["new", False, 7]
    server.ask("PATCH", "/v1/flags/toggled-alone", json={"enabled": False})
    visit.page.wait_for_function("window.changed")
    assert visit.page.evaluate("changed") == [["toggled-alone"], False]
    visit.wait_until(lambda: results(server, "alone") == (1, 1.0), "the exposure and the conversion count")


def test_module__compressed__is_smaller_than_six_kilobytes(tmp_path: Path) -> None:
    _, content = npm.browser_module()
    assert len(gzip.compress(content)) < 6_000


def test_guide__experiment_in_a_page__is_counted_as_the_page_says(
    visit: Visit, shop: str, folder: Path, server: Server
) -> None:
    guide = experiment("web", server)
    run_commands(guide.create)
    (folder / "public").mkdir()
    for name, code in files("web", server).items():
        (folder / name).write_text(code)
    run_commands(command("web", "npx esbuild main.js"), folder)
    first, second = guide.example.printed.splitlines()
    assert line_printed(visit.page, lambda: visit.page.goto(f"{shop}/public/")) == first
    visit.wait_until(lambda: run_commands(guide.read) == guide.results, "the results are those of the page")
    switch_off = partial(server.ask, "PATCH", "/v1/flags/order-button", json={"enabled": False})
    assert line_printed(visit.page, switch_off, after=first) == second
