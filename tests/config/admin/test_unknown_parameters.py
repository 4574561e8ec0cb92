"""Lists of the admin ignore parameters that they do not know, such as those of mailers, and look up no other column."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.urls import reverse

from config.models import Environment
from flags.changes.flag_changes import create_flag
from tests.admin import sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.factories import EventFactory
from tests.transactions import case_undone

pytestmark = pytest.mark.django_db

FLAGS = "/admin/flags/flag/"
USERS = "/admin/auth/user/"
LISTS = sorted(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist" for model in admin.site._registry)
DECORATED = "utm_source=mail&fbclid=1&foo=1&foo__bar=2&%00=%00"


def flags(environment: Environment, *keys: str) -> None:
    for key in keys:
        create_flag(key=key, environment=environment, actor=ACTOR, now=NOON)


def shown_on(page: Any) -> list[Any]:
    return list(page.context["cl"].result_list)


def carried_on(page: Any) -> list[str]:
    """Return the links and the fields of a page that name a parameter of a mailer."""
    parts: list[str] = re.findall(r'(?:href|formaction|name)="[^"]*"', page.content.decode())
    return [part for part in parts if re.search("utm_source|fbclid|foo", part)]


def test_list__with_parameters_of_a_mailer__is_shown_without_them(subtests: pytest.Subtests, caplog: Any) -> None:
    for name in LISTS:
        with subtests.test(name=name), case_undone():
            page = sign_in().get(f"{reverse(name)}?{DECORATED}")
            assert page.status_code == 200
            assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
            assert carried_on(page) == []


def test_list__with_parameters_of_a_mailer__keeps_its_filters_its_search_and_its_order(
    production: Environment,
) -> None:
    flags(production, "banner", "checkout", "check-in")
    client = sign_in()
    page = client.get(f"{FLAGS}?{DECORATED}&q=check&o=-1")
    assert [flag.key for flag in shown_on(page)] == [flag.key for flag in shown_on(client.get(f"{FLAGS}?q=check&o=-1"))]
    assert len(shown_on(page)) == 2
    page = client.get(f"/admin/config/change/?{DECORATED}&kind=flag&to=2000-01-31")
    assert shown_on(page) == []
    assert 'value="2000-01-31"' in page.content.decode()


def test_list__with_parameters_of_a_mailer__leads_to_its_pages_without_them(production: Environment) -> None:
    flags(production, *(f"flag-{number}" for number in range(60)))
    page = sign_in().get(f"{FLAGS}?{DECORATED}&q=flag&p=2")
    assert 0 < len(shown_on(page)) < 50
    assert carried_on(page) == []
    body = page.content.decode()
    assert 'href="?q=flag' in body
    assert "_changelist_filters=q%3Dflag%26p%3D2" in body  # back from a flag to the same page of the list


def test_list__with_a_bad_value_of_its_own_filter__answers_as_without_a_mailer(production: Environment) -> None:
    client = sign_in()
    for query in ("from=x", "kind=nothing", "p=x", "o=x"):
        plain = client.get(f"/admin/config/change/?{query}")
        decorated = client.get(f"/admin/config/change/?{query}&{DECORATED}")
        assert decorated.status_code == plain.status_code
        assert shown_on(decorated) == shown_on(plain)


@pytest.mark.parametrize(
    "lookup", ["key=banner", "key__startswith=b", "states__environment__key=production", "description__regex=(a%2B)%2B"]
)
def test_list__asked_for_a_lookup_of_a_column__makes_none(production: Environment, lookup: str) -> None:
    flags(production, "banner", "checkout")
    assert len(shown_on(sign_in().get(f"{FLAGS}?{lookup}"))) == 2


def test_users__asked_for_a_lookup_of_a_column__make_none() -> None:
    client = sign_in()
    for lookup in [
        "password__startswith=x",
        "email=x",
        "groups__name=x",
        "is_staff__exact__x=1",
        "groups__permissions__codename=x",
    ]:
        assert len(shown_on(client.get(f"{USERS}?{lookup}"))) == 1, lookup


def test_users__filtered_in_the_page__are_those() -> None:
    client = sign_in()
    other, testers = User.objects.create_user("bob"), Group.objects.create(name="testers")
    other.groups.add(testers)
    for query in ("is_staff__exact=0", f"groups__id__exact={testers.pk}"):
        assert shown_on(client.get(f"{USERS}?{query}&utm_source=mail")) == [other]
        assert f"?{query}" in client.get(USERS).content.decode()  # as the page itself links it


def test_events__with_parameters_of_a_mailer__are_still_followed_and_have_their_chart() -> None:
    client = sign_in()
    plain = client.get("/admin/events/event/?event=signup").context["cl"]
    decorated = client.get(f"/admin/events/event/?event=signup&{DECORATED}").context["cl"]
    assert (decorated.followed, decorated.event) == (plain.followed, plain.event) != ("", "")


def test_events__with_a_bad_value_of_a_parameter__say_so() -> None:
    page = sign_in().get(f"/admin/events/event/?from=x&{DECORATED}")
    assert page.status_code == 200
    assert shown_on(page) == []
    assert "utm_source" not in text_of(page)


def test_events__asked_for_a_property__are_those_and_the_page_shows_it(production: Environment) -> None:
    pro = EventFactory(name="see", properties={"plan": "pro"})
    EventFactory(name="see", properties={"plan": "free"})
    client = sign_in()
    page = client.get(f"/admin/events/event/?event=see&properties.plan=pro&{DECORATED}")
    assert shown_on(page) == [pro]
    assert 'name="properties.plan" value="pro"' in " ".join(page.content.decode().split())
    refused = client.get("/admin/events/event/?properties.plan=pro")
    assert shown_on(refused) == []
    assert "Requires `event` or `userId`, too." in text_of(refused)
    assert client.get("/admin/events/event/?event=see&properties.%00=pro").status_code == 200
