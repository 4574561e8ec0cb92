"""Edits of flags and segments in protected environments that take a flag from users: the pages ask first."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from config.access.environments import update_environment
from config.models import Change, Environment, ReasonSetting
from config.timestamps import format_timestamp
from flags.changes.flag_changes import create_flag, get_flag, update_flag
from flags.changes.segment_changes import create_segment, get_segment
from flags.models import Flag, Segment, Usage, hour_of
from tests.admin import AdminClient, answer, filled, hidden_fields, revision, sign_in, text_of
from tests.cases import undone
from tests.conftest import ACTOR, NOON
from tests.flags.usage.users import seen, store, store_four_users

PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
FREE = {**PRO, "value": "free"}
MEMBER = {"operator": "inSegment", "value": "testers"}
COLOURS = [{"key": "blue", "value": "b"}, {"key": "red", "value": "r"}]


def share(percentage: float, **more: Any) -> dict[str, Any]:
    return {"type": "percentage", "percentage": percentage, **more}


def rule_for(*conditions: Any, **more: Any) -> dict[str, Any]:
    return {"type": "attribute", "conditions": list(conditions), **more}


def tomorrow() -> str:
    return format_timestamp(timezone.now() + timedelta(days=1))


def flag_on(production: Environment, *rules: Any, key: str = "f", **more: Any) -> Flag:
    return create_flag(key=key, rules=list(rules), enabled=True, environment=production, actor=ACTOR, now=NOON, **more)


def page_of(thing: Flag | Segment) -> str:
    return reverse(f"admin:flags_{thing._meta.model_name}_change", args=[thing.pk])


def save(client: AdminClient, thing: Flag | Segment, **edits: Any) -> Any:
    as_text = {name: edit if isinstance(edit, str | bool) else json.dumps(edit) for name, edit in edits.items()}
    return client.post(page_of(thing), filled(client, page_of(thing), **as_text))


def asks(response: Any) -> bool:
    return response.status_code == 200 and "Save this change of" in text_of(response)


# --- flags: without knowing a user -----------------------------------------------------------------------------------


def test_edit__after_which_nobody_gets_the_flag__asks(subtests: pytest.Subtests, production: Environment) -> None:
    create_segment(key="nobody", actor=ACTOR, now=NOON)
    create_segment(key="nested", conditions=[{**MEMBER, "value": "nobody"}], actor=ACTOR, now=NOON)
    client = sign_in()
    for before, after, expected in [
        ([], [share(0)], True),
        ([], [share(0.001)], False),
        ([], [rule_for(PRO)], False),
        ([], [rule_for(PRO, enabled=False)], True),
        ([], [share(50, startAt="tomorrow")], True),
        ([], [{"type": "segment", "segment": "nobody"}], True),
        ([], [rule_for({**MEMBER, "value": "nobody"})], True),
        ([], [rule_for({**MEMBER, "value": "nobody", "negate": True})], False),
        ([], [{"type": "segment", "segment": "nested"}], True),
        ([], [share(0, ramp=[{"at": "tomorrow", "percentage": 50}])], True),
        ([], [share(100, serves=False), rule_for(PRO)], True),
        ([], [rule_for(PRO, serves=False), share(100)], False),
        ([share(0)], [share(0), share(0)], False),
        ([share(50, startAt="tomorrow")], [share(0)], False),
        ([rule_for(PRO)], [rule_for(PRO), share(50)], False),
    ]:
        with undone(subtests, before=before, after=after):
            dated = [
                json.loads(json.dumps(rules).replace('"tomorrow"', f'"{tomorrow()}"')) for rules in (before, after)
            ]
            flag = flag_on(production, *dated[0])
            assert asks(save(client, flag, rules=dated[1])) is expected


def test_edit__after_which_nobody_gets_the_same_value__asks(subtests: pytest.Subtests, production: Environment) -> None:
    flag = flag_on(production, type="string", variants=COLOURS, default_variant="blue", off_variant="red")
    client = sign_in()
    for edits, expected in [
        ({"default_variant": "red"}, True),
        ({"variants": [{"key": "blue", "value": "other"}, COLOURS[1]]}, True),
        ({"rules": [share(100, split=[{"variant": "red", "weight": 1}])]}, True),
        ({"rules": [share(100, split=[{"variant": "red", "weight": 1}, {"variant": "blue", "weight": 1}])]}, False),
        ({"off_variant": "blue"}, False),
    ]:
        with undone(subtests, edits=edits):
            assert asks(save(client, flag, **edits)) is expected


def test_edit__that_adds_a_prerequisite_that_is_off__asks(production: Environment) -> None:
    create_flag(key="base", environment=production, actor=ACTOR, now=NOON)
    page = save(sign_in(), flag_on(production), prerequisites=[{"flag": "base"}])
    assert "From then on, f is off for everyone." in text_of(page)


def test_edit__of_a_flag_that_others_need__asks_about_them(production: Environment) -> None:
    base = flag_on(production, key="base")
    flag_on(production, prerequisites=[{"flag": "base"}])
    shown = text_of(save(sign_in(), base, rules=[share(0)]))
    assert "From then on, base is off for everyone. From then on, f is off for everyone." in shown


def test_edit__of_a_flag_that_another_needs__names_both(production: Environment) -> None:
    store_four_users(production)
    base = flag_on(production, share(100), key="base")
    flag_on(production, prerequisites=[{"flag": "base"}])
    shown = text_of(save(sign_in(), base, rules=[rule_for(PRO)]))
    assert "will see something else in base or f. base or f goes off for 3 users." in shown
    assert "at least one" not in shown.lower()


def test_edit__that_changes_nothing_for_users__asks_nothing(subtests: pytest.Subtests, production: Environment) -> None:
    store_four_users(production)
    client = sign_in()
    for edits in [{"description": "New"}, {"tags": "shop"}, {"owner": "ada"}, {}]:
        with undone(subtests, edits=edits):
            assert not asks(save(client, flag_on(production, share(50)), **edits))


# --- flags: recent users ---------------------------------------------------------------------------------------------


def test_edit__by_which_recent_users_flip__asks(subtests: pytest.Subtests, production: Environment) -> None:
    store_four_users(production)
    client = sign_in()
    for before, after, expected in [
        (rule_for(PRO), rule_for(FREE), True),  # ada loses it
        (rule_for(PRO), share(100), True),  # three of four get it
        (rule_for(PRO), rule_for({**PRO, "operator": "in", "value": ["pro"]}), False),
    ]:
        with undone(subtests, before=before, after=after):
            assert asks(save(client, flag_on(production, before), rules=[after])) is expected


def test_edit__that_gives_few_users_something_else__asks_nothing(production: Environment) -> None:
    now = timezone.now()
    notes = [seen(f"user-{number}", now, plan="pro" if number < 2 else "free") for number in range(40)]
    store(production, *notes, now=now)
    flag = flag_on(production, {"type": "users", "userIds": ["user-3"]})
    shown = {"type": "users", "userIds": ["user-3", "user-4"]}
    assert not asks(save(sign_in(), flag, rules=[shown]))
    assert asks(save(sign_in(username="bob"), flag, rules=[{**shown, "userIds": ["user-4"]}]))


def test_question__says_what_happens_to_whom_and_saves_what_was_asked(production: Environment) -> None:
    update_environment(production, change_reason=ReasonSetting.REQUIRED, actor=ACTOR, now=NOON)
    store_four_users(production)
    flag = flag_on(production, rule_for(PRO))
    for hours, count in ((0, 900), (20, 334), (30, 5_000)):
        hour = hour_of(timezone.now() - timedelta(hours=hours))
        Usage.objects.create(environment=production, flag_key="f", outcome="on", hour=hour, count=count)
    client, before = sign_in(), revision()
    page = save(client, flag, rules=[rule_for(FREE)], description="New\nlines", tags="shop", reason="Swap")
    shown = text_of(page)
    assert "Save this change of f? In Production" in shown
    assert (
        "Now f is on for users whose plan equals pro. After this change, it is on for users whose plan equals free. "
        "Of the 4 users seen here in the last 7 days, 3 (75 %) will see something else. f goes off for 1 user. "
        "In the last day, f was evaluated 1,234 times here. "
        "Of the 4 users seen here in the last day, 3 (75 %) will see something else."
    ) in shown
    assert revision() == before
    assert answer(client, page, reason="Swap the plans").status_code == 302
    changed = get_flag("f", production)
    assert (changed.rules, changed.description, changed.tags) == ([rule_for(FREE)], "New\nlines", ["shop"])
    assert Change.objects.since(before).get().reason == "Swap the plans"


def test_question__declined__gives_the_form_back(production: Environment) -> None:
    flag = flag_on(production)
    client, before = sign_in(), revision()
    page = save(client, flag, rules=[share(0)], description="New", reason="Swap")
    again = answer(client, page, 1)
    form = again.context["adminform"].form
    assert "You cancelled, so nothing was changed." in text_of(again)
    assert "Please correct" not in text_of(again)
    assert (form["description"].value(), json.loads(form["rules"].value())) == ("New", [share(0)])
    assert form["reason"].value() == "Swap"
    assert revision() == before


def test_question__where_nobody_asks_for_reasons__keeps_the_reason(production: Environment) -> None:
    update_environment(production, change_reason=ReasonSetting.NONE, actor=ACTOR, now=NOON)
    flag = flag_on(production)
    client, before = sign_in(), revision()
    answer(client, save(client, flag, rules=[share(0)], reason="Swap"))
    assert Change.objects.since(before).get().reason == "Swap"


def test_agreement__to_another_edit__is_asked_for_again(production: Environment) -> None:
    flag = flag_on(production)
    client = sign_in()
    sent = filled(client, page_of(flag), rules=json.dumps([share(0)]))
    assert asks(client.post(page_of(flag), {**sent, "agreed": "f is off"}))


def test_edit__elsewhere__asks_only_about_what_environments_share(
    production: Environment, staging: Environment
) -> None:
    flag = flag_on(production, type="string", variants=COLOURS, default_variant="blue", off_variant="red")
    update_flag(key="f", environment=staging, changes={"enabled": True}, actor=ACTOR, now=NOON)
    client = sign_in()
    client.post(reverse("admin:switch_environment"), {"environment": "staging"})
    assert not asks(save(client, flag, rules=[share(0)]))
    shown = text_of(save(client, flag, default_variant="red"))
    assert "In Production" in shown
    assert "From then on, f serves nobody what it serves now in Production." in shown


def test_edit__that_switches_here_and_changes_there__is_one_question(
    production: Environment, staging: Environment
) -> None:
    update_environment(staging, protected=True, actor=ACTOR, now=NOON)
    flag = flag_on(production, type="string", variants=COLOURS, default_variant="blue", off_variant="red")
    update_flag(key="f", environment=staging, changes={"enabled": True}, actor=ACTOR, now=NOON)
    client = sign_in()
    page = save(client, flag, enabled=False, default_variant="red")
    shown = text_of(page)
    assert "Switch off f?" in shown
    assert "In the last day, f was not evaluated here." in shown
    assert "From then on, f serves nobody what it serves now in Staging." in shown
    assert hidden_fields(page)["agreed"] == ["f is off", "f changes in staging", "f ends in staging"]
    assert answer(client, page).status_code == 302
    assert get_flag("f", production).enabled is False


# --- segments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [{"type": "segment", "segment": "testers"}, rule_for(MEMBER)])
def test_segment__that_loses_its_last_users__asks_about_the_flags_that_use_it(
    production: Environment, rule: Any
) -> None:
    segment = create_segment(key="testers", conditions=[PRO], actor=ACTOR, now=NOON)
    flag_on(production, rule)
    create_flag(key="off", rules=[rule], environment=production, actor=ACTOR, now=NOON)
    flag_on(production, key="other")
    client, before = sign_in(), revision()
    page = save(client, segment, conditions=[], description="New", reason="Over")
    shown = text_of(page)
    assert "Save this change of the segment testers?" in shown
    assert (
        "Users in testers now: plan equals pro. After this change: no users. From then on, f is off for everyone."
    ) in shown
    assert "off is off" not in shown
    assert revision() == before
    assert answer(client, page, reason="Over").status_code == 302
    changed = get_segment("testers")
    assert (changed.conditions, changed.description) == ([], "New")
    assert Change.objects.since(before).get().reason == "Over"


def test_segment__from_which_a_recent_user_goes__asks_through_other_segments(production: Environment) -> None:
    store_four_users(production)
    segment = create_segment(key="testers", user_ids=["ada", "bob", "\u00e9"], actor=ACTOR, now=NOON)
    create_segment(key="all-testers", conditions=[MEMBER], actor=ACTOR, now=NOON)
    flag_on(production, {"type": "segment", "segment": "all-testers"})
    client = sign_in()
    assert not asks(save(client, segment, user_ids="ada\nbob"))
    page = save(client, get_segment("testers"), user_ids="bob\nnew")
    assert "Of the 4 users seen here in the last 7 days, 1 (25 %) will see something else." in text_of(page)
    answer(client, page)
    assert get_segment("testers").user_ids == ["bob", "new"]


def test_segment__that_no_flag_uses_or_only_elsewhere__asks_nothing(
    production: Environment, staging: Environment
) -> None:
    segment = create_segment(key="testers", conditions=[PRO], actor=ACTOR, now=NOON)
    create_flag(key="f", enabled=True, rules=[rule_for(MEMBER)], environment=staging, actor=ACTOR, now=NOON)
    client = sign_in()
    assert save(client, segment, conditions=[]).status_code == 302
