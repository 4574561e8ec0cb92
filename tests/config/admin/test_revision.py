"""What lists ask to keep up with the configuration."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from config.models import Change
from tests.admin import revision, sign_in
from tests.factories import FlagFactory

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
    with django_assert_num_queries(3):  # session, user, change
        answer = client.get(REVISION)
    assert answer.json() == {"revision": revision(), "at": Change.objects.get(revision=revision()).at.timestamp()}
    Change.objects.all().delete()
    assert client.get(REVISION).json() == {"revision": 0, "at": 0}


def test_revision__for_strangers__leads_to_the_login(db: None) -> None:
    assert Client().get(REVISION).status_code == 302


@pytest.mark.parametrize("address", LISTS)
def test_list__of_configuration__keeps_up(db: None, address: str) -> None:
    page = sign_in().get(address).content.decode()
    assert "config/live_list.js" in page
    assert f'data-address="{REVISION}"' in page


def test_list__of_events__has_a_tail_instead(db: None) -> None:
    assert "config/live_list.js" not in sign_in().get("/admin/events/event/").content.decode()
