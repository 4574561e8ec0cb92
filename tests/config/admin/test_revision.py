"""What lists ask to keep up with the configuration."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client

from config.access.api_keys import create_key
from config.models import ApiKey, Change, Environment, Scope
from config.timestamps import format_timestamp
from flags.changes.flag_changes import create_flag, update_flag
from tests.admin import revision, sign_in
from tests.conftest import ACTOR, NOON
from tests.factories import FlagFactory
from tests.transactions import case_undone

REVISION = "/admin/config/environment/revision/"
LISTS = [
    *("/admin/flags/flag/", "/admin/flags/segment/", "/admin/experiments/experiment/", "/admin/experiments/metric/"),
    *("/admin/config/change/", "/admin/config/environment/", "/admin/config/apikey/"),
]


def test_revision__is_that_of_the_newest_change__with_one_query_of_its_own(
    db: None, django_assert_num_queries: Any
) -> None:
    client = sign_in("flags.view_flag")
    FlagFactory()
    with django_assert_num_queries(3), time_machine.travel(NOON, tick=False):  # session, user, change
        answer = client.get(REVISION)
    at = Change.objects.get(revision=revision()).at.timestamp()
    assert answer.json() == {"revision": revision(), "at": at, "now": NOON.timestamp()}
    Change.objects.all().delete()
    with time_machine.travel(NOON, tick=False):
        assert client.get(REVISION).json() == {"revision": 0, "at": 0, "now": NOON.timestamp()}


def test_revision__for_strangers__leads_to_the_login(db: None) -> None:
    assert Client().get(REVISION).status_code == 302


def test_list__of_configuration__keeps_up(subtests: pytest.Subtests, db: None) -> None:
    for address in LISTS:
        with subtests.test(address=address), case_undone():
            page = sign_in().get(address).content.decode()
            assert "config/live_list.js" in page
            assert f'data-address="{REVISION}"' in page


def changes_at(address: str) -> list[str]:
    with time_machine.travel(NOON, tick=False):
        return re.findall(r'data-changes-at="([^"]*)"', sign_in().get(address).content.decode())


def test_list_of_flags__with_schedules__says_when_the_first_of_them_changes_something(
    production: Environment, staging: Environment
) -> None:
    def ending(*, at: datetime, **more: Any) -> Any:
        return {"type": "percentage", "percentage": 50, "endAt": format_timestamp(at), **more}

    minute = timedelta(minutes=1)
    create_flag(key="f", rules=[ending(at=NOON - minute)], environment=production, actor=ACTOR, now=NOON)
    create_flag(key="g", rules=[ending(at=NOON + minute, enabled=False)], environment=production, actor=ACTOR, now=NOON)
    for key, environment, minutes in (("h", production, 9), ("i", staging, 5.5), ("j", production, 7)):
        rules = [ending(at=NOON + minutes * minute)]
        create_flag(key=key, environment=production, actor=ACTOR, now=NOON)
        update_flag(key=key, environment=environment, changes={"rules": rules}, actor=ACTOR, now=NOON)
    assert changes_at(LISTS[0]) == [str(int((NOON + 5.5 * minute).timestamp()))]


def test_list_of_keys__says_when_the_first_of_them_expires(production: Environment) -> None:
    for name, days in (("past", 1), ("soon", 3), ("later", 5)):
        expires = NOON + timedelta(days=days)
        made = {"name": name, "environment": production, "scope": Scope.CLIENT, "expires_at": expires}
        create_key(**made, actor=ACTOR, now=NOON)
    with time_machine.travel(NOON, tick=False):
        ApiKey.objects.filter(name="past").update(expires_at=NOON - timedelta(days=1))
    assert changes_at("/admin/config/apikey/") == [str(int((NOON + timedelta(days=3)).timestamp()))]


def test_list__without_schedules__does_not(subtests: pytest.Subtests, db: None) -> None:
    for address in LISTS:
        with subtests.test(address=address), case_undone():
            assert changes_at(address) == []


def test_list__of_events__has_a_tail_instead(db: None) -> None:
    assert "config/live_list.js" not in sign_in().get("/admin/events/event/").content.decode()
