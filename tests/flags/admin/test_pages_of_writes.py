"""The page of a write in the admin, which offers to undo it, and the histories that link to it."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from django.db import OperationalError, connection
from django.urls import reverse

from config.admin import write_pages
from config.models import Environment
from flags.changes.flag_changes import create_flag, update_flag
from flags.models import Flag
from tests.admin import answer, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.flags.admin.undos import HALF, LIST, address, switch, undo, undo_addresses


@pytest.fixture
def flag(production: Environment) -> Flag:
    return create_flag(key="f", environment=production, rules=HALF, actor=ACTOR, now=NOON)


def test_page_of_a_write__has_all_that_it_did_and_who_and_why(flag: Flag, production: Environment) -> None:
    other = create_flag(key="g", environment=production, actor=ACTOR, now=NOON)
    client, before = sign_in(), revision()
    selected = [str(flag.pk), str(other.pk)]
    page = client.post(LIST, {"action": "production:on", "_selected_action": selected, "index": "0"})
    done = answer(client, page, typed_name="Production", reason="Beta")
    shown = client.get(reverse("admin:config_change_change", args=[before + 2]))
    text = text_of(shown)
    assert f"Change {before + 1}: 2 objects By user ada When" in text
    assert f"Through Admin Reason Beta Request {done.headers['X-Request-Id']} Link to share" in text
    assert f'value="http://testserver/admin/config/change/{before + 1}/change/"' in shown.content.decode()
    assert text.count("Switched on in production") == 2
    assert "Undo Until" in text


def test_page_of_a_write__undone__names_the_change_that_did_so(flag: Flag, production: Environment) -> None:
    other = create_flag(key="g", environment=production, actor=ACTOR, now=NOON)
    client = sign_in()
    switch(client, flag, other)
    made, page = revision() - 1, reverse("admin:config_change_change", args=[revision()])
    client.get(LIST)  # which shows the message
    assert undo_addresses(client.get(page)) == [f"/admin/config/change/{made}/undo/"]
    before = revision()
    undo(client, made, next=page)
    shown = client.get(page)
    assert undo_addresses(shown) == [f"/admin/config/change/{before + 1}/undo/"]  # that of the message
    assert f"This change is undone, by change {before + 1} ." in text_of(shown)
    assert undo_addresses(client.get(page)) == []
    undo(client, before + 1)
    client.get(LIST)
    assert undo_addresses(client.get(page)) == [f"/admin/config/change/{made}/undo/"]


def test_page_of_a_write__that_changed_since__says_so(flag: Flag, production: Environment) -> None:
    client = sign_in()
    switch(client, flag)
    page = reverse("admin:config_change_change", args=[revision()])
    client.get(LIST)
    update_flag(key="f", environment=production, changes={"enabled": False}, actor=ACTOR, now=NOON)
    before = revision()
    shown = client.get(page)
    assert undo_addresses(shown) == []
    assert "The flag f has changed since, so this cannot be undone. See the history." in text_of(shown)
    assert "Nothing was changed" not in text_of(shown)
    assert revision() == before


def test_page_of_a_write__database_takes_no_changes__offers_nothing(
    flag: Flag, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = sign_in()
    switch(client, flag)
    client.get(LIST)

    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("the database is read-only")

    monkeypatch.setattr("config.change_log.reversion.undo_write", fail)
    page = client.get(reverse("admin:config_change_change", args=[revision()]))
    assert (page.status_code, undo_addresses(page)) == (200, [])


def test_page_of_a_write__of_very_many_changes__offers_to_undo_them_untried(
    flag: Flag, production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_pages, "_MAX_TRIED", 1)
    monkeypatch.setattr(write_pages, "refusal_of_undo", Mock(side_effect=AssertionError))
    client = sign_in()
    switch(client, flag, create_flag(key="g", environment=production, actor=ACTOR, now=NOON))
    client.get(LIST)
    page = client.get(reverse("admin:config_change_change", args=[revision()]))
    assert undo_addresses(page) == [f"/admin/config/change/{revision() - 1}/undo/"]


def test_page_of_a_write__of_the_api__names_its_request(flag: Flag, api: Any) -> None:
    api.patch("/v1/flags/f", {"enabled": True}, HTTP_X_REQUEST_ID="from-me")
    assert "Request from-me" in text_of(sign_in().get(reverse("admin:config_change_change", args=[revision()])))


def test_page_of_a_write__takes_few_queries(
    flag: Flag, production: Environment, django_assert_max_num_queries: Any
) -> None:
    flags = [create_flag(key=f"g{number}", environment=production, actor=ACTOR, now=NOON) for number in range(30)]
    client = sign_in()
    switch(client, flag, *flags)
    where = reverse("admin:config_change_change", args=[revision()])
    client.get(where)
    # For any number of flags, with the undo that is tried, for which SQLite asks in smaller parts.
    with django_assert_max_num_queries(28 if connection.vendor == "postgresql" else 39):
        client.get(where)


def test_history__just_after_a_change__offers_to_undo_it(flag: Flag, production: Environment) -> None:
    client, history = sign_in(), address("history", flag)
    assert undo_addresses(client.get(history)) == []  # the flag was created long ago
    switch(client, flag)
    made = revision()
    client.get(LIST)  # which shows the message
    assert undo_addresses(client.get(history)) == [f"/admin/config/change/{made}/undo/"]
    assert undo_addresses(sign_in("flags.view_flag", username="eve").get(history)) == []
    assert undo(client, made, next=history).url == history
    update_flag(key="f", environment=production, changes={"enabled": True}, actor=ACTOR, now=NOON)
    client.get(LIST)
    assert undo_addresses(client.get(history)) == []


def test_histories__link_to_the_page_of_each_write(flag: Flag) -> None:
    page = sign_in().get(address("history", flag)).content.decode()
    assert f'href="{reverse("admin:config_change_change", args=[revision()])}"' in page
