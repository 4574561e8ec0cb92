"""Switching off a flag that a running experiment drives: the pages ask first, and follow the answer."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from config.access.environments import update_environment
from config.change_log.writing import writing
from config.models import Change, Environment
from flags.changes.experiment_rules import put_rule
from flags.changes.flag_changes import create_flag, get_flag, update_flag
from flags.models import Flag
from tests.admin import AdminClient, answer, filled, messages_of, revision, sign_in, text_of
from tests.cases import undone
from tests.conftest import ACTOR, NOON
from tests.flags.engine.experiments import experiment_rule

LIST = "/admin/flags/flag/"
SAYS = (
    "The experiment checkout drives the flag f in Production. While the flag is off, all users get the answer off, "
    "and no new users are counted."
)


@pytest.fixture
def production(production: Environment) -> Environment:
    """An environment that is not protected, so that pages ask only about experiments."""
    return update_environment(production, protected=False, actor=ACTOR, now=NOON)


@pytest.fixture
def driven(production: Environment) -> Flag:
    """A flag that was off in revision 1, is on now, and is driven in production."""
    create_flag(key="f", environment=production, actor=ACTOR, now=NOON)
    update_flag(key="f", environment=production, changes={"enabled": True}, actor=ACTOR, now=NOON)
    drive("f", "checkout", production)
    return get_flag("f", production)


def drive(key: str, experiment: str, environment: Environment) -> None:
    with writing(actor=ACTOR, now=NOON) as log:
        put_rule(log, key=key, environment=environment, rule={**experiment_rule(), "experiment": experiment})


def address(page: str, flag: Flag, *more: object) -> str:
    return reverse(f"admin:flags_flag_{page}", args=[flag.pk, *more])


def press(client: AdminClient, flag: Flag) -> Any:
    return client.post(address("toggle", flag), {"switch": "production:off"})


def act(client: AdminClient, flag: Flag) -> Any:
    return client.post(LIST, {"action": "production:off", "_selected_action": [str(flag.pk)], "index": "0"})


def save(client: AdminClient, flag: Flag) -> Any:
    page = address("change", flag)
    return client.post(page, filled(client, page, enabled=False, description="Edited"))


def revert(client: AdminClient, flag: Flag) -> Any:
    first = Change.objects.of("flag", flag.pk).last()
    assert first is not None
    return client.post(address("revert", flag, first.revision), {"opened_in": "production"})


def promote(client: AdminClient, flag: Flag) -> Any:
    page = client.post(address("promote", flag), {"way": "staging:production"})
    sent = {"way": "staging:production", "opened_in": "production", "flags": "f", "seen": page.context["preview"].seen}
    return client.post(address("promote", flag), sent)


WAYS = (press, act, save, revert, promote)


def test_every_way_to_switch_off__asks_first_and_says_what_it_means(
    subtests: pytest.Subtests, driven: Flag, production: Environment
) -> None:
    client, before = sign_in(), revision()
    for switch_off in WAYS:
        with undone(subtests, way=switch_off.__name__):
            page = switch_off(client, driven)
            assert (page.status_code, revision()) == (200, before)
            assert "Switch off f?" in text_of(page)
            assert SAYS in text_of(page)

            done = answer(client, page, 0, reason="It harms")
            assert done.status_code == 302
            assert get_flag("f", production).enabled is False
            written = Change.objects.since(before).get()
            assert (written.key, written.reason) == ("f", "It harms")


def test_every_way_to_switch_off__declined__changes_nothing(
    subtests: pytest.Subtests, driven: Flag, production: Environment
) -> None:
    client, before = sign_in(), revision()
    for switch_off in WAYS:
        with subtests.test(way=switch_off.__name__):
            left = answer(client, switch_off(client, driven), 1)
            shown = text_of(left) if left.status_code == 200 else messages_of(left)[0]
            assert "You cancelled, so nothing was changed." in shown
            assert (get_flag("f", production).enabled, revision()) == (True, before)


def test_form__declined__still_has_the_other_edits(driven: Flag) -> None:
    client = sign_in()
    left = answer(client, save(client, driven), 1)
    form = left.context["adminform"].form
    assert (form["description"].value(), form["enabled"].value()) == ("Edited", False)


def test_form__agreed__saves_the_other_edits_too(driven: Flag, production: Environment) -> None:
    client = sign_in()
    answer(client, save(client, driven), 0)
    flag = get_flag("f", production)
    assert (flag.enabled, flag.description, flag.rules) == (False, "Edited", driven.rules)


def test_agreement__to_another_experiment_than_drives_it_now__is_asked_for_again(
    driven: Flag, production: Environment
) -> None:
    sent = {"switch": "production:off", "agreed": "f banner"}
    page = sign_in().post(address("toggle", driven), sent)
    assert SAYS in text_of(page)
    assert get_flag("f", production).enabled is True


def test_several_flags__driven_and_others__are_one_question(driven: Flag, production: Environment) -> None:
    for key in ("g", "plain"):
        create_flag(key=key, environment=production, enabled=True, actor=ACTOR, now=NOON)
    drive("g", "banner", production)
    client, flags = sign_in(), [get_flag(key, production) for key in ("f", "g", "plain")]
    selected = [str(flag.pk) for flag in flags]
    page = client.post(LIST, {"action": "production:off", "_selected_action": selected, "index": "0"})
    shown = text_of(page)
    assert "Switch off 2 flags?" in shown
    assert "The experiment banner drives the flag g in Production." in shown
    assert "plain" not in shown
    assert messages_of(answer(client, page, 0)) == ["3 flags are now off in Production."]


@pytest.mark.parametrize("wanted", ["on", "off"])
def test_switch__that_ends_no_measuring__asks_nothing(driven: Flag, production: Environment, wanted: str) -> None:
    update_flag(key="f", environment=production, changes={"enabled": False}, actor=ACTOR, now=NOON)
    response = sign_in().post(address("toggle", driven), {"switch": f"production:{wanted}"})
    assert messages_of(response) == [f"f is now {wanted} in Production."]


def test_question__about_a_flag_with_variants__names_the_one_that_everybody_gets(production: Environment) -> None:
    variants = [{"key": "blue", "value": "#00f"}, {"key": "grey", "value": "#888"}]
    create_flag(key="v", environment=production, enabled=True, type="string", variants=variants, actor=ACTOR, now=NOON)
    rule = experiment_rule()
    served = [{**variant, "serves": "blue"} for variant in rule["variants"]]
    with writing(actor=ACTOR, now=NOON) as log:
        put_rule(log, key="v", environment=production, rule={**rule, "variants": served})
    page = press(sign_in(), get_flag("v", production))
    assert "all users get the variant grey, and no new users" in text_of(page)


def test_page__of_a_driven_flag__says_so_and_what_being_off_means(driven: Flag, production: Environment) -> None:
    client, says = sign_in(), "The experiment checkout drives this flag in Production"
    shown = text_of(client.get(address("change", driven)))
    assert f"{says}." in shown
    update_flag(key="f", environment=production, changes={"enabled": False}, actor=ACTOR, now=NOON)
    page = client.get(address("change", driven))
    assert f"{says}, and measures nothing while the flag is off" in text_of(page)
    assert 'href="/admin/experiments/experiment/?q=checkout"' in page.content.decode()


def test_page__of_a_driven_flag__to_people_who_may_not_see_experiments__has_no_link(driven: Flag) -> None:
    page = sign_in("flags.view_flag").get(address("change", driven))
    assert "The experiment checkout drives this flag" in text_of(page)
    assert "?q=checkout" not in page.content.decode()


def test_api__switches_a_driven_flag_off__at_once(driven: Flag, api: Any) -> None:
    answered = api.patch("/v1/flags/f", {"enabled": False})
    assert (answered.status_code, answered.json()["data"]["enabled"]) == (200, False)
    api.patch("/v1/flags/f", {"enabled": True})
    promoted = api.post("/v1/promote", {"from": "staging", "flags": ["f"]})
    assert promoted.status_code == 200
    assert api.get("/v1/flags/f").json()["data"]["enabled"] is False
