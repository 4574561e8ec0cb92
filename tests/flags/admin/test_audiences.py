"""For how many recent users flags are on: in the list, and on the form of a new flag."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from config import snapshot
from config.models import Change, Environment
from flags.changes.flag_changes import archive_flag, create_flag, update_flag
from flags.models import Flag
from flags.usage.previews import NoSample
from tests.admin import BY_SCRIPT, AdminClient, filled, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.flags.usage.users import seen, store, store_four_users

ADD = "/admin/flags/flag/add/"
PRO = {"type": "attribute", "conditions": [{"attribute": "plan", "operator": "equals", "value": "pro"}]}
TEAM = {"type": "attribute", "conditions": [{"attribute": "plan", "operator": "equals", "value": "team"}]}
NOBODY = {"type": "percentage", "percentage": 0}
COLOURS = [{"key": "blue", "value": 1}, {"key": "red", "value": 2}]


@pytest.fixture
def production(production: Environment) -> Environment:
    """An environment in which four users were seen in the last week, one of them with the plan pro."""
    store_four_users(production)
    return production


def create(environment: Environment, key: str = "f", **values: Any) -> Flag:
    return create_flag(key=key, environment=environment, actor=ACTOR, now=NOON, **{"enabled": True, **values})


def ask(client: AdminClient, *ids: object) -> Any:
    return client.get(reverse("admin:flags_flag_audiences"), {"flag": [str(pk) for pk in ids]})


# --- the list --------------------------------------------------------------------------------------------------------


def test_audiences__of_a_list__are_shares_of_recent_users_in_each_environment(
    production: Environment, staging: Environment
) -> None:
    flag, nobody = create(production, rules=[PRO]), create(production, "g", rules=[NOBODY])
    update_flag(key="f", environment=staging, changes={"enabled": True, "rules": [TEAM]}, actor=ACTOR, now=NOON)
    store(staging, seen("eve", timezone.now(), plan="team"), now=timezone.now())
    answer = ask(sign_in(), flag.pk, nobody.pk).json()
    quarter = {"share": "25 %", "words": "25 % of the users seen in the last 7 days"}
    assert answer[str(flag.pk)][0] == quarter
    assert answer[str(flag.pk)][1]["share"] == "100 %"
    assert answer[str(nobody.pk)] == [{"share": "0 %", "words": "No user seen in the last 7 days"}, None]


def test_audiences__of_flags_that_are_off_or_archived_or_without_rules__are_left_out(production: Environment) -> None:
    off, plain = create(production, "off", enabled=False, rules=[PRO]), create(production, "plain")
    create(production, "old", rules=[PRO])
    old = archive_flag(key="old", environment=production, actor=ACTOR, now=NOON)
    assert ask(sign_in(), off.pk, plain.pk, old.pk).json() == {}


def test_audiences__without_recent_users__are_left_out(staging: Environment) -> None:
    assert ask(sign_in(), create(staging, rules=[PRO]).pk).json() == {}


def test_audiences__of_what_is_no_flag__are_left_out(production: Environment) -> None:
    client = sign_in()
    assert ask(client, "f", "", NOON, Change.objects.count()).json() == {}
    assert ask(client).json() == {}


@pytest.mark.parametrize(("permission", "status"), [("flags.view_segment", 403), ("flags.view_flag", 200)])
def test_audiences__are_for_people_who_may_see_flags(production: Environment, permission: str, status: int) -> None:
    assert ask(sign_in(permission), create(production, rules=[PRO]).pk).status_code == status


def test_audiences__of_any_number_of_flags__take_the_same_queries(
    production: Environment, django_assert_max_num_queries: Any
) -> None:
    ids = [create(production, f"f{number}", rules=[PRO]).pk for number in range(20)]
    client = sign_in()
    snapshot.refresh()
    # The session, the user, environments; the flags of each; the sample and its users in one.
    with django_assert_max_num_queries(7):
        ask(client, *ids)


# --- a new flag ------------------------------------------------------------------------------------------------------


def preview(client: AdminClient, **edits: Any) -> Any:
    return client.post(reverse("admin:flags_flag_preview_new"), filled(client, ADD, **edits), headers=BY_SCRIPT).json()


def test_preview__of_a_new_flag__says_who_would_have_it_on(production: Environment) -> None:
    answer = preview(sign_in(), key="f", enabled=True, rules=json.dumps([PRO, TEAM]))
    assert answer == {
        "words": "Of the 4 users seen here in the last 7 days, 2 (50 %) would have it on.",
        "notes": [],
        "rules": ["25 % of the users seen in the last 7 days"] * 2,
        "examples": [
            {"user": key, "address": f"/admin/experiments/experiment/user/?id={key}", "now": "off", "then": "on"}
            for key in [example["user"] for example in answer["examples"]]
        ],
    }
    assert {example["user"] for example in answer["examples"]} == {"ada", "dee"}


def test_preview__of_a_new_flag_that_is_off__is_for_when_it_is_on_whatever_its_key(
    subtests: pytest.Subtests, production: Environment
) -> None:
    create(production, "taken")
    before = revision()
    client = sign_in()
    for key in ["", "not a key", "taken"]:
        with subtests.test(key=key):
            answer = preview(client, key=key, rules=json.dumps([PRO]))
            assert answer["words"].endswith("1 (25 %) would have it on, once the flag is on.")
            assert revision() == before


def test_preview__of_a_new_flag_with_values__counts_who_gets_another_than_while_it_is_off(
    production: Environment,
) -> None:
    rules = [{**PRO, "variant": "red"}, {**TEAM, "variant": "blue"}]
    edits = {"type": "number", "variants": json.dumps(COLOURS), "off_variant": "red", "rules": json.dumps(rules)}
    answer = preview(sign_in(), key="f", enabled=True, **edits)
    assert {example["then"] for example in answer["examples"]} == {"on, red", "on, blue"}


def test_preview__of_a_new_flag_that_would_be_refused__says_so(
    subtests: pytest.Subtests, production: Environment
) -> None:
    client = sign_in()
    for edits, says in [
        ({"rules": "[{"}, "The preview needs a form without mistakes."),
        ({"rules": '[{"type": "percentage"}]'}, "no preview of this edit. Rule 1, percentage: "),
        ({"rules": '[{"type": "segment", "segments": ["lost"]}]'}, "no preview of this edit. Rule 1"),
        ({"opened_in": "staging"}, "no preview of this edit. You opened this page in another environment"),
    ]:
        with subtests.test(edits=edits, says=says):
            answer = preview(client, key="f", **edits)
            assert says in answer["words"]
            assert list(answer) == ["words"]


def test_preview__of_a_new_flag_without_recent_users__says_so(db: None) -> None:
    assert preview(sign_in(), key="f") == {"words": NoSample.EMPTY.meaning}


def test_preview__of_a_new_flag__is_for_people_who_may_add_flags(production: Environment) -> None:
    client, address = sign_in("flags.view_flag", "flags.change_flag"), reverse("admin:flags_flag_preview_new")
    assert client.post(address).status_code == 403
    assert client.get(address).status_code == 405


def test_form_of_a_new_flag__to_people_who_may_add_flags_only__has_the_preview(production: Environment) -> None:
    client = sign_in("flags.add_flag")
    assert "Who would get it in Production" in text_of(client.get(ADD))
    assert "would have it on" in preview(client, key="f", enabled=True)["words"]
