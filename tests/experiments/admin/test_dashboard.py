"""The first page of the admin: its text for each user, and its number of queries."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from config.models import Environment
from experiments.lifecycle.changes import create_experiment, start_experiment
from flags.changes.flag_changes import archive_flag, create_flag
from tests.admin import sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.results.test_computing import QUERIES_OF_ONE_MOMENT

QUERIES_FOR_NEWS = 4 if connection.vendor == "postgresql" else 3
VARIANTS = [{"key": "blue", "weight": 1}, {"key": "green", "weight": 1}]


@pytest.fixture
def world(production: Environment) -> None:
    for key, enabled in (("a", True), ("b", True), ("c", False)):
        create_flag(key=key, enabled=enabled, environment=production, actor=ACTOR, at=NOON)
    for key in ("draft-one", "runs"):
        create_experiment(key=key, variants=VARIANTS, metrics=["buy"], environment=production, actor=ACTOR, at=NOON)
    start_experiment(key="runs", environment=production, actor=ACTOR, at=NOON)


def test_root__leads_to_the_admin(db: None) -> None:
    assert sign_in().get("/").url == "/admin/"


def test_overview__of_the_current_environment__says_what_is_on_and_what_runs(world: None) -> None:
    client = sign_in()
    text = text_of(client.get("/admin/"))
    assert "Flags on 2 of 3 in Production" in text
    assert "Experiments running 1 1 draft, 0 stopped" in text
    assert "runs status: draft → running" in text
    client.post("/admin/config/environment/switch/", {"environment": "staging"})
    text = text_of(client.get("/admin/"))
    assert "Flags on 0 of 3 in Staging" in text
    assert "No experiment is running in Staging" in text


def test_overview__archived_flags__are_not_counted(world: None, production: Environment) -> None:
    archive_flag(key="a", environment=production, actor=ACTOR, at=NOON)
    assert "Flags on 1 of 2 in Production" in text_of(sign_in().get("/admin/"))


@pytest.mark.django_db(transaction=True)
def test_overview__with_one_running_experiment__takes_few_queries(world: None, django_assert_num_queries: Any) -> None:
    client = sign_in()
    client.get("/admin/")  # the first look counts all events
    # session, user, environments, flags, statuses, running, what is new, sums, caps, anomalies, never received, changes
    with django_assert_num_queries(12 + QUERIES_FOR_NEWS + QUERIES_OF_ONE_MOMENT):
        client.get("/admin/")


def test_overview__of_a_running_experiment__has_its_verdict(world: None) -> None:
    text = text_of(sign_in().get("/admin/"))
    assert "runs 0 users since" in text
    assert "Keep running" in text


def test_overview__without_permissions__shows_nothing_of_it(world: None) -> None:
    text = text_of(sign_in("auth.view_group").get("/admin/"))
    assert "Flags on" not in text
    assert "Experiments running" not in text
    assert "Latest changes" not in text
