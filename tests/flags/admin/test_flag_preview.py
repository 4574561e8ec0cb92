"""Previews of a flag's form before it is saved: for whom it flips, and how many users each rule decides."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from config import snapshot
from config.models import Environment
from flags.changes.flag_changes import create_flag
from flags.models import Flag
from flags.usage import previews
from flags.usage.previews import EditPreview, NoSample, preview_edit
from tests.admin import BY_SCRIPT, AdminClient, filled, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.flags.usage.users import store_four_users

PRO = {"type": "attribute", "conditions": [{"attribute": "plan", "operator": "equals", "value": "pro"}]}
ALL = {"type": "percentage", "percentage": 100}
COLOURS = [{"key": "blue", "value": 1}, {"key": "red", "value": 2}]


@pytest.fixture
def flag(production: Environment) -> Flag:
    """A flag that is on for users with the plan pro, one of four users of the last week."""
    store_four_users(production)
    return create_flag(key="f", enabled=True, rules=[PRO], environment=production, actor=ACTOR, now=NOON)


def page_of(flag: Flag) -> str:
    return reverse("admin:flags_flag_change", args=[flag.pk])


def ask(client: AdminClient, flag: Flag, **edits: Any) -> Any:
    sent = filled(client, page_of(flag), **edits)
    return client.post(reverse("admin:flags_flag_preview", args=[flag.pk]), sent, headers=BY_SCRIPT)


def test_preview__of_an_edit__says_who_would_flip_and_whom_each_rule_decides(flag: Flag) -> None:
    team = {"type": "attribute", "conditions": [{"attribute": "plan", "operator": "equals", "value": "team"}]}
    answer = ask(sign_in(), flag, rules=json.dumps([PRO, team])).json()
    assert answer == {
        "words": "Of the 4 users seen here in the last 7 days, 1 (25 %) would see something else.",
        "notes": [],
        "rules": ["25 % of the users seen in the last 7 days"] * 2,
        "examples": [
            {"user": "dee", "address": "/admin/experiments/experiment/user/?id=dee", "now": "off", "then": "on"}
        ],
    }


def test_preview__without_an_edit__says_whom_each_rule_decides(flag: Flag) -> None:
    answer = ask(sign_in(), flag).json()
    assert answer["words"] == "Of the 4 users seen here in the last 7 days, none would see something else."
    assert (answer["rules"], answer["examples"]) == (["25 % of the users seen in the last 7 days"], [])


def test_preview__of_a_flag_switched_off__says_whom_its_rules_would_decide(flag: Flag) -> None:
    answer = ask(sign_in(), flag, enabled=False).json()
    assert "1 (25 %) would see something else" in answer["words"]
    assert answer["rules"] == ["25 % of the users seen in the last 7 days"]


def test_preview__of_rules_behind_others__counts_only_whom_they_decide(flag: Flag) -> None:
    assert ask(sign_in(), flag, rules=json.dumps([ALL, PRO])).json()["rules"] == [
        "100 % of the users seen in the last 7 days",
        "No user seen in the last 7 days",
    ]


def test_preview__of_new_variants__names_them(flag: Flag) -> None:
    rules = [{**PRO, "variant": "red"}, {**ALL, "variant": "blue"}]
    edits = {"type": "number", "variants": json.dumps(COLOURS), "off_variant": "red", "rules": json.dumps(rules)}
    answer = ask(sign_in(), flag, **edits).json()
    seen = {example["user"]: (example["now"], example["then"]) for example in answer["examples"]}
    assert seen == {"ada": ("on", "on, red"), **dict.fromkeys(("bob", "cy", "dee"), ("off", "on, blue"))}


def test_preview__of_an_edit__writes_nothing(flag: Flag) -> None:
    before = revision()
    ask(sign_in(), flag, rules=json.dumps([ALL]), description="Other", reason="Because")
    assert revision() == before
    assert Flag.objects.get().description == ""


def test_preview__of_an_edit_that_would_be_refused__says_so(subtests: pytest.Subtests, flag: Flag) -> None:
    client = sign_in()
    for edits, says in [
        ({"rules": "[{"}, "The preview needs a form without mistakes."),
        ({"rules": '[{"type": "percentage"}]'}, "no preview of this edit. Rule 1, percentage: "),
        ({"opened_in": "staging"}, "no preview of this edit. You opened this page in another environment"),
    ]:
        with subtests.test(edits=edits, says=says):
            answer = ask(client, flag, **edits).json()
            assert says in answer["words"]
            assert list(answer) == ["words"]


def test_preview__without_recent_users__says_so(production: Environment) -> None:
    flag = create_flag(key="f", environment=production, actor=ACTOR, now=NOON)
    assert ask(sign_in(), flag).json() == {"words": NoSample.EMPTY.meaning}


def test_preview__of_an_attribute_that_nobody_has__names_it(flag: Flag) -> None:
    rule = {"type": "attribute", "conditions": [{"attribute": "country", "operator": "equals", "value": "DE"}]}
    answer = ask(sign_in(), flag, rules=json.dumps([rule])).json()
    assert answer["notes"] == [
        "No recent user is known to have the attribute country. It is kept from the time on when a rule reads it."
    ]


def test_preview__to_people_who_may_not_change_flags__is_refused(flag: Flag) -> None:
    client = sign_in("flags.view_flag")
    assert client.post(reverse("admin:flags_flag_preview", args=[flag.pk])).status_code == 403
    assert "Who would flip" not in text_of(client.get(page_of(flag)))


def test_preview__by_get__is_refused(flag: Flag) -> None:
    assert sign_in().get(reverse("admin:flags_flag_preview", args=[flag.pk])).status_code == 405


def test_preview__takes_few_queries(flag: Flag, django_assert_max_num_queries: Any) -> None:
    client = sign_in()
    sent = filled(client, page_of(flag), rules=json.dumps([ALL]))
    snapshot.refresh()
    # The session, the user, environments, the flag and its tags; the flag, its tags and states; the sample, its users.
    with django_assert_max_num_queries(10):
        client.post(reverse("admin:flags_flag_preview", args=[flag.pk]), sent)


def test_preview__that_would_take_long__asks_fewer_users_and_says_so(
    production: Environment, flag: Flag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(previews, "_MIN_USERS", 2)
    snapshot.refresh()

    def ask_with(clock: Any) -> EditPreview:
        found = preview_edit(key="f", environment=production, changes={"rules": [ALL]}, now=timezone.now(), clock=clock)
        assert isinstance(found, EditPreview)
        return found

    slow, slower, fast = iter([0.0, 0.7]), iter([0.0, 7.0]), iter([0.0, 0.1])
    assert [ask_with(ticks.__next__).preview.users for ticks in (slow, slower, fast)] == [2, 2, 4]

    monkeypatch.setattr(previews.preview_edit, "__kwdefaults__", {"clock": iter([0.0, 0.7]).__next__})
    answer = ask(sign_in(), flag, rules=json.dumps([ALL])).json()
    assert answer["notes"] == ["Computed from 2 of 4 users, because these rules take long."]
    assert answer["words"].startswith("Of the about 4 users seen here in the last 7 days, about ")
