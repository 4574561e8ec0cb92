"""Suggestions for conditions: attributes and values of recent users in the environment."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.urls import reverse
from django.utils import timezone

from config import snapshot
from config.models import Environment
from flags.changes.flag_changes import create_flag
from tests.admin import sign_in
from tests.conftest import ACTOR, NOON
from tests.flags.usage.users import seen, store

SEEN = reverse("admin:flags_flag_seen")
PRO = {"type": "attribute", "conditions": [{"attribute": "tier", "operator": "equals", "value": "pro"}]}


def test_suggestions__are_the_names_that_are_read_or_seen_with_their_usual_values(production: Environment) -> None:
    create_flag(key="f", rules=[PRO], environment=production, actor=ACTOR, now=NOON)
    now = timezone.now()
    users = [
        seen("ada", now, plan="pro", age=40, tags=["a", "b"], beta=True, company={"plan": "x"}),
        seen("bob", now, plan="free", age=40, tags=["b"], long="x" * 101),
        seen("cy", now, plan="free", empty=""),
        seen("dee", now - timedelta(days=8), plan="old"),
    ]
    store(production, *users, now=now)
    assert sign_in().get(SEEN).json() == {
        "age": ["40"],
        "beta": [],
        "company": [],
        "empty": [],
        "long": [],
        "plan": ["free", "pro"],
        "tags": ["b", "a"],
        "tier": [],
    }


def test_suggestions__of_an_attribute_with_many_values__are_those_that_users_share(production: Environment) -> None:
    now = timezone.now()
    emails = [*(f"user-{number}@shop.example" for number in range(30)), "team@shop.example", "team@shop.example"]
    store(production, *(seen(f"u{number}", now, email=email) for number, email in enumerate(emails)), now=now)
    assert sign_in().get(SEEN).json() == {"email": ["team@shop.example"]}


def test_suggestions__of_another_environment__are_its_own(production: Environment, staging: Environment) -> None:
    now = timezone.now()
    store(production, seen("ada", now, plan="pro"), now=now)
    client = sign_in()
    client.post(reverse("admin:switch_environment"), {"environment": "staging"})
    assert client.get(SEEN).json() == {}


def test_suggestions__without_recent_users__are_the_names_that_rules_read(
    production: Environment, settings: Any
) -> None:
    create_flag(key="f", rules=[PRO], environment=production, actor=ACTOR, now=NOON)
    settings.RECENT_USERS = False
    assert sign_in().get(SEEN).json() == {"tier": []}


def test_suggestions__of_any_number_of_users__take_the_same_queries(
    production: Environment, django_assert_max_num_queries: Any
) -> None:
    now = timezone.now()
    store(production, *(seen(f"u{at}", now, plan="pro") for at in range(12)), now=now)
    client = sign_in()
    snapshot.refresh()
    with django_assert_max_num_queries(4):  # the session, the user, environments, recent users
        assert client.get(SEEN).json() == {"plan": ["pro"]}


def test_suggestions__to_people_who_may_not_see_flags__are_refused(production: Environment) -> None:
    assert sign_in("flags.view_segment").get(SEEN).status_code == 403
