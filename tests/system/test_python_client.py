"""The Python client: built, served, installed into an environment of its own, and used by an application."""

from __future__ import annotations

import json
import os
import re
import subprocess
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import django
import httpx
import pytest

from tests.guide.transcripts import ADDRESS
from tests.system.databases import fresh_database
from tests.system.openfeature.snippets import experiment, prints_as_the_page_says, run_commands
from tests.system.python_client.web import Shop, serving_django, serving_fastapi
from tests.system.server import Keys, Server, serving, wait_until

pytestmark = [pytest.mark.system, pytest.mark.once]

BAKERY = Path(__file__).parent / "python_client" / "bakery.py"
SECONDS_TO_LEARN = 15
FRAMEWORKS = ("fastapi==0.165.0", "uvicorn==0.54.0", f"django=={django.__version__}")
USERS = [f"user-{number}" for number in range(20)]
GUIDE_USER = "user-00042"
APPLICATION = "http://127.0.0.1:3000"
"""The address of the guide's application."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[str, Keys]) -> Iterator[Server]:
    """A server that has built the clients, and that `pip` reaches without a proxy."""
    folder = tmp_path_factory.mktemp("server")
    template, keys = prepared
    settings = {"DEBUG": "true", "ANONYMOUS_SCOPE": "manage"}
    with fresh_database(folder, template) as url, serving(folder, url, keys=keys, **settings) as running:
        running.run("-m", "flags.clients")
        yield running


@pytest.fixture(scope="module")
def python(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has the client, installed as the page says, and web frameworks."""
    page = httpx.get(f"{server.url}/clients/").text
    [command] = re.findall(r"pip install (\S+\.whl)", page)
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-compile", command, *FRAMEWORKS],
        capture_output=True,
        text=True,
        check=False,
    )
    assert installed.returncode == 0, installed.stderr
    return python


