"""Stale flags and their reasons: in the queryset, the list of the API, and the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command

from config.models import Environment
from flags.changes.flag_changes import archive_flag, update_flag
from flags.models import Flag, LastUse
from flags.usage.staleness import not_stale, stale, stale_reasons, with_stale_reasons
from tests.answers import data, error
from tests.cases import undone
from tests.conftest import ACTOR, NOON
from tests.factories import FlagFactory

MONTH = timedelta(days=30)
START = NOON + timedelta(days=1000)  # after the environments of the database were made
NOW = START + 2 * MONTH
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _clock() -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


def create(key: str, at: datetime = START, **values: Any) -> Flag:
    return FlagFactory(key=key, now=at, **values)


def use(environment: Environment, key: str, outcome: str = "on", at: datetime = NOW) -> None:
    LastUse.objects.create(environment=environment, flag_key=key, outcome=outcome, hour=at)


def update(key: str, environment: Environment, at: datetime, **changes: Any) -> None:
    update_flag(key=key, environment=environment, changes=changes, actor=ACTOR, now=at)


def reasons(environment: Environment, now: datetime = NOW) -> dict[str, list[str]]:
    """Return the reasons of each stale flag, and check that `stale` and `not_stale` agree with them."""
    judged = with_stale_reasons(Flag.objects.in_environment(environment), environment, now)
    by_key = {flag.key: [reason.value for reason in stale_reasons(flag)] for flag in judged}
    assert {flag.key for flag in stale(judged)} == {key for key, reasons in by_key.items() if reasons}
    assert {flag.key for flag in not_stale(judged)} == {key for key, reasons in by_key.items() if not reasons}
    return {key: reasons for key, reasons in by_key.items() if reasons}


# --- the condition ---------------------------------------------------------------------------------------------------


def test_flag__expired__is_stale_from_that_moment_on(subtests: pytest.Subtests, production: Environment) -> None:
    for expires_at, is_stale in [(None, False), (NOW + timedelta.resolution, False), (NOW, True), (NOW - MONTH, True)]:
        with undone(subtests, expires_at=expires_at, is_stale=is_stale):
            create("f", NOW - HOUR, expires_at=expires_at)
            assert reasons(production) == ({"f": ["expired"]} if is_stale else {})


def test_flag__not_evaluated__is_stale_after_30_days(subtests: pytest.Subtests, production: Environment) -> None:
    for age, last, is_stale in [
        (MONTH, None, True), (MONTH - timedelta.resolution, None, False), (2 * MONTH, MONTH, False),
        (2 * MONTH, MONTH + HOUR, True),
    ]:  # fmt: skip
        with undone(subtests, age=age, last=last):
            create("f", NOW - age)
            if last is not None:
                use(production, "f", "on", NOW - last)
                use(production, "f", "off", NOW - last)
            assert reasons(production) == ({"f": ["not_evaluated"]} if is_stale else {})


def test_flag__of_one_outcome__is_stale(subtests: pytest.Subtests, production: Environment) -> None:
    create("f")
    for uses, is_stale in [
        ({"on": HOUR}, True),
        ({"on": HOUR, "off": 29 * HOUR}, False),
        ({"on": HOUR, "off": MONTH + HOUR}, True),
    ]:
        with undone(subtests, uses=uses, is_stale=is_stale):
            for outcome, ago in uses.items():
                use(production, "f", outcome, NOW - ago)
            assert reasons(production) == ({"f": ["one_outcome"]} if is_stale else {})


def test_flag__of_one_outcome__is_stale_where_it_was_not_changed_for_30_days(
    production: Environment, staging: Environment
) -> None:
    for key in ("unchanged", "changed", "just-so", "common"):
        create(key)
        use(production, key)
        use(staging, key)
    update("just-so", production, NOW - MONTH, enabled=True)
    update("changed", production, NOW - MONTH + timedelta.resolution, enabled=True)
    update("common", production, NOW - HOUR, description="Other")
    assert reasons(production).keys() == {"unchanged", "just-so"}
    assert reasons(staging).keys() == {"unchanged", "just-so", "changed"}


def test_flag__used_in_another_environment__is_not_used_here(production: Environment, staging: Environment) -> None:
    create("f")
    use(staging, "f", "on")
    use(staging, "f", "off")
    assert (reasons(production), reasons(staging)) == ({"f": ["not_evaluated"]}, {})


def test_flag__several_reasons__are_listed_in_their_order(production: Environment) -> None:
    create("unused", expires_at=NOW)
    create("used", expires_at=NOW)
    use(production, "used")
    assert reasons(production) == {"unused": ["expired", "not_evaluated"], "used": ["expired", "one_outcome"]}


def test_flag__archived__is_never_stale(production: Environment) -> None:
    create("f", expires_at=NOW)
    archive_flag(key="f", environment=production, actor=ACTOR, now=START)
    assert reasons(production) == {}


# --- the list of the API ---------------------------------------------------------------------------------------------


@pytest.fixture
def flags(production: Environment) -> None:
    """A flag with two reasons, one with none, and one that is archived."""
    create("stale", expires_at=NOW, owner="shop", tags=["a", "b"])
    use(production, "stale", "on", NOW - HOUR)
    create("archived", expires_at=NOW)
    archive_flag(key="archived", environment=production, actor=ACTOR, now=START)
    create("fresh", NOW, on=True)


ENTRY = {"id", "key", "description", "enabled", "createdAt"}


@pytest.mark.usefixtures("flags")
def test_list__stale__is_those_with_their_reasons(api: Any) -> None:
    [entry] = data(api.get("/v1/flags?stale=true"))
    assert (entry["key"], entry["staleReasons"]) == ("stale", ["expired", "one_outcome"])
    assert entry.keys() == ENTRY | {"staleReasons"}


@pytest.mark.usefixtures("flags")
def test_list__other_choices__are_as_without_reasons(subtests: pytest.Subtests, api: Any) -> None:
    for query, keys in [
        ("stale=false", ["fresh"]),
        ("", ["fresh", "stale"]),
        ("stale=true&archived=true", []),
        ("stale=false&archived=true", ["archived"]),
        ("stale=true&tag=b&owner=shop&expired=true&enabled=false&search=st", ["stale"]),
        ("stale=true&enabled=true", []),
        ("stale=true&limit=1", ["stale"]),
    ]:
        with subtests.test(query=query, keys=keys):
            entries = data(api.get(f"/v1/flags?{query}"))
            assert [entry["key"] for entry in entries] == keys
            if "stale=true" not in query:
                assert all(entry.keys() == ENTRY for entry in entries)


def test_list__stale_that_is_no_boolean__is_refused(api: Any) -> None:
    body = error(api.get("/v1/flags?stale=maybe"), 400, "invalid_parameter")
    assert [(detail["field"], detail["code"]) for detail in body["details"]] == [("stale", "invalid_value")]


def test_list__many_stale_flags__asks_one_question(
    api: Any, production: Environment, django_assert_max_num_queries: Any
) -> None:
    for at in range(5):
        create(f"flag-{at}")
        use(production, f"flag-{at}")
    data(api.get("/v1/flags?stale=true"))
    with django_assert_max_num_queries(1):
        assert len(data(api.get("/v1/flags?stale=true"))) == 5


# --- the command -----------------------------------------------------------------------------------------------------


def stale_flags(*arguments: str) -> str:
    out = StringIO()
    call_command("stale_flags", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.usefixtures("flags")
def test_command__text__is_a_table_of_every_environment() -> None:
    assert [line.split("  ") for line in map(squeeze, stale_flags().splitlines())] == [
        ["ENVIRONMENT", "KEY", "REASONS", "LAST EVALUATED", "OWNER"],
        ["production", "stale", "expired, one_outcome", "2028-12-26T11:00:00.000000Z", "shop"],
        ["staging", "stale", "expired, not_evaluated", "not in 90 days", "shop"],
    ]


def squeeze(line: str) -> str:
    while "   " in line:
        line = line.replace("   ", "  ")
    return line


@pytest.mark.usefixtures("flags")
def test_command__json__is_a_list_of_those_of_the_environment() -> None:
    assert json.loads(stale_flags("--environment", "staging", "--format", "json")) == [
        {
            "environment": "staging",
            "key": "stale",
            "reasons": ["expired", "not_evaluated"],
            "lastEvaluatedAt": None,
            "owner": "shop",
        }
    ]


@pytest.mark.django_db
def test_command__nothing_stale__says_so() -> None:
    FlagFactory(now=NOW)
    assert stale_flags() == "No flag is stale.\n"
    assert json.loads(stale_flags("--format", "json")) == []


@pytest.mark.django_db
def test_command__unknown_environment__names_those_that_exist() -> None:
    with pytest.raises(CommandError, match="production, staging"):
        stale_flags("--environment", "prod")


def test_command__last_use_of_an_earlier_flag__is_not_shown(production: Environment) -> None:
    create("f", NOW - HOUR, expires_at=NOW)
    use(production, "f", "on", NOW - 2 * HOUR)
    [entry] = json.loads(stale_flags("--environment", "production", "--format", "json"))
    assert (entry["reasons"], entry["lastEvaluatedAt"]) == (["expired"], None)


def test_command__however_many_flags__asks_two_questions_an_environment(
    production: Environment, django_assert_max_num_queries: Any
) -> None:
    FlagFactory.create_batch(5, now=START, expires_at=NOW)
    with django_assert_max_num_queries(2):  # the environment, its flags
        stale_flags("--environment", "production")
