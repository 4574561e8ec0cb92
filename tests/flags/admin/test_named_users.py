"""User ids in the words of pages link to the page of the user. The API's words have no links."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from config.access.environments import update_environment
from config.models import Change, Environment
from config.timestamps import format_timestamp
from flags.changes.flag_changes import create_flag, update_flag
from flags.changes.segment_changes import create_segment, update_segment
from flags.models import Flag, Segment
from tests.admin import filled, sign_in
from tests.answers import data
from tests.cases import undone
from tests.conftest import ACTOR, NOON
from tests.named_users import HOSTILE, linked_on, links_of

pytestmark = pytest.mark.django_db

ON: dict[str, Any] = {"actor": ACTOR, "now": NOON}
LIST = "/admin/flags/flag/"


def for_users(*user_ids: str, **more: Any) -> dict[str, Any]:
    return {"type": "users", "userIds": list(user_ids), **more}


def for_ids(*user_ids: Any, operator: str = "in") -> dict[str, Any]:
    value: Any = list(user_ids) if operator in ("in", "notIn") else user_ids[0]
    return {"type": "attribute", "conditions": [{"attribute": "userId", "operator": operator, "value": value}]}


def flag_for(production: Environment, *rules: dict[str, Any], key: str = "f") -> Flag:
    return create_flag(key=key, rules=list(rules), enabled=True, environment=production, **ON)


def page_of(thing: Flag | Segment, page: str = "change") -> str:
    return reverse(f"admin:flags_{thing._meta.model_name}_{page}", args=[thing.pk])


# --- lists -----------------------------------------------------------------------------------------------------------


def test_list__of_flags__links_any_id(production: Environment) -> None:
    for number, user_id in enumerate(HOSTILE):
        flag_for(production, for_users(user_id, f"bob-{number}"), for_ids("cy", user_id), key=f"f-{number}")
    body = sign_in().get(LIST).content.decode()
    expected = [[user_id, f"bob-{number}", "cy", user_id] for number, user_id in enumerate(HOSTILE)]
    found = [user_id for user_id, _, environment in links_of(body) if not environment]
    assert sorted(found) == sorted(user_id for users in expected for user_id in users)


def test_list__of_flags__links_users_in_the_environment_of_the_column(
    production: Environment, staging: Environment
) -> None:
    flag = flag_for(production, for_users("ada"))
    update_flag(key=flag.key, environment=staging, changes={"rules": [for_users("bob")]}, **ON)
    body = sign_in().get(LIST).content.decode()
    assert links_of(body) == [("ada", "ada", ""), ("bob", "bob", "staging")]


@pytest.mark.parametrize("number", [1, 3])
def test_list__of_flags__has_no_link_within_a_summary(production: Environment, number: int) -> None:
    """Short words have no summary, and long words repeat their links after it."""
    flag_for(production, *[for_users(*(f"{'u' * 30}-{place}-{rule}" for place in range(3))) for rule in range(number)])
    body = sign_in().get(LIST).content.decode()
    opened = [part.partition("</summary>")[0] for part in body.split("<summary>")[1:]]
    assert [name for name in opened if "field-switch" in name or "<a" in name] == []
    assert '<summary><span class="hy-unseen">The users of f:</span></summary>' in body


def test_condition__on_the_id__links_whole_ids(subtests: pytest.Subtests, production: Environment) -> None:
    client = sign_in()
    for operator, expected in [
        ("equals", {"ada"}), ("notEquals", {"ada"}), ("in", {"ada"}), ("notIn", {"ada"}), ("startsWith", set()),
    ]:  # fmt: skip
        with undone(subtests, operator=operator):
            flag_for(production, for_ids("ada", operator=operator))
            assert linked_on(client.get(LIST)) == expected


def test_condition__on_the_id_with_other_values_than_texts__links_none(production: Environment) -> None:
    flag = flag_for(production, for_ids(5, "ada", True))
    update_flag(key="f", environment=production, changes={"rules": [for_ids(6, "bob")]}, **ON)
    update_flag(key="f", environment=production, changes={"rules": [for_ids(*"abcdefg")]}, **ON)
    update_flag(key="f", environment=production, changes={"rules": [for_ids(*"abcdef", 7)]}, **ON)
    client = sign_in()
    assert linked_on(client.get(page_of(flag, "history"))) == {"ada", "bob", "a", "b", "c", "g"}
    sent = {"user_id": "lin", "attributes": '{"userId": 5}', "opened_in": "production"}
    assert client.post(page_of(flag, "try_it"), sent).status_code == 200


def test_condition__on_another_attribute__links_nothing(production: Environment) -> None:
    flag_for(
        production, {"type": "attribute", "conditions": [{"attribute": "n", "operator": "equals", "value": "ada"}]}
    )
    assert linked_on(sign_in().get(LIST)) == set()


def test_list__of_segments__links_those_whom_conditions_name() -> None:
    create_segment(key="s", conditions=for_ids("ada", "bob")["conditions"], **ON)
    client = sign_in()
    assert linked_on(client.get("/admin/flags/segment/")) == {"ada", "bob"}
    assert linked_on(sign_in("flags.view_segment", username="bob").get(page_of(Segment.objects.get()))) == {
        "ada",
        "bob",
    }


# --- pages of a flag -------------------------------------------------------------------------------------------------


def test_form__of_a_flag__links_users_of_other_environments(production: Environment, staging: Environment) -> None:
    flag = flag_for(production)
    update_flag(key=flag.key, environment=staging, changes={"enabled": True, "rules": [for_users("ada")]}, **ON)
    assert links_of(sign_in().get(page_of(flag)).content.decode()) == [("ada", "ada", "staging")]


def test_form__to_people_who_may_only_look__links_users(production: Environment) -> None:
    flag = flag_for(production, for_users("<ada>"))
    assert linked_on(sign_in("flags.view_flag").get(page_of(flag))) == {"<ada>"}


def test_trace__of_a_flag__links_users(production: Environment) -> None:
    flag = flag_for(production, for_ids("ada", "<bob>"))
    client, sent = sign_in(), {"user_id": "lin", "attributes": "{}", "opened_in": "production"}
    assert linked_on(client.post(page_of(flag, "try_it"), sent)) == {"ada", "<bob>", "lin"}
    opened = f"{reverse('admin:experiments_experiment_user')}?id=lin&flag=f"
    assert linked_on(client.get(opened)) == {"ada", "<bob>", "lin"}


def test_promotion__links_users(production: Environment, staging: Environment) -> None:
    flag = flag_for(production, for_users("ada"))
    update_flag(key=flag.key, environment=staging, changes={"rules": [for_users("<bob>")]}, **ON)
    assert linked_on(sign_in().get(page_of(flag, "promote"))) == {"ada", "<bob>"}


def test_question__before_an_edit__links_users(production: Environment) -> None:
    update_environment(production, protected=True, **ON)
    flag, start = flag_for(production, for_users("ada")), format_timestamp(timezone.now() + timedelta(days=2))
    client, page = sign_in(), page_of(flag)
    response = client.post(page, filled(client, page, rules=json.dumps([for_users("<bob>", startAt=start)])))
    assert "Save this change of" in response.content.decode()
    assert linked_on(response) == {"ada", "<bob>"}
    assert response.content.decode().count('id=ada" target="_blank">ada</a>') == 1  # what was typed stays


def test_versions__that_conflict__link_users(production: Environment) -> None:
    flag = flag_for(production, for_users("ada"), for_ids("ada"))
    client, page = sign_in(), page_of(flag)
    mine = filled(client, page, rules=json.dumps([for_users("<bob>"), for_ids("dan")]))
    update_flag(key="f", environment=production, changes={"rules": [for_users("cy"), for_ids("eve")]}, **ON)
    assert linked_on(client.post(page, mine)) - {"ada"} == {"<bob>", "cy", "dan", "eve"}


# --- changes ---------------------------------------------------------------------------------------------------------


def test_changes__of_a_flag_and_a_segment__link_any_id(subtests: pytest.Subtests, production: Environment) -> None:
    for first in range(0, len(HOSTILE), 3):
        with undone(subtests, first=first):
            users = HOSTILE[first : first + 3]
            flag = flag_for(production, for_users("ada"))
            update_flag(key="f", environment=production, changes={"rules": [for_users(*users)]}, **ON)
            segment = create_segment(key="s", user_ids=["ada"], **ON)
            update_segment(key="s", changes={"user_ids": ["ada", *users]}, actor=ACTOR, now=timezone.now())
            client, last = sign_in(), Change.objects.latest_revision()
            assert linked_on(client.get(page_of(flag, "history"))) == {"ada", *users}
            assert linked_on(client.get(page_of(segment, "history"))) == {"ada", *users}
            assert linked_on(client.get(reverse("admin:config_change_change", args=[last]))) == {*users}
            assert linked_on(client.get(reverse("admin:config_change_changelist"))) >= {*users}
            assert linked_on(client.get(reverse("admin:index"))) >= {*users}


def test_change__that_names_a_user__does_not_list_them_again(production: Environment) -> None:
    segment = create_segment(key="s", user_ids=["ada"], **ON)
    update_segment(key="s", changes={"user_ids": ["ada", "bob"]}, **ON)
    newest, oldest = sign_in().get(page_of(segment, "history")).context["changes"]
    assert ((newest.users, newest.more_users), oldest.users) == (([], 0), ["ada"])


def test_question__before_a_revert__links_users() -> None:
    segment = create_segment(key="s", user_ids=["ada"], **ON)
    first = Change.objects.latest_revision()
    update_segment(key="s", changes={"user_ids": ["<bob>"]}, **ON)
    address = reverse("admin:flags_segment_revert", args=[segment.pk, first])
    assert linked_on(sign_in().get(address)) == {"ada", "<bob>"}


def test_overview__of_what_comes__links_users(production: Environment) -> None:
    start = format_timestamp(timezone.now() + timedelta(days=2))
    flag_for(production, for_users("<ada>", startAt=start))
    assert linked_on(sign_in().get(reverse("admin:index"))) == {"<ada>"}


# --- the page of the user, and the API -------------------------------------------------------------------------------


def test_page__of_a_user_in_another_environment__offers_to_switch(staging: Environment) -> None:
    client, address = sign_in(), f"{reverse('admin:experiments_experiment_user')}?id=ada&in=staging"
    body = client.get(address).content.decode()
    assert "The link that you followed is about Staging." in body
    client.post(reverse("admin:switch_environment"), {"environment": "staging", "next": address})
    assert "The link that you followed" not in client.get(address).content.decode()
    unknown = client.get(address.replace("staging", "nowhere")).content.decode()
    assert "The link that you followed" not in unknown


def test_api__summary_of_a_flag__is_plain_text(production: Environment, api: Any) -> None:
    for number, user_id in enumerate(HOSTILE):
        flag_for(production, for_users(user_id), key=f"f-{number:02}")
    shown = [user_id if len(user_id) <= 60 else f"{user_id[:59]}…" for user_id in HOSTILE]
    quoted = [bool({",", ";"} & {*words}) or words != words.strip() for words in shown]
    shown = [f"on for “{words}”" if quotes else f"on for {words}" for words, quotes in zip(shown, quoted, strict=True)]
    assert [flag["summary"] for flag in data(api.get("/v1/flags?summary=true"))] == shown
    assert data(api.get("/v1/flags/f-00?summary=true"))["summary"] == shown[0]
