"""Flags in the admin: what it shows, writes through the domain, and refuses."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from config import snapshot
from config.models import Change, Environment, Source
from flags.admin.flags import FlagAdmin
from flags.changes.flag_changes import create_flag, get_flag, update_flag
from flags.models import Flag
from tests.admin import answer, errors_of, filled, messages_of, only_change, revision, sign_in, text_of
from tests.cases import undone
from tests.conftest import ACTOR, NOON
from tests.trips import following, limits_of

QUARTER = [{"type": "percentage", "percentage": 25}]
LIST = "admin:flags_flag_changelist"
OF_POSTGRESQL = ("config/database/engines.py", "config/database/postgresql/")
"""Parts of every statement that only PostgreSQL has."""


@pytest.fixture
def flag(production: Environment) -> Flag:
    return create_flag(
        key="new-checkout",
        description="On one page",
        enabled=True,
        rules=QUARTER,
        environment=production,
        actor=ACTOR,
        now=NOON,
    )


def address(page: str, flag: Flag) -> str:
    return reverse(f"admin:flags_flag_{page}", args=[flag.pk])


def test_flag_list__any_number_of_flags__takes_the_same_queries(
    subtests: pytest.Subtests, production: Environment, django_assert_max_num_queries: Any
) -> None:
    fields: dict[str, Any] = {"rules": QUARTER, "tags": ["shop"], "owner": "ada", "expires_at": NOON}
    for number in range(12):
        create_flag(key=f"flag-{number}", environment=production, actor=ACTOR, now=NOON, **fields)
    client = sign_in()
    snapshot.refresh()
    for query in ["", "o=-4", "q=flag", "shelf=stale", "tag=shop", "owner=ada", "type=switch"]:
        # The session, the user, environments, tags, owners, the count, flags, their tags, and their states elsewhere.
        with subtests.test(query=query), django_assert_max_num_queries(9):
            response = client.get(f"{reverse(LIST)}?{query}")
            assert len(response.context["cl"].result_list) == 12


def test_flag_form__any_number_of_other_flags__reads_them_once(
    flag: Flag, production: Environment, django_assert_max_num_queries: Any
) -> None:
    typed = {"type": "string", "variants": [{"key": "a", "value": "x"}, {"key": "b", "value": "y"}]}
    for number in range(12):
        values = typed if number % 2 else {}
        create_flag(key=f"flag-{number}", environment=production, actor=ACTOR, now=NOON, **values)
    client = sign_in()
    client.get(address("change", flag))  # the first page of a process reads content types, too
    with django_assert_max_num_queries(13):  # one of them reads the other flags, one the experiments
        response = client.get(address("change", flag))
    known = re.search(r'<script id="hy-flags" type="application/json">(.*?)</script>', response.content.decode())
    assert known is not None
    assert json.loads(known[1]) == {
        f"flag-{number}": ["a", "b"] if number % 2 else [] for number in sorted(range(12), key=str)
    }


def test_flag_list__by_update_and_in_pages__shows_each_flag_once_with_its_reasons(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FlagAdmin, "list_per_page", 2)
    for key in ("b", "c", "a"):
        create_flag(key=key, expires_at=NOON, environment=production, actor=ACTOR, now=NOON)
    client = sign_in()
    pages = [client.get(reverse(LIST), {"o": "-4", "p": page}) for page in (1, 2)]
    assert [[flag.key for flag in page.context["cl"].result_list] for page in pages] == [["a", "c"], ["b"]]
    assert [text_of(page).count(" expired ") for page in pages] == [2, 1]


def test_flag_list__rules_and_state__are_said_in_words(flag: Flag) -> None:
    response = sign_in().get(reverse(LIST))
    assert "new-checkout On one page 25 % of everyone" in text_of(response)
    assert 'aria-checked="true"' in response.content.decode()


def test_flag_list__filter_or_search__narrows_it(
    subtests: pytest.Subtests, flag: Flag, production: Environment
) -> None:
    create_flag(key="search", environment=production, actor=ACTOR, now=NOON)
    client = sign_in()
    for query, expected in [
        ("enabled=true", ["new-checkout"]), ("enabled=false", ["search"]), ("q=one+page", ["new-checkout"]),
        ("q=SEARCH", ["search"]),
    ]:  # fmt: skip
        with subtests.test(query=query):
            response = client.get(f"{reverse(LIST)}?{query}")
            assert [row.key for row in response.context["cl"].result_list] == expected


def test_flag_list__another_environment__shows_the_state_there(flag: Flag) -> None:
    client = sign_in()
    client.post(reverse("admin:switch_environment"), {"environment": "staging"})
    [shown] = client.get(reverse(LIST)).context["cl"].result_list
    assert shown.enabled is False


def test_toggle__of_a_flag__is_seen_by_the_next_evaluation_and_logged_once(flag: Flag, api: Any) -> None:
    client = sign_in()
    assert api.post("/v1/flags/new-checkout/evaluate", {"userId": "u"}).json()["data"]["reason"] != "disabled"
    before = revision()
    response = answer(client, client.post(address("toggle", flag) + "?enabled=true", {"switch": "production:off"}))
    assert response.url == reverse(LIST) + "?enabled=true"
    assert messages_of(response) == ["new-checkout is now off in Production."]
    assert api.post("/v1/flags/new-checkout/evaluate", {"userId": "u"}).json()["data"]["reason"] == "disabled"
    change = only_change(after=before)
    assert (change.actor, change.source, change.environment) == ("user ada", Source.ADMIN, "production")


def test_toggle__of_one_flag__is_one_short_transaction_through_few_files(flag: Flag) -> None:
    client, where = sign_in(), address("toggle", flag)
    for number, wanted in enumerate(("on", "off", "on", "off")):
        before = revision()
        with CaptureQueriesContext(connection) as captured, following() as trip:
            client.post(where, {"switch": f"staging:{wanted}"})
        assert only_change(after=before).environment == "staging"
        statements = [query["sql"].split()[0] for query in captured]
        assert statements.count("SAVEPOINT") == statements.count("RELEASE") == 1
        assert len([name for name in statements if name not in ("SAVEPOINT", "RELEASE", "NOTIFY")]) <= 10
        entered = [file for file in trip.files if not file.startswith(OF_POSTGRESQL)]
        assert number < 2 or [len(entered)] <= limits_of("A toggle in the admin"), (
            entered
        )  # the first of everything enters more


def test_toggle__pressed_twice__leaves_the_state_that_the_button_named(flag: Flag, production: Environment) -> None:
    client = sign_in()
    for _ in range(2):
        client.post(address("toggle", flag), {"switch": "production:off", "agreed": "new-checkout is off"})
    assert get_flag("new-checkout", production).enabled is False


def test_toggle__in_no_environment__changes_nothing(flag: Flag) -> None:
    before = revision()
    response = sign_in().post(address("toggle", flag), {"switch": "nowhere:on"})
    assert messages_of(response) == ["This environment does not exist. Nothing was changed."]
    assert revision() == before


def test_toggle__neither_on_nor_off__is_refused(subtests: pytest.Subtests, flag: Flag) -> None:
    before = revision()
    client = sign_in()
    for sent in ["production:maybe", "production", ""]:
        with subtests.test(sent=sent):
            assert client.post(address("toggle", flag), {"switch": sent}).status_code == 400
            assert revision() == before


def test_toggle__by_get__changes_nothing(flag: Flag, production: Environment) -> None:
    assert (
        sign_in().get(f"{address('toggle', flag)}?switch=production:off").url
        == f"{reverse(LIST)}?switch=production%3Aoff"
    )
    assert get_flag("new-checkout", production).enabled is True


def test_toggle__without_a_csrf_token__is_refused(flag: Flag, production: Environment) -> None:
    client = sign_in()
    client.handler.enforce_csrf_checks = True
    assert client.post(address("toggle", flag), {"switch": "production:off"}).status_code == 403
    assert get_flag("new-checkout", production).enabled is True


def test_viewer__sees_flags_but_no_switch_and_no_form(flag: Flag) -> None:
    client = sign_in("flags.view_flag")
    page = client.get(reverse(LIST)).content.decode()
    assert "hy-state-on" in page
    assert 'role="switch"' not in page
    form = client.get(address("change", flag)).content.decode()
    assert 'name="rules"' not in form
    assert "25 % of everyone" in form


def test_viewer__posts_anyway__is_forbidden(subtests: pytest.Subtests, flag: Flag) -> None:
    before = revision()
    sent = {"switch": "production:off", "opened_in": "production", "description": "x", "rules": "[]"}
    for page in ["toggle", "change", "delete"]:
        with undone(subtests, page=page):
            assert sign_in("flags.view_flag").post(address(page, flag), sent).status_code == 403
            assert revision() == before


def test_add__what_was_typed__is_stored_and_logged_with_its_reason(production: Environment) -> None:
    client = sign_in()
    where = reverse("admin:flags_flag_add")
    before = revision()
    sent = filled(client, where, key="dark-mode", enabled="on", rules=json.dumps(QUARTER), reason="Beta starts")
    assert client.post(where, sent).status_code == 302
    flag = get_flag("dark-mode", production)
    assert (flag.enabled, flag.rules) == (True, QUARTER)
    change = only_change(after=before)
    assert (change.action, change.source, change.reason) == ("created", Source.ADMIN, "Beta starts")


def test_add__what_the_api_refuses__is_refused_in_the_same_words(
    subtests: pytest.Subtests, flag: Flag, api: Any
) -> None:
    client = sign_in()
    where = reverse("admin:flags_flag_add")
    before = revision()
    for changes, field in [
        ({"key": "a b"}, "key"),
        ({"key": "new-checkout"}, "key"),
        ({"key": "k" * 101}, "key"),
        ({"description": "d" * 2001}, "description"),
        ({"description": "nul \0"}, "description"),
        ({"rules": '{"type": "percentage"}'}, "rules"),
        ({"rules": '[{"type": "percentage"}]'}, "rules"),
        ({"rules": '[{"type": "percentage", "percentage": 101}]'}, "rules"),
        ({"rules": '[{"type": "percentage", "percentage": NaN}]'}, "rules"),
        ({"rules": '[{"type": "users", "userIds": ["\\u0000"]}]'}, "rules"),
        ({"rules": '[{"type": "users", "userIds": ["\\ud800"]}]'}, "rules"),
        ({"rules": '[{"type": "percentage", "percentage": 1' + "0" * 40 + "}]"}, "rules"),
        ({"rules": "[{"}, "rules"),
    ]:
        with subtests.test(changes=changes, field=field):
            sent = filled(client, where, **{"key": "fresh", **changes})
            response = client.post(where, sent)
            assert response.status_code == 200
            words = refusal_of_api(api, {"key": "fresh", **changes})
            assert any(word in error for error in errors_of(response)[field] for word in words), (
                errors_of(response),
                words,
            )
            assert response.context["adminform"].form[field].value() == changes[field]
            assert revision() == before


def refusal_of_api(api: Any, values: dict[str, str]) -> list[str]:
    """Return what the API answers to the same flag."""
    parts = [f'"{name}": {value if name == "rules" else json.dumps(value)}' for name, value in values.items()]
    answer = api.generic("POST", "/v1/flags", "{" + ", ".join(parts) + "}", content_type="application/json")
    error = answer.json()["error"]
    assert answer.status_code in (400, 409)
    if error["code"] == "malformed_json":
        return ["is not valid JSON"]  # the position in the text differs
    return [detail["message"] for detail in error.get("details", [])] or [error["message"]]


def test_add__errors_in_rules__name_each_field(production: Environment) -> None:
    client = sign_in()
    where = reverse("admin:flags_flag_add")
    rules = '[{"type": "percentage", "percentage": 120}, {"type": "attribute", "conditions": [{"attribute": "plan"}]}]'
    response = client.post(where, filled(client, where, key="fresh", rules=rules))
    assert [error.split(":")[0] for error in errors_of(response)["rules"]] == [
        "rules[0].percentage",
        "rules[1].conditions[0].operator",
    ]


def test_change__of_description_state_and_rules__is_one_change(flag: Flag, production: Environment) -> None:
    client = sign_in()
    before = revision()
    sent = filled(client, address("change", flag), description="Shorter", rules="[]", enabled=False)
    assert answer(client, client.post(address("change", flag), sent)).status_code == 302
    changed = get_flag("new-checkout", production)
    assert (changed.description, changed.enabled, changed.rules) == ("Shorter", False, [])
    assert only_change(after=before).source == Source.ADMIN


def test_change__saved_as_it_was__writes_nothing(production: Environment) -> None:
    flag = create_flag(key="a", description="two\nlines", rules=QUARTER, environment=production, actor=ACTOR, now=NOON)
    client = sign_in()
    before = revision()
    sent = filled(client, address("change", flag), description="two\r\nlines")  # as a browser sends a textarea
    assert client.post(address("change", flag), sent).status_code == 302
    assert revision() == before


def test_change__of_a_flag_that_changed_meanwhile__is_refused_and_overwrites_nothing(
    flag: Flag, production: Environment
) -> None:
    client = sign_in()
    sent = filled(client, address("change", flag), description="Mine")
    update_flag(key=flag.key, environment=production, changes={"description": "Theirs"}, actor=ACTOR, now=NOON)
    before = revision()
    response = client.post(address("change", flag), sent)
    assert "has changed since" in errors_of(response)["__all__"][0]
    assert "Nothing was saved" in text_of(response)
    assert response.context["adminform"].form["description"].value() == "Mine"
    assert get_flag(flag.key, production).description == "Theirs"
    assert revision() == before


def test_change__without_its_version__is_refused(flag: Flag) -> None:
    client = sign_in()
    before = revision()
    response = client.post(address("change", flag), filled(client, address("change", flag), version=""))
    assert "has changed since" in errors_of(response)["__all__"][0]
    assert revision() == before


@pytest.mark.parametrize(("sent", "page"), [({}, "changelist"), ({"_continue": "1"}, "change")])
def test_change__of_nothing__says_so(flag: Flag, sent: dict[str, str], page: str) -> None:
    client, before = sign_in(), revision()
    response = client.post(address("change", flag), {**filled(client, address("change", flag)), **sent})
    assert response.url == (reverse(LIST) if page == "changelist" else address("change", flag))
    assert (messages_of(response), revision()) == (["Nothing has changed."], before)


def test_change__opened_in_another_environment__is_refused(flag: Flag) -> None:
    client = sign_in()
    sent = filled(client, address("change", flag), description="For production")
    client.post(reverse("admin:switch_environment"), {"environment": "staging"})
    before = revision()
    response = client.post(address("change", flag), sent)
    assert "have switched to Staging since" in text_of(response)
    assert revision() == before


def test_change_page__shows_how_the_flag_stands_elsewhere(flag: Flag) -> None:
    assert "Other environments Staging off if on: 25 % of everyone" in text_of(sign_in().get(address("change", flag)))


def test_delete__confirmed__goes_through_the_domain(flag: Flag) -> None:
    client = sign_in()
    assert "is deleted in every environment" in text_of(client.get(address("delete", flag)))
    before = revision()
    sent = {"opened_in": "production", "reason": "Everyone has it"}
    assert client.post(address("delete", flag), sent).url == reverse(LIST)
    assert not Flag.objects.exists()
    change = only_change(after=before)
    assert (change.action, change.source, change.reason) == ("deleted", Source.ADMIN, "Everyone has it")


def test_delete__of_a_flag_that_is_on_elsewhere__is_refused(flag: Flag, staging: Environment) -> None:
    update_flag(key=flag.key, environment=staging, changes={"enabled": True}, actor=ACTOR, now=NOON)
    before = revision()
    response = sign_in().post(address("delete", flag), {"opened_in": "production"})
    assert messages_of(response) == ["The flag is on in staging; switch it off there first."]
    assert Flag.objects.exists()
    assert revision() == before


def test_delete__from_a_page_of_another_environment__is_refused(flag: Flag) -> None:
    response = sign_in().post(address("delete", flag), {"opened_in": "staging"})
    assert "have switched to Production since" in text_of(response)
    assert Flag.objects.exists()


def test_bulk_delete__is_not_offered_and_does_nothing(flag: Flag) -> None:
    client = sign_in()
    client.post(reverse(LIST), {"action": "delete_selected", "_selected_action": [str(flag.pk)], "post": "yes"})
    assert Flag.objects.exists()


def test_history__every_door__is_reported_with_who_when_why_and_what(flag: Flag, production: Environment) -> None:
    update_flag(
        key=flag.key,
        environment=production,
        changes={"rules": [{"type": "percentage", "percentage": 50}]},
        actor=ACTOR,
        now=NOON,
        reason="It went well",
    )
    text = text_of(sign_in().get(address("history", flag)))
    assert "test changed flag new-checkout in production" in text
    change = Change.objects.latest("revision")
    assert f"{change.at:%Y, %H:%M:%S} UTC · Command · change {change.revision}" in text
    assert "It went well" in text
    assert "Changed rule 1 in production from 25 % of everyone to 50 % of everyone" in text


def test_flag_page__of_no_flag__leads_back(production: Environment) -> None:
    client = sign_in()
    for page in ("change", "history", "delete"):
        assert client.get(reverse(f"admin:flags_flag_{page}", args=["nothing"])).status_code == 302
    assert not Change.objects.filter(kind="flag").exists()
