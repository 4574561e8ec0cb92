"""The list of flags: all environments side by side with a switch in each, its filters, and its size."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.urls import reverse

from config.access.environments import create_environment, update_environment
from config.change_log.writing import writing
from config.models import Change, Environment, ReasonSetting
from flags.changes.experiment_rules import put_rule
from flags.changes.flag_changes import create_flag, get_flag, update_flag
from flags.models import Flag
from tests.admin import answer, messages_of, only_change, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.flags.engine.experiments import experiment_rule

LIST = "/admin/flags/flag/"
QUARTER = [{"type": "percentage", "percentage": 25}]
HALF = [{"type": "percentage", "percentage": 50}]


@pytest.fixture
def flag(production: Environment, staging: Environment) -> Flag:
    """A flag that is on in staging, for half of the users, and off in production."""
    create_flag(key="f", rules=QUARTER, environment=production, actor=ACTOR, now=NOON)
    update_flag(key="f", environment=staging, changes={"enabled": True, "rules": HALF}, actor=ACTOR, now=NOON)
    return get_flag("f", production)


def press(client: Any, flag: Flag, switch: str, query: str = "") -> Any:
    return client.post(reverse("admin:flags_flag_toggle", args=[flag.pk]) + query, {"switch": switch})


def drive(key: str, experiment: str, environment: Environment) -> None:
    with writing(actor=ACTOR, now=NOON) as log:
        put_rule(log, key=key, environment=environment, rule={**experiment_rule(), "experiment": experiment})


# --- side by side ----------------------------------------------------------------------------------------------------


def test_list__has_a_column_with_a_switch_for_each_environment(flag: Flag) -> None:
    create_environment(key="younger", name="Younger", actor=ACTOR, now=NOON)
    page = sign_in().get(LIST)
    body = page.content.decode()
    assert re.findall(r'aria-checked="(\w+)" name="switch" value="([^"]+)"', body) == [
        ("false", "production:on"),
        ("true", "staging:off"),
        ("false", "younger:on"),
    ]
    assert re.findall(r'aria-label="(f in \w+)"', body) == ["f in Production", "f in Staging", "f in Younger"]
    assert "Flag arrow_circle_down cancel Production Staging Younger Updated" in text_of(page)
    assert "if on: 25 % of everyone 50 % of everyone" in text_of(page)
    assert "25\N{NO-BREAK SPACE}% of everyone" in body  # so that no line begins with the sign


@pytest.mark.parametrize("here", ["production", "staging"])
def test_list__in_each_environment__says_the_same(flag: Flag, here: str) -> None:
    client = sign_in()
    client.post(reverse("admin:switch_environment"), {"environment": here})
    page = client.get(LIST)
    assert "if on: 25 % of everyone 50 % of everyone" in text_of(page)
    assert re.findall(r'aria-label="(f in \w+)"', page.content.decode()) == ["f in Production", "f in Staging"]


def test_list__to_people_who_may_only_look__has_states(flag: Flag) -> None:
    page = sign_in("flags.view_flag").get(LIST)
    assert "off if on: 25 % of everyone on 50 % of everyone" in text_of(page)
    assert 'name="switch"' not in page.content.decode()


def test_list__of_a_flag_that_is_archived__has_states(flag: Flag, staging: Environment) -> None:
    update_flag(key="f", environment=staging, changes={"enabled": False}, actor=ACTOR, now=NOON)
    client = sign_in()
    client.post(reverse("admin:flags_flag_archive", args=[flag.pk]), {"opened_in": "production"})
    body = client.get(f"{LIST}?shelf=archived").content.decode()
    assert body.count('class="hy-state hy-state-off">off') == 2
    assert 'name="switch"' not in body


def test_list__long_words__are_all_there_behind_a_disclosure(production: Environment) -> None:
    steps = [{"at": f"2030-12-{day:02}T08:00:00Z", "percentage": day} for day in range(2, 31, 7)]
    values = [f"a-very-long-value-of-a-condition-{number}" for number in range(9)]
    condition = {"attribute": "plan", "operator": "in", "value": values}
    rule = {"type": "attribute", "conditions": [condition], "percentage": 1, "ramp": steps}
    create_flag(key="f", rules=[rule], enabled=True, environment=production, actor=ACTOR, now=NOON)
    body = sign_in().get(LIST).content.decode()
    found = re.findall(r'<details class="hy-long"><summary><small>([^<]*)</small>', body)
    assert [(words[:15], words[-38:]) for words in found] == [
        ("plan is one of ", "ps to 30\N{NO-BREAK SPACE}% from 30 Dec 2030, 08:00 UTC"),
        ("if on: plan is ", "ps to 30\N{NO-BREAK SPACE}% from 30 Dec 2030, 08:00 UTC"),
    ]


def test_list__long_descriptions__end_in_dots(production: Environment) -> None:
    for letter, length in (("a", 100), ("b", 101)):
        create_flag(key=letter, description=letter * length, environment=production, actor=ACTOR, now=NOON)
    page = sign_in().get(LIST).content.decode()
    assert f"<small>{'a' * 100}</small>" in page
    assert f"<small>{'b' * 99}…</small>" in page


def test_switch__in_another_environment__switches_there_and_can_be_undone(
    flag: Flag, production: Environment, staging: Environment
) -> None:
    client, before = sign_in(), revision()
    response = press(client, flag, "staging:off", "?q=f")
    assert response.url == f"{LIST}?q=f"
    assert messages_of(response) == ["f is now off in Staging."]
    change = only_change(after=before)
    assert (change.key, change.environment) == ("f", "staging")
    assert get_flag("f", production).rules == QUARTER

    undone = client.post(reverse("admin:config_change_undo", args=[change.revision]), {"next": LIST})
    assert messages_of(undone)[-1] == "The change of f is undone."
    assert get_flag("f", staging).enabled is True


def test_switch__in_another_environment_that_is_protected__asks_for_that_one(
    flag: Flag, production: Environment, staging: Environment
) -> None:
    update_environment(staging, protected=True, change_reason=ReasonSetting.REQUIRED, actor=ACTOR, now=NOON)
    client, before = sign_in(), revision()
    page = press(client, flag, "staging:off")
    shown = text_of(page)
    assert "Switch off f?" in shown
    assert "In Staging In the last day, f was not evaluated in Staging." in shown
    assert revision() == before
    again = answer(client, page)
    assert "Give a reason for this change." in text_of(again)
    assert messages_of(answer(client, again, reason="It harms")) == ["f is now off in Staging."]
    change = Change.objects.latest("revision")
    assert (change.environment, change.reason) == ("staging", "It harms")


def test_switch__in_another_environment__asks_about_the_experiment_there(flag: Flag, staging: Environment) -> None:
    drive("f", "checkout", staging)
    client = sign_in()
    page = press(client, flag, "staging:off")
    assert "The experiment checkout drives the flag f in Staging." in text_of(page)
    assert messages_of(answer(client, page)) == ["f is now off in Staging."]


# --- filters ---------------------------------------------------------------------------------------------------------


def test_filter__by_type_or_experiment__narrows_the_list(subtests: pytest.Subtests, production: Environment) -> None:
    variants = [{"key": "a", "value": "x"}, {"key": "b", "value": "y"}]
    create_flag(key="text", type="string", variants=variants, environment=production, actor=ACTOR, now=NOON)
    for key in ("driven", "plain"):
        create_flag(key=key, environment=production, actor=ACTOR, now=NOON)
    drive("driven", "checkout", production)
    client = sign_in()
    for query, expected in [
        ("type=switch", ["driven", "plain"]), ("type=string", ["text"]), ("type=number", []),
        ("type=unknown", ["driven", "plain", "text"]), ("experiment=%3Dany", ["driven"]),
        ("experiment=%3Dnone", ["plain", "text"]), ("experiment=checkout", ["driven"]),
        ("experiment=unknown", ["driven", "plain", "text"]),
    ]:  # fmt: skip
        with subtests.test(query=query):
            page = client.get(f"{LIST}?{query}")
            assert [row.key for row in page.context["cl"].result_list] == expected


def test_filter__by_experiment__counts_those_of_the_environment_and_is_left_out_without_any(
    flag: Flag, staging: Environment
) -> None:
    drive("f", "checkout", staging)
    client = sign_in()
    assert "With or without" not in text_of(client.get(LIST))
    client.post(reverse("admin:switch_environment"), {"environment": "staging"})
    shown = text_of(client.get(f"{LIST}?experiment=%3Dnone"))
    assert "Experiment: Without expand_more With or without With any Without checkout" in shown


# --- its size --------------------------------------------------------------------------------------------------------


PRO = {"attribute": "plan", "operator": "in", "value": ["pro", "team", "enterprise"]}
LISTED = {"type": "users", "userIds": ["ada@shop.example", "bob@shop.example", "user-00042"]}


@pytest.mark.parametrize(
    ("rule", "most_bytes"),
    [({"type": "attribute", "conditions": [PRO], "percentage": 25}, 115_000), (LISTED, 120_000)],
)
def test_list__a_full_page_with_three_environments__is_small(
    production: Environment, rule: dict[str, Any], most_bytes: int
) -> None:
    younger = create_environment(key="development", name="Development", actor=ACTOR, now=NOON)
    rules = [rule, *QUARTER]
    for number in range(41):
        create_flag(
            key=f"team-of-payments-feature-{number:04}",
            description="What the flag switches on, and for which users of which countries it does so.",
            tags=["payments", "mobile-app"],
            owner="ada@shop.example",
            enabled=True,
            rules=rules,
            environment=production,
            actor=ACTOR,
            now=NOON,
        )
        update_flag(
            key=f"team-of-payments-feature-{number:04}",
            environment=younger,
            changes={"enabled": True, "rules": rules},
            actor=ACTOR,
            now=NOON,
        )
    client = sign_in()
    for query in ("", "?all="):
        page = client.get(LIST + query)
        assert page.content.count(b'role="switch"') == 3 * 28
        assert len(page.content) < most_bytes, len(page.content)