class Bakery:
    """A running application."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert self._read() == "ready"

    def ask(self, command: str, *arguments: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([command, *arguments]) + "\n")
        self._process.stdin.flush()
        return self._read()

    def shown(self) -> dict[str, Any]:
        """What the flag of the experiment is for each user: value, variant, reason and error."""
        return {user: self.ask("show", "button", user) for user in USERS}

    def wait_for(self, command: str, *arguments: Any, answer: Any) -> None:
        what = f"{command} {arguments} is {answer}"
        wait_until(lambda: self.ask(command, *arguments) == answer, what, SECONDS_TO_LEARN)

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the application ended"
        return json.loads(line)


@contextmanager
def running(python: Path, folder: Path, server: Server, **options: Any) -> Iterator[Bakery]:
    given = {"url": server.url, "key": server.keys["production"]["server"], **options}
    with subprocess.Popen(
        [python, "-I", BAKERY, json.dumps(given)],
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Bakery(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(30) == 0


def start_experiment(server: Server, key: str, flag: str) -> None:
    variants = [{"key": "blue", "value": "#00f"}, {"key": "green", "value": "#0f0"}]
    server.ask("POST", "/v1/flags", json={"key": flag, "type": "string", "variants": variants, "enabled": True})
    experiment = {
        "key": key,
        "variants": [{"key": "control", "weight": 1}, {"key": "treatment", "weight": 1}],
        "metrics": ["order"],
        "flag": {"key": flag, "serves": {"control": "blue", "treatment": "green"}},
    }
    assert server.ask("POST", "/v1/experiments", json=experiment).status_code == 201
    assert server.ask("POST", f"/v1/experiments/{key}/start").status_code == 200


def results(server: Server, key: str) -> Any:
    return server.ask("GET", f"/v1/experiments/{key}").json()["data"]["results"]


def test_application__in_local_mode__counts_shows_and_survives_an_outage(
    server: Server, python: Path, tmp_path: Path
) -> None:
    began = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    start_experiment(server, "buttons", "button")
    server.ask("POST", "/v1/flags", json={"key": "oven", "enabled": True})
    options = {"mode": "local", "environment": "production", "state_file": str(tmp_path / "flags.json")}

    with running(python, tmp_path, server, **options) as bakery:
        shown = bakery.shown()
        assert bakery.shown() == shown
        assert {value for value, *_ in shown.values()} == {"#00f", "#0f0"}
        bakery.ask("order", USERS[0], 12.5)
        assert bakery.ask("flush") is True

        counted = results(server, "buttons")
        assert counted["control"]["sampleSize"] == sum(value == "#00f" for value, *_ in shown.values())
        assert counted["treatment"]["sampleSize"] == sum(value == "#0f0" for value, *_ in shown.values())
        buyer = "control" if shown[USERS[0]][0] == "#00f" else "treatment"
        assert counted[buyer]["conversion"] == pytest.approx(1 / counted[buyer]["sampleSize"])
        exposures = server.ask("GET", "/v1/events?event=experiment_exposure&experimentId=buttons&limit=1000").json()[
            "data"
        ]
        assert sorted(event["userId"] for event in exposures) == sorted(USERS)
        [order] = orders(server, began)
        assert order["properties"] == {"value": 12.5, "revenue": 12.5, "currency": "EUR"}

        assert bakery.ask("is_on", "oven") is True
        server.ask("PATCH", "/v1/flags/oven", json={"enabled": False})
        bakery.wait_for("is_on", "oven", answer=False)

        server.kill()
        bakery.wait_for("status", answer="STALE")
        assert bakery.shown() == shown
        bakery.ask("order", USERS[1], 3)
        assert bakery.ask("flush") is False
        with running(python, tmp_path, server, **options) as another:
            assert another.shown() == shown

        server.start()
        bakery.wait_for("status", answer="READY")
        server.ask("PATCH", "/v1/flags/oven", json={"enabled": True})
        bakery.wait_for("is_on", "oven", answer=True)
        bakery.wait_for("flush", answer=True)

    assert sorted(event["userId"] for event in orders(server, began)) == sorted(USERS[:2])


def test_application__in_remote_mode__is_counted_once_by_the_service(
    server: Server, python: Path, tmp_path: Path
) -> None:
    start_experiment(server, "labels", "label")

    with running(python, tmp_path, server) as bakery:
        first = [bakery.ask("show", "label", user) for user in USERS]
        assert [bakery.ask("show", "label", user) for user in USERS] == first
        bakery.ask("order", USERS[0], 1)
    # The end of the application sends what waits.

    counted = results(server, "labels")
    assert sum(variant["sampleSize"] for variant in counted.values()) == len(USERS)


def orders(server: Server, since: str) -> list[dict[str, Any]]:
    """The orders from a moment on: the tests share a server, and run in any order."""
    return server.ask("GET", f"/v1/events?event=order&from={since}").json()["data"]


def texts(shop: Shop) -> dict[str, str]:
    return {user: shop.text(user) for user in USERS}


def test_guide__applications_for_fastapi_and_django__show_count_and_survive_an_outage(
    server: Server, python: Path, tmp_path: Path
) -> None:
    run_commands(experiment("web", server).create)
    buyers, others = USERS[:3], USERS[3:6]

    with serving_fastapi(python, tmp_path, server) as shop, serving_django(python, tmp_path, server) as other:
        addresses = {ADDRESS: server.url, APPLICATION: shop.url}
        assert prints_as_the_page_says("python", f"curl -s {APPLICATION}", addresses)
        read = partial(prints_as_the_page_says, "python", f"curl -s {ADDRESS}", addresses)
        wait_until(read, "the results are those of the page", SECONDS_TO_LEARN)

        shown = texts(shop)
        assert set(shown.values()) == {"Pay", "Order now"}
        wait_until(lambda: texts(other) == shown, "the application for Django has its flags", SECONDS_TO_LEARN)

        server.kill()
        assert texts(shop) == texts(other) == shown
        for user in buyers:
            shop.order(user)
        for user in others:
            other.order(user)
        server.start()

        server.ask("PATCH", "/v1/flags/order-button", json={"enabled": False})
        for application in (shop, other):
            wait_until(lambda at=application: set(texts(at).values()) == {"Pay"}, "the toggle is seen", 60)
    # The end of the applications sends what waits.

    counted = results(server, "order-button")
    for variant, text in (("pay", "Pay"), ("order", "Order now")):
        users = [GUIDE_USER] * (text == "Order now") + [user for user in USERS if shown[user] == text]
        conversion = len({*users} & {GUIDE_USER, *buyers, *others}) / len(users)
        assert counted[variant] == {"sampleSize": len(users), "conversion": pytest.approx(conversion)}
    exposures = server.ask("GET", "/v1/events?event=experiment_exposure&experimentId=order-button").json()["data"]
    # Each of the two processes reports a user once.
    assert sorted(event["userId"] for event in exposures) == sorted([*USERS * 2, GUIDE_USER])
