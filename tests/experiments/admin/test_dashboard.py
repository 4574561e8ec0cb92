"""The first page of the admin: its text for each user, and its number of queries."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qsl, urlsplit

import pytest
import time_machine
from django.db import OperationalError, ProgrammingError
from django.urls import reverse

from config.models import Environment
from config.timestamps import format_timestamp
from events.counts.storage import quarter_of
from events.models import EventCount
from experiments.admin import dashboard
from experiments.exposures.recording import assign
from experiments.lifecycle.changes import create_experiment, start_experiment
from experiments.metrics.changes import create_metric
from flags.changes.flag_changes import archive_flag, create_flag
from flags.models import Usage
from tests.admin import sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory, KeyFactory

DAY = timedelta(days=1)
VARIANTS = [{"key": "blue", "weight": 1}, {"key": "green", "weight": 1}]


@pytest.fixture
def world(production: Environment) -> None:
    for key, enabled in (("a", True), ("b", True), ("c", False)):
        create_flag(key=key, enabled=enabled, environment=production, actor=ACTOR, now=NOON)
    for key in ("draft-one", "runs"):
        create_experiment(key=key, variants=VARIANTS, metrics=["buy"], environment=production, actor=ACTOR, now=NOON)
    start_experiment(key="runs", environment=production, actor=ACTOR, now=NOON)


def test_root__leads_to_the_admin(db: None) -> None:
    assert sign_in().get("/").url == "/admin/"


def test_overview__of_the_current_environment__says_what_is_on_and_what_runs(world: None) -> None:
    client = sign_in()
    text = text_of(client.get("/admin/"))
    assert "Flags on 2 of 3 in Production" in text
    assert "Experiments running 1 1 draft, 0 stopped" in text
    assert "runs Started the experiment, and " in text
    client.post("/admin/config/environment/switch/", {"environment": "staging"})
    text = text_of(client.get("/admin/"))
    assert "Flags on 0 of 3 in Staging" in text
    assert "No experiment is running in Staging" in text


def test_overview__while_the_server_of_users_is_away__still_leads_to_the_flags(
    world: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "is_distributed", lambda: True)
    away = OperationalError("connection to the remote node failed")
    monkeypatch.setattr(dashboard, "analyse_experiment", Mock(side_effect=away))
    client = sign_in()
    text = text_of(client.get("/admin/"))
    assert "Flags on 2 of 3 in Production" in text
    assert "A server of the database does not answer" in text
    assert "Experiments running" not in text
    monkeypatch.setattr(dashboard, "analyse_experiment", Mock(side_effect=ProgrammingError("a mistake")))
    with pytest.raises(ProgrammingError):
        client.get("/admin/")


def test_overview__archived_flags__are_not_counted(world: None, production: Environment) -> None:
    archive_flag(key="a", environment=production, actor=ACTOR, now=NOON)
    assert "Flags on 1 of 2 in Production" in text_of(sign_in().get("/admin/"))


@pytest.mark.django_db(transaction=True)
def test_overview__with_one_running_experiment__takes_few_queries(
    world: None, django_assert_max_num_queries: Any
) -> None:
    client = sign_in()
    client.get("/admin/")  # the first look counts all events
    with django_assert_max_num_queries(28):
        client.get("/admin/")


def test_overview__of_a_running_experiment__has_its_verdict(world: None) -> None:
    text = text_of(sign_in().get("/admin/"))
    assert "runs 0 users since" in text
    assert "Keep running" in text


def test_overview__without_permissions__shows_nothing_of_it(world: None) -> None:
    text = text_of(sign_in("auth.view_group").get("/admin/"))
    for heading in ("Flags on", "Experiments running", "Next 14 days", "Changed today", "Stale flags"):
        assert heading not in text


@time_machine.travel(NOON + DAY, tick=False)
def test_overview__more_running_experiments_than_fit__has_pages(production: Environment) -> None:
    for number in range(6):
        ExperimentFactory(key=f"e-{number}", running=True)
    client = sign_in()
    first, second = text_of(client.get("/admin/")), text_of(client.get("/admin/?p=2"))
    assert sum(f" e-{number} 0 users since" in first for number in range(6)) == 5
    assert sum(f" e-{number} 0 users since" in second for number in range(6)) == 1
    assert "Page 1 of 2 Next" in first
    assert "Previous Page 2 of 2" in second
    assert text_of(client.get("/admin/?p=none")) == first


def test_overview__of_experiments_that_were_stopped_lately__reads_as_history(production: Environment) -> None:
    with time_machine.travel(NOON + 31 * DAY, tick=False):
        for key, days in (("older", 0), ("newer", 5)):
            ExperimentFactory(key=key, started_at=NOON - DAY, stopped_at=NOON + days * DAY)
        for number in range(5):
            ExperimentFactory(key=f"e-{number}", started_at=NOON, stopped_at=NOON + (6 + number) * DAY)
        text = text_of(sign_in().get("/admin/"))
    assert "Finished in the last 30 days e-4 Stopped on 10 Feb 2026 e-3 Stopped on 9 Feb 2026" in text
    assert "newer" not in text  # five fit
    assert "older" not in text


# --- what will happen ------------------------------------------------------------------------------------------------


def agenda(client: Any) -> str:
    [part] = re.findall(r"Next 14 days (.*?) Changed today", text_of(client.get("/admin/")))
    return part


def test_agenda__of_two_weeks__has_rules_expiries_keys_and_experiments_in_order(production: Environment) -> None:
    starts = {"type": "percentage", "percentage": 25, "startAt": format_timestamp(NOON + 3 * DAY)}
    FlagFactory(key="on", on=True, rules=[starts])
    FlagFactory(key="off", rules=[{**starts, "startAt": format_timestamp(NOON + 4 * DAY)}])
    FlagFactory(key="later", on=True, rules=[{**starts, "startAt": format_timestamp(NOON + 15 * DAY)}])
    FlagFactory(key="old", expires_at=NOON + 2 * DAY)
    archive_flag(key=FlagFactory(key="gone", expires_at=NOON + DAY).key, environment=production, actor=ACTOR, now=NOON)
    KeyFactory(name="a partner", expires_at=NOON + 5 * DAY)
    ExperimentFactory(key="runs", running=True, minimum_days=7)
    ExperimentFactory(key="runs-long", running=True, minimum_days=15)
    with time_machine.travel(NOON + timedelta(seconds=1), tick=False):
        assert agenda(sign_in()) == (
            "Mon 2 Feb, 12:00 old expires: remove it from the code, then archive it "
            "Tue 3 Feb, 12:00 on rule 1 starts: 25 % of everyone "
            "Wed 4 Feb, 12:00 off rule 1 starts: 25 % of everyone; the flag is off "
            "Thu 5 Feb, 12:00 a partner expires, and calls with this API key are refused "
            "Sat 7 Feb, 12:00 runs will have run for as long as planned"
        )


def test_agenda__without_anything_scheduled__says_so(production: Environment) -> None:
    FlagFactory(key="plain")
    assert agenda(sign_in()) == "Nothing changes by itself in Production."


def test_agenda__of_much__shows_the_first_and_folds_the_rest(production: Environment) -> None:
    for number in range(14):
        FlagFactory(key=f"f-{number:02}", expires_at=NOON + (number + 1) * timedelta(hours=1))
    with time_machine.travel(NOON, tick=False):
        shown = agenda(sign_in())
    first, _, rest = shown.partition(" 2 more ")
    assert ("f-11" in first, "f-12" in first) == (True, False)
    assert "f-12" in rest
    assert "f-13" in rest


# --- what changed, and what waits ------------------------------------------------------------------------------------


def test_changes__of_today__are_those_since_midnight(production: Environment) -> None:
    now = NOON + 1000 * DAY  # after the environments of the database were made
    create_flag(key="yesterday", environment=production, actor=ACTOR, now=now - DAY)
    with time_machine.travel(now, tick=False):
        client = sign_in()
        assert "Changed today Nothing. The last change was made 1 day ago." in text_of(client.get("/admin/"))
        create_flag(key="fresh", environment=production, actor=ACTOR, now=now)
        changed = text_of(client.get("/admin/")).partition("Changed today")[2]
    assert "Flag fresh Created the flag" in changed
    assert "yesterday" not in changed


@pytest.mark.parametrize(("zone", "start"), [("UTC", "2028-06-01"), ("Europe/Berlin", "2028-05-31T22:00:00.000000Z")])
def test_changes__of_a_busy_day__lead_to_all_of_them(
    production: Environment, settings: Any, zone: str, start: str
) -> None:
    settings.TIME_ZONE = zone
    now = datetime(2028, 6, 1, 12, tzinfo=UTC)  # after the environments of the database were made
    create_flag(key="yesterday", environment=production, actor=ACTOR, now=now - DAY)
    with time_machine.travel(now, tick=False):
        client = sign_in()
        for number in range(12):
            create_flag(key=f"f-{number:02}", environment=production, actor=ACTOR, now=now)
            if not number:
                assert "All changes of today" not in text_of(client.get("/admin/"))
        page = client.get("/admin/").content.decode()
        [address] = re.findall(r'href="([^"]+)">All changes of today', page)
        assert dict(parse_qsl(urlsplit(address).query)) == {"from": start}
        found = text_of(client.get(address))
    assert [f"f-{number:02}" in found for number in range(12)] == [True] * 12
    assert "yesterday" not in found


def test_stale__flags__are_listed_with_their_reasons_their_usage_and_a_button(production: Environment) -> None:
    expired = FlagFactory(key="expired", expires_at=NOON - DAY)
    Usage.objects.create(environment=production, flag_key="expired", hour=NOON, outcome="on", count=1234)
    Usage.objects.create(environment=production, flag_key="expired", hour=NOON - 14 * DAY, outcome="on", count=999)
    for number in range(6):
        FlagFactory(key=f"more-{number}", expires_at=NOON - DAY)
    with time_machine.travel(NOON, tick=False):
        page = sign_in().get("/admin/")
        assert "expired The flag has expired." in text_of(page)
        assert "1,234 evaluations in 14 days" in text_of(page)
        assert "and 2 more" in text_of(page)
        archive = reverse("admin:flags_flag_archive", args=[expired.pk])
        assert f'href="{archive}"' in page.content.decode()
        reader = sign_in("flags.view_flag", username="grace").get("/admin/")
    assert "The flag has expired." in text_of(reader)
    assert archive not in reader.content.decode()


def test_metrics__whose_events_stopped__are_listed(production: Environment) -> None:
    for key, event in (("purchases", "buy"), ("visits", "visit")):
        create_metric(key=key, event=event, type="conversion", actor=ACTOR, now=NOON)
    now = quarter_of(NOON)
    for event, silence in (("buy", 40), ("visit", 0)):
        EventCount.objects.bulk_create(
            EventCount(environment=production, name=event, quarter=now - silence - 4 * hour, stripe=0, count=1)
            for hour in range(7 * 24)
        )
    with time_machine.travel(NOON, tick=False):
        listed = text_of(sign_in().get("/admin/")).partition("Metrics without events ")[2]
    assert listed.startswith("purchases The event buy has stopped: Production has received none since 31 Jan 2026, ")
    assert "visits" not in listed


# --- days left -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "users", "day", "words"),
    [
        ({"minimum_days": 7}, 10, 2, "about 5 days left"),
        ({"minimum_days": 7}, 10, 8, "the plan is done"),
        ({"minimum_days": 1, "planned_size": 40}, 10, 2, "about 6 days left"),
        ({"minimum_days": 9, "planned_size": 40}, 10, 2, "about 7 days left"),
        ({"minimum_days": 1, "planned_size": 10}, 10, 2, "the plan is done"),
        ({"minimum_days": 1, "planned_size": 40}, 0, 2, ""),
        ({"minimum_days": 0}, 10, 2, ""),
    ],
)
def test_days_left__of_a_plan__follow_the_shortest_run_and_the_pace(
    plan: dict[str, Any], users: int, day: int, words: str, production: Environment
) -> None:
    experiment = ExperimentFactory(key="runs", running=True, metrics=[], **plan)
    for number in range(users):
        assign(experiment.pk, f"user-{number}", "green", NOON + timedelta(hours=1))
    with time_machine.travel(NOON + day * DAY, tick=False):
        text = text_of(sign_in().get("/admin/"))
    assert f"runs {users} users since 31 Jan 2026{' ; ' if words else ''}{words} " in text
