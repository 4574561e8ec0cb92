"""How many of the project's files a request passes through, with the fast lane and without it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection

from config.models import Scope
from tests.config.api.wire import environ_of, own_connection
from tests.factories import ExperimentFactory, FlagFactory, KeyFactory
from tests.fast_lane import lane
from tests.trips import following, limits_of

pytestmark = pytest.mark.django_db
BOTH = [(lane, 0), (lane.application, 1)]


def files_of(application: Any, path: str, key: str, **body: Any) -> list[str]:
    """Return the files that the third of three requests enters, each of another user."""
    headers = {"Host": "testserver", "Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    statuses: list[str] = []
    for number in range(3):
        sent = json.dumps({"userId": f"new-{number}", **body}).encode()
        environ = environ_of("POST", path, sent, headers, "127.0.0.1")
        with own_connection(), following() as trip:
            list(application(environ, lambda status, *_: statuses.append(status)))
    assert set(statuses) <= {"200 OK", "202 Accepted"}
    assert (trip.files[0] == "config/serving/fast_lane.py") is (application is lane)
    return trip.files


@pytest.mark.parametrize(("application", "place"), BOTH, ids=["lane", "django"])
def test_evaluation__of_a_rule_with_a_percentage__enters_few_files(application: Any, place: int) -> None:
    FlagFactory(key="f", enabled=True, rules=[{"type": "percentage", "percentage": 50}])
    files = files_of(application, "/v1/flags/f/evaluate", KeyFactory(scope=Scope.CLIENT)[1])
    assert len(files) <= limits_of("An evaluation")[place], files


@pytest.mark.parametrize(("application", "place"), BOTH, ids=["lane", "django"])
def test_event__with_an_exposure__enters_few_files(application: Any, place: int) -> None:
    ExperimentFactory(key="e", running=True)
    exposure = {"experimentId": "e", "variant": "green"}
    key = KeyFactory(scope=Scope.SERVER)[1]
    files = files_of(application, "/v1/events", key, event="$exposure", properties=exposure)
    assert "experiments/exposures/recording.py" in files
    assert len(files) <= limits_of("An event")[place] + 2 * (connection.vendor == "postgresql"), files
