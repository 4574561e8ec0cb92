"""The page of one user: every part of it, for any id, for any rights."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.urls import reverse

from config.admin.template_filters import address_of_user
from config.models import Environment
from events.models import Event
from experiments.exposures.recording import assign
from experiments.models import Experiment, Exposure
from flags.changes.flag_changes import archive_flag
from flags.models import RecentUser
from tests.admin import AdminClient, messages_of, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.factories import EventFactory, ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db

ERASE = reverse("admin:experiments_experiment_user_erase")
IDS = ["ada", "a/b", "..", "/", "a b", " ada ", "ü\N{ROCKET}", "a?b&c=d#e", "100 %", "<b>", "'\"", "a\nb", "x" * 200]
GERMANS = {"type": "attribute", "conditions": [{"attribute": "country", "operator": "equals", "value": "DE"}]}


def look(client: AdminClient, user_id: str = "ada", **query: str) -> Any:
    extra = "".join(f"&{name}={quote(value)}" for name, value in query.items())
    return client.get(address_of_user(user_id) + extra)


def flags_of(response: Any) -> dict[str, str]:
    return {row.key: row.trace.decision for row in response.context["flags"].rows}


# --- the address -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user_id", IDS)
def test_page__of_any_id__is_that_of_this_user(user_id: str) -> None:
    FlagFactory(key="listed", enabled=True, rules=[{"type": "users", "userIds": [user_id]}])
    EventFactory(user_id=user_id, name="bought")
    client = sign_in()
    response = look(client, user_id)
    assert flags_of(response) == {"listed": "On"}
    assert [entry.name for day in response.context["timeline"].days for entry in day.entries] == ["bought"]
    assert "<b>" not in response.content.decode()
    listed = client.get(reverse("admin:events_event_changelist")).content.decode()
    assert address_of_user(user_id) in listed


def test_page__without_an_id__asks_for_one() -> None:
    response = sign_in().get(reverse("admin:experiments_experiment_user"))
    assert "Enter the ID that your application sends" in text_of(response)


@pytest.mark.parametrize(("user_id", "why"), [("x" * 201, "at most 200 characters"), ("a\0", "U+0000")])
def test_page__of_what_cannot_be_an_id__says_why(user_id: str, why: str) -> None:
    assert why in text_of(look(sign_in(), user_id))


def test_page__of_an_id_with_a_space_at_its_end__offers_the_one_without() -> None:
    response = look(sign_in(), "ada ")
    assert f'href="{address_of_user("ada")}"' in response.content.decode()


def test_menu__leads_to_the_page() -> None:
    assert reverse("admin:experiments_experiment_user") in sign_in().get("/admin/").content.decode()


# --- rights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "part"),
    [
        ("flags.view_flag", "flags"),
        ("experiments.view_experiment", "experiments"),
        ("events.view_event", "timeline"),
    ],
)
def test_page__with_one_right__shows_only_its_part(right: str, part: str) -> None:
    context = look(sign_in(right)).context
    assert {name for name in ("flags", "experiments", "timeline") if name in context} == {part}


def test_page__without_rights__is_refused() -> None:
    client = sign_in("auth.view_group")
    assert look(client).status_code == 403
    assert "Find a user" not in client.get("/admin/").content.decode()


def test_erase__without_the_right__is_refused() -> None:
    client = sign_in("events.view_event", "experiments.change_experiment")
    assert client.post(f"{ERASE}?id=ada", {"opened_in": "production"}).status_code == 403
    assert "Erase" not in text_of(look(client))


# --- flags -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def german(production: Environment) -> RecentUser:
    seen = {"seen_at": NOON, "attributes": {"country": "DE"}}
    return RecentUser.objects.create(environment=production, user_id="ada", position=1, **seen)


def test_flags__with_the_attributes_last_seen__are_evaluated_with_their_reasons(german: RecentUser) -> None:
    FlagFactory(key="for-germany", enabled=True, rules=[{**GERMANS, "name": "Germany"}])
    FlagFactory(key="off")
    FlagFactory(key="open", enabled=True)
    response = look(sign_in())
    assert flags_of(response) == {"for-germany": "On", "off": "Off", "open": "On"}
    text = text_of(response)
    assert "2 of 3 are on for this user" in text
    assert "Rule 1 is the first that matches this user. Germany." in text
    assert "The flag is off in Production, so its rules are ignored." in text


def test_flags__with_edited_attributes__are_evaluated_with_these(german: RecentUser) -> None:
    FlagFactory(key="for-germany", enabled=True, rules=[GERMANS])
    client = sign_in()
    response = client.post(address_of_user("ada"), {"attributes": '{"country": "FR"}'})
    assert flags_of(response) == {"for-germany": "Off"}
    assert "Back to those last seen" in text_of(response)
    assert flags_of(look(client)) == {"for-germany": "On"}


def test_flags__with_attributes_that_are_no_object__keep_what_was_typed(german: RecentUser) -> None:
    FlagFactory(key="for-germany", enabled=True, rules=[GERMANS])
    response = sign_in().post(address_of_user("ada"), {"attributes": "[1]"})
    assert flags_of(response) == {"for-germany": "On"}
    assert "Must be a JSON object." in text_of(response)
    assert "[1]" in response.content.decode()


def test_flags__searched_by_key_and_state__are_those_alone() -> None:
    for key, enabled in (("cart-on", True), ("cart-off", False), ("other", True)):
        FlagFactory(key=key, enabled=enabled)
    client = sign_in()
    assert list(flags_of(look(client, q="CART"))) == ["cart-off", "cart-on"]
    assert list(flags_of(look(client, q="cart", state="on"))) == ["cart-on"]
    assert list(flags_of(look(client, state="off"))) == ["cart-off"]
    assert len(flags_of(look(client, state="nonsense", p="x"))) == 3


def test_flags__opened__show_every_step(german: RecentUser) -> None:
    FlagFactory(key="for-germany", enabled=True, rules=[GERMANS])
    client = sign_in()
    assert "country is" not in text_of(look(client))
    assert 'country is "DE"' in text_of(look(client, flag="for-germany"))


def test_flags__archived_or_of_another_environment__are_not_shown(
    production: Environment, staging: Environment
) -> None:
    FlagFactory(key="gone", enabled=True)
    archive_flag(key="gone", environment=production, actor=ACTOR, now=NOON)
    FlagFactory(key="there", enabled=True, environment=staging)
    assert flags_of(look(sign_in())) == {"there": "Off"}


# --- experiments -----------------------------------------------------------------------------------------------------


@pytest.fixture
def running(production: Environment) -> Experiment:
    return ExperimentFactory(key="e", running=True)


def words_of(response: Any) -> dict[str, tuple[str, bool | None, str]]:
    rows = response.context["experiments"]
    return {row.experiment.key: (row.variant, row.counts, row.words) for row in rows}


def test_experiments__of_an_exposed_user__say_that_the_user_counts(running: Experiment) -> None:
    assign(running.pk, "ada", "green", NOON, {})
    response = look(sign_in())
    assert words_of(response)["e"] == ("green", True, "Counts for green; assigned by Halyard.")
    assert "Exposed on 31 Jan 2026, 12:00 ." in text_of(response)


def test_experiments__of_a_user_in_several_variants__say_which_counts(running: Experiment) -> None:
    assign(running.pk, "ada", "green", NOON, {})
    Exposure.objects.update(is_in_several_variants=True)
    _, counts, words = words_of(look(sign_in()))["e"]
    assert counts is True
    assert "has also seen another variant" in words


def test_experiments__that_run__say_what_a_new_user_would_see_and_record_nothing(running: Experiment) -> None:
    variant, counts, words = words_of(look(sign_in()))["e"]
    assert counts is None
    assert words == f"Not exposed yet. The user would see {variant}, and count from then on."
    assert not Exposure.objects.exists()


def test_experiments__whose_conditions_the_user_does_not_meet__say_so(production: Environment) -> None:
    conditions = [{"attribute": "country", "operator": "equals", "value": "DE"}]
    ExperimentFactory(key="e", running=True, conditions=conditions)
    client = sign_in()
    assert words_of(look(client))["e"][1:] == (
        False,
        "Does not count: the user does not meet the experiment's conditions.",
    )
    german = client.post(address_of_user("ada"), {"attributes": '{"country": "DE"}'})
    assert words_of(german)["e"][1] is None


def test_experiments__that_have_stopped__are_shown_to_exposed_users_alone(production: Environment) -> None:
    stopped = ExperimentFactory(key="e", stopped=True)
    Exposure.objects.create(
        experiment=stopped, user_id="late", variant="green", exposed_at=NOON + timedelta(days=1), origin="assigned"
    )
    client = sign_in()
    assert words_of(look(client)) == {}
    assert words_of(look(client, "late"))["e"][1:] == (
        False,
        "The exposure came after the stop, so the user does not count.",
    )


# --- events ----------------------------------------------------------------------------------------------------------


def names_of(response: Any) -> list[str]:
    return [entry.name for day in response.context["timeline"].days for entry in day.entries]


def test_timeline__of_many_events__is_paged_without_gaps(production: Environment, staging: Environment) -> None:
    for at in range(60):
        EventFactory(user_id="ada", name=f"n{at:02}", timestamp=NOON + timedelta(minutes=at // 2))
    EventFactory(user_id="bob")
    EventFactory(user_id="ada", environment=staging)
    client, seen, cursor = sign_in(), [], ""
    while True:
        response = look(client, **({"before": cursor} if cursor else {}))
        seen += names_of(response)
        cursor = response.context["timeline"].older
        if not cursor:
            break
    assert sorted(seen, reverse=True) == [f"n{at:02}" for at in reversed(range(60))]
    assert len(seen) == 60


def test_timeline__has_exposures_where_they_happened_and_once(running: Experiment) -> None:
    for at in range(40):
        EventFactory(user_id="ada", name="seen", timestamp=NOON + timedelta(minutes=2 * at))
    assign(running.pk, "ada", "green", NOON + timedelta(minutes=15), {})
    client = sign_in()
    first = look(client)
    second = look(client, before=first.context["timeline"].older)
    assert "e" not in names_of(first)
    assert names_of(second) == [*["seen"] * 7, "e", *["seen"] * 8]


@pytest.mark.parametrize("cursor", ["x", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z x", "\0 \0"])
def test_timeline__with_a_broken_cursor__is_the_first_page(production: Environment, cursor: str) -> None:
    EventFactory(user_id="ada", name="seen")
    assert names_of(look(sign_in(), before=cursor)) == ["seen"]


def test_page__of_any_number_of_things__takes_as_many_queries(
    production: Environment, django_assert_num_queries: Any
) -> None:
    client = sign_in()
    ExperimentFactory(running=True)
    FlagFactory()
    look(client)  # fills what the process remembers
    for number in (1, 8):
        for _ in range(number):
            experiment = ExperimentFactory(running=True)
            assign(experiment.pk, "ada", "green", NOON, {})
            FlagFactory(half=True)
            EventFactory(user_id="ada")
        look(client)
        # session, user, environments, exposures, recent user, experiments, stored variants, ids of flags, events
        with django_assert_num_queries(9):
            look(client)


# --- erasing ---------------------------------------------------------------------------------------------------------


def test_erase__asked_for__says_what_is_deleted_and_deletes_nothing(running: Experiment) -> None:
    assign(running.pk, "a/b", "green", NOON, {})
    EventFactory.create_batch(3, user_id="a/b")
    text = text_of(sign_in().get(f"{ERASE}?id=a%2Fb"))
    assert "Erase a/b from Production?" in text
    assert "This deletes 3 events and 1 exposure of the user" in text
    assert Event.objects.count() == 3


def test_erase__confirmed__deletes_everything_of_the_user_here(running: Experiment, staging: Environment) -> None:
    assign(running.pk, "a/b", "green", NOON, {})
    EventFactory.create_batch(3, user_id="a/b")
    EventFactory(user_id="a/b", environment=staging)
    EventFactory(user_id="other")
    response = sign_in().post(f"{ERASE}?id=a%2Fb", {"opened_in": "production"})
    assert response.url == address_of_user("a/b")
    assert messages_of(response) == ["a/b is erased from Production: 3 events and 1 exposure are deleted."]
    assert Event.objects.count() == 2
    assert not Exposure.objects.exists()


def test_erase__in_an_environment_that_was_switched__deletes_nothing(production: Environment) -> None:
    EventFactory(user_id="ada")
    response = sign_in().post(f"{ERASE}?id=ada", {"opened_in": "staging"})
    assert "have switched to Production since" in text_of(response)
    assert Event.objects.count() == 1


@pytest.mark.parametrize("query", ["", "?id=", f"?id={'x' * 201}"])
def test_erase__without_a_valid_id__is_not_found(query: str) -> None:
    assert sign_in().post(f"{ERASE}{query}").status_code == 404
