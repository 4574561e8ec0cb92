"""The page that promotes flags: both ways, its preview, and that it writes exactly what it showed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config.access.environments import create_environment
from config.change_log.writing import writing
from config.models import Change, Environment
from flags.changes.experiment_rules import put_rule
from flags.changes.flag_changes import create_flag, flag_as_json, update_flag
from flags.models import Flag
from tests.admin import AdminClient, messages_of, only_change, revision, sign_in, text_of
from tests.admin import answer as answer_question
from tests.cases import undone
from tests.conftest import ACTOR, NOON
from tests.flags.changes.writing import HALF
from tests.flags.engine.experiments import experiment_rule
from tests.flags.usage.users import store_four_users

pytestmark = pytest.mark.django_db

WRITE: dict[str, Any] = {"actor": ACTOR, "now": NOON}
LIST = "/admin/flags/flag/"


@pytest.fixture
def admin(production: Environment, staging: Environment) -> AdminClient:
    """A client, with the flags `a` and `b`, which are on for half of the users in staging, and `same`, which is off."""
    for key in ("a", "b", "same"):
        create_flag(key=key, environment=production, **WRITE)
    for key in ("a", "b"):
        update_flag(key=key, environment=staging, changes={"enabled": True, "rules": HALF}, **WRITE)
    return sign_in()


def page_of(key: str) -> str:
    return f"{LIST}{Flag.objects.get(key=key).pk}/promote/"


def confirmed(response: Any, **edits: str) -> dict[str, Any]:
    """What a browser sends from the form that promotes."""
    form = response.content.decode().partition('class="hy-promote"')[2]
    sent: dict[str, Any] = {}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form):
        sent.setdefault(name, []).append(value)
    return {**sent, "reason": "Tested", **edits}


def on_in(key: str, environment: str) -> bool:
    return bool(flag_as_json(Flag.objects.get(key=key))["states"][environment]["enabled"])


def test_page__of_a_flag__shows_what_would_change_and_changes_nothing(admin: AdminClient) -> None:
    before = revision()
    page = admin.get(page_of("a"))

    assert "Promote a from Staging to Production" in text_of(page)
    assert "This copies whether the flag is on, and its rules, from Staging to Production" in text_of(page)
    assert "Production now off Production then on 50 % of everyone" in text_of(page)
    assert "Switch on Add a rule: 50 % of everyone" in text_of(page)
    assert revision() == before


@pytest.mark.parametrize(
    ("value", "options", "shown"),
    [("5", {}, "e equals “5”"), (5, {"ignoreCase": True}, "e equals 5 (ignoring case)")],
)
def test_page__values_that_look_alike__tells_them_apart(
    admin: AdminClient, production: Environment, staging: Environment, value: Any, options: Any, shown: str
) -> None:
    condition = {"attribute": "e", "operator": "equals", "value": 5}
    for environment, changed in ((production, condition), (staging, {**condition, "value": value, **options})):
        rules = [{"type": "attribute", "conditions": [changed]}]
        update_flag(key="a", environment=environment, changes={"enabled": True, "rules": rules}, **WRITE)
    text = text_of(admin.get(page_of("a")))
    assert f"Production now on e equals 5 Production then on {shown}" in text
    assert f"Change rule 1 from e equals 5 to {shown}" in text


def test_page__any_number_of_flags__takes_as_many_queries(admin: AdminClient) -> None:
    counts = []
    for keys in ("a", "a", "a,b,same"):  # the first request fills caches
        with CaptureQueriesContext(connection) as queries:
            admin.post(f"{LIST}promote/", {"flags": keys, "way": "staging:production"})
        counts.append(len(queries))
    assert counts[1] == counts[2] <= 40, counts


def test_page__confirmed__promotes_with_its_reason(admin: AdminClient) -> None:
    before, page = revision(), page_of("a")
    answer = admin.post(page, confirmed(admin.get(page)))

    assert answer.url == page.replace("promote", "change")
    assert messages_of(answer) == ["a is promoted from Staging to Production."]
    change = only_change(after=before)
    assert (change.key, change.environment, change.reason, change.actor) == ("a", "production", "Tested", "user ada")
    assert "Nothing would change: the flag is the same in Production and Staging." in text_of(admin.get(page))


def test_page__another_source__shows_what_that_would_change(admin: AdminClient, production: Environment) -> None:
    create_environment(key="trial", name="Trial", **WRITE)
    page = page_of("a")

    ways = "Staging to Production Trial to Production Production to Staging Production to Trial"
    assert ways in text_of(admin.get(page))
    assert "the same in Production and Trial" in text_of(admin.post(page, {"way": "trial:production", "flags": "a"}))


@pytest.mark.parametrize("here", ["production", "staging"])
def test_page__in_either_environment__starts_with_the_way_to_the_protected_one(admin: AdminClient, here: str) -> None:
    admin.post("/admin/config/environment/switch/", {"environment": here})
    page = admin.get(page_of("a"))
    assert "Promote a from Staging to Production" in text_of(page)
    admin.post(page_of("a"), confirmed(page))
    assert on_in("a", "production")


@pytest.mark.parametrize("here", ["production", "staging"])
def test_page__the_other_way__writes_the_other_environment(admin: AdminClient, here: str) -> None:
    admin.post("/admin/config/environment/switch/", {"environment": here})
    page = admin.post(page_of("a"), {"way": "production:staging", "flags": "a"})

    assert "Promote a from Production to Staging" in text_of(page)
    assert "Staging now on 50 % of everyone Staging then off" in text_of(page)
    answer = admin.post(page_of("a"), confirmed(page))
    assert messages_of(answer) == ["a is promoted from Production to Staging."]
    assert (on_in("a", "production"), on_in("a", "staging")) == (False, False)
    assert Change.objects.latest("revision").environment == "staging"


def test_page__pushing_into_a_protected_environment__asks_there_and_not_where_it_was_opened(
    admin: AdminClient, production: Environment
) -> None:
    admin.post("/admin/config/environment/switch/", {"environment": "staging"})
    page = admin.get(page_of("a"))

    assert "In the last day, a was not evaluated in Production." in text_of(page)
    Environment.objects.filter(pk=production.pk).update(change_reason="required")
    before = revision()
    unanswered = admin.post(page_of("a"), confirmed(page, reason=""))
    assert "Give a reason for this change." in text_of(unanswered)
    assert revision() == before
    sent = confirmed(unanswered)
    del sent["agreed"]
    question = admin.post(page_of("a"), sent)
    assert "Switch on a? In Production" in text_of(question)
    assert revision() == before
    assert messages_of(answer_question(admin, question, reason="Tested")) == [
        "a is promoted from Staging to Production."
    ]
    assert Change.objects.latest("revision").reason == "Tested"


def test_page__only_rules_change_in_production__counts_their_users_too(
    admin: AdminClient, production: Environment
) -> None:
    for key in ("a", "b"):
        update_flag(key=key, environment=production, changes={"enabled": True, "rules": []}, **WRITE)
    store_four_users(production)
    several = admin.post(f"{LIST}promote/", {"flags": "a,b,same", "way": "staging:production"})

    assert "Of the 4 users seen here in the last day, 4 (100 %) will see something else" in text_of(several)
    assert "In the last day, a was not evaluated here." in text_of(admin.get(page_of("a")))


def rules_alone_differ(production: Environment) -> None:
    for key in ("a", "b"):
        update_flag(key=key, environment=production, changes={"enabled": True, "rules": []}, **WRITE)


def test_several_flags__of_which_none_is_switched__ask_for_the_name_of_the_environment(
    admin: AdminClient, production: Environment
) -> None:
    rules_alone_differ(production)
    before = revision()
    page = admin.post(f"{LIST}promote/", {"flags": "a,b,same", "way": "staging:production"})
    assert "Type Production to confirm" in text_of(page)
    assert "Promote 2 flags to Production" in text_of(page)

    refused = admin.post(f"{LIST}promote/", confirmed(page, typed_name="Staging"))
    assert "Promote 2 flags to Production?" in text_of(refused)
    assert "Type the name of the environment, Production." in text_of(refused)
    assert "No user is known to have been seen here in the last day." in text_of(refused)
    assert revision() == before
    done = answer_question(admin, refused, typed_name="production", reason="Tested")
    assert messages_of(done) == ["2 flags are promoted from Staging to Production."]
    assert [change.key for change in Change.objects.since(before)] == ["a", "b"]


def test_several_flags__of_which_one_is_switched__ask_for_the_name_too(
    admin: AdminClient, production: Environment
) -> None:
    update_flag(key="a", environment=production, changes={"enabled": True}, **WRITE)
    page = admin.post(f"{LIST}promote/", {"flags": "a,b", "way": "staging:production"})
    assert "Type Production to confirm" in text_of(page)
    sent = confirmed(page, typed_name="Production")
    question = admin.post(f"{LIST}promote/", {**sent, "agreed": ["a is promoted", "b is promoted"]})
    assert "Promote 2 flags to Production?" in text_of(question)
    assert not on_in("b", "production")


def test_several_flags__of_which_one_differs__ask_as_one_does(admin: AdminClient, production: Environment) -> None:
    update_flag(key="a", environment=production, changes={"enabled": True, "rules": HALF}, **WRITE)
    page = admin.post(f"{LIST}promote/", {"flags": "a,b,same", "way": "staging:production"})
    assert "to confirm" not in text_of(page)
    answer = admin.post(f"{LIST}promote/", confirmed(page))
    assert messages_of(answer) == ["b is promoted from Staging to Production."]


def test_one_flag__of_which_rules_alone_differ__asks_without_the_name(
    admin: AdminClient, production: Environment
) -> None:
    rules_alone_differ(production)
    page, before = admin.get(page_of("a")), revision()
    assert "to confirm" not in text_of(page)
    sent = confirmed(page)
    del sent["agreed"]
    question = admin.post(page_of("a"), sent)
    assert "Promote a to Production? In Production" in text_of(question)
    assert revision() == before
    assert messages_of(answer_question(admin, question)) == ["a is promoted from Staging to Production."]


def test_several_flags__one_driven_by_an_experiment__names_it(
    subtests: pytest.Subtests, admin: AdminClient, production: Environment, staging: Environment
) -> None:
    for enabled, says in [
        ((True, True), "Its rule stays."),
        ((False, True), "New users are counted while the flag is on."),
        ((False, False), "The flag stays off, so no new users are counted."),
        ((True, False), "While the flag is off, all users get the answer off, and no new users are counted."),
    ]:
        with subtests.test(enabled=enabled, says=says):
            is_on, will_be_on = enabled
            update_flag(key="a", environment=production, changes={"enabled": is_on}, **WRITE)
            update_flag(key="a", environment=staging, changes={"enabled": will_be_on}, **WRITE)
            with writing(**WRITE) as log:
                put_rule(log, key="a", environment=production, rule={**experiment_rule(), "experiment": "checkout"})
            page = admin.post(f"{LIST}promote/", {"flags": "a,b", "way": "staging:production"})
            assert f"The experiment checkout drives the flag a in Production. {says}" in text_of(page)
            assert text_of(page).count("The experiment checkout drives") == 1


def test_several_flags__to_an_environment_that_is_not_protected__are_promoted_without_a_name(
    admin: AdminClient,
) -> None:
    page = admin.post(f"{LIST}promote/", {"flags": "a,b", "way": "production:staging"})
    assert "to confirm" not in text_of(page)
    answer = admin.post(f"{LIST}promote/", confirmed(page))
    assert messages_of(answer) == ["2 flags are promoted from Production to Staging."]


def test_page__way_that_does_not_lead_from_or_to_here__has_the_usual_one_or_asks(
    subtests: pytest.Subtests, admin: AdminClient
) -> None:
    for way in ["production:production", "staging:trial", "nowhere", ":", ""]:
        with undone(subtests, way=way):
            sent = {"way": way, "flags": "a"}
            assert "Promote a from Staging to Production" in text_of(admin.post(page_of("a"), sent))
            create_environment(key="trial", name="Trial", **WRITE)
            page = admin.post(page_of("a"), sent)
            assert "Promote a Staging to Production Trial to Production" in text_of(page)
            assert "Choose from where to where." in text_of(page)
            assert 'class="hy-promote"' not in page.content.decode()


def test_page__changed_since_it_was_seen__writes_nothing_and_shows_it_anew(
    admin: AdminClient, staging: Environment
) -> None:
    page = page_of("a")
    sent = confirmed(admin.get(page))
    update_flag(key="a", environment=staging, changes={"rules": []}, **WRITE)
    answer = admin.post(page, sent)

    assert "The differences have changed since you looked at them; look at them again." in text_of(answer)
    assert "Production then on everyone" in text_of(answer)
    assert 'value="Tested"' in answer.content.decode()
    assert not on_in("a", "production")
    admin.post(page, confirmed(answer))
    assert on_in("a", "production")


def test_page__opened_in_another_environment__writes_nothing(admin: AdminClient) -> None:
    page = page_of("a")
    sent = confirmed(admin.get(page))
    admin.post("/admin/config/environment/switch/", {"environment": "staging"})
    answer = admin.post(page, sent)

    assert "have switched to Staging since" in text_of(answer)
    assert (on_in("a", "production"), on_in("a", "staging")) == (False, True)


def test_list__selected_flags__are_promoted_together(admin: AdminClient) -> None:
    before = revision()
    ids = list(Flag.objects.values_list("pk", flat=True))
    page = admin.post(LIST, {"action": "production:promote", "_selected_action": ids})

    assert "Promote 3 flags from Staging to Production" in text_of(page)
    assert "The other selected flags are the same in both environments." in text_of(page)
    answer = admin.post(f"{LIST}promote/", {**confirmed(page), "typed_name": "Production"})
    assert answer.url == LIST
    assert messages_of(answer) == ["2 flags are promoted from Staging to Production."]
    assert [change.key for change in Change.objects.since(before)] == ["a", "b"]


def test_list__flag_that_is_gone_by_now__is_reported(admin: AdminClient) -> None:
    answer = admin.post(f"{LIST}promote/", {"flags": "a,gone", "way": "staging:production"})

    assert answer.url == LIST
    assert messages_of(answer) == ["flags[1]: No flag has the key 'gone'."]


def test_only_environment__has_nothing_to_take_flags_from(production: Environment) -> None:
    admin = sign_in()
    create_flag(key="a", environment=production, **WRITE)
    # Environments are never deleted; here there is but one from the start.
    Flag.objects.get().states.exclude(environment=production).delete()
    Environment.objects.exclude(pk=production.pk).delete()

    assert "There is no other environment to promote from or to." in text_of(admin.get(page_of("a")))
    assert "production:promote" not in admin.get(LIST).content.decode()


def test_person_who_only_looks__finds_no_way_to_promote(admin: AdminClient) -> None:
    reader = sign_in("flags.view_flag", username="bob")

    assert reader.get(page_of("a")).status_code == 403
    assert reader.post(f"{LIST}promote/", {"flags": "a", "way": "staging:production"}).status_code == 403
    assert "/promote/" not in reader.get(page_of("a").replace("promote", "change")).content.decode()


def test_address__with_flags__shows_the_page_again_when_it_is_loaded_or_shared(admin: AdminClient) -> None:
    assert "Promote 2 flags from Staging to Production" in text_of(admin.get(f"{LIST}promote/?flags=a,b"))


def test_address_of_the_list__opened_by_hand__leads_to_the_list(admin: AdminClient) -> None:
    assert admin.get(f"{LIST}promote/").url == LIST
    assert admin.get(f"{LIST}00000000-0000-0000-0000-000000000000/promote/").status_code == 302
