"""Promotion: what it copies, what it leaves, and the reports of API, admin and command."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from config.access.environments import create_environment
from config.errors import DomainError, ValidationFailed
from config.models import Change, Environment, Scope
from flags.changes.flag_changes import archive_flag, create_flag, flag_as_json, update_flag
from flags.changes.promotion import fingerprint, promote
from flags.changes.segment_changes import create_segment
from flags.models import Flag
from tests.conftest import ACTOR, NOON, CommittingClient
from tests.flags.changes.writing import EVERYTHING, HALF

pytestmark = pytest.mark.django_db

WRITE: dict[str, Any] = {"actor": ACTOR, "now": NOON}
OFF: dict[str, Any] = {"enabled": False, "rules": []}


def states(key: str) -> dict[str, Any]:
    states: dict[str, Any] = flag_as_json(Flag.objects.get(key=key))["states"]
    return states


def revision() -> int:
    return Change.objects.latest_revision()


@pytest.fixture(autouse=True)
def _flags(production: Environment, staging: Environment) -> None:
    """`a` and `b` differ between staging and production, `same` does not, `old` does but is archived."""
    for key in ("a", "b", "same", "old"):
        create_flag(key=key, environment=production, **WRITE)
    create_segment(key="crowd", **WRITE)
    rules = [{"type": "segment", "segment": "crowd"}]
    for key in ("a", "b", "old"):
        update_flag(key=key, environment=staging, changes={"enabled": True, "rules": rules}, **WRITE)
    archive_flag(key="old", environment=staging, **WRITE)


def test_promote__all__writes_those_that_differ_and_are_not_archived(
    production: Environment, staging: Environment
) -> None:
    before = revision()
    written = promote(source=staging, target=production, reason="Tested", **WRITE)

    assert [change.key for change in written] == ["a", "b"]
    assert (
        states("a")["production"]
        == states("a")["staging"]
        == {
            "enabled": True,
            "rules": [{"type": "segment", "segment": "crowd"}],
        }
    )
    assert states("old")["production"] == OFF
    changes = list(Change.objects.since(before))
    assert [(change.key, change.environment, change.reason) for change in changes] == [
        ("a", "production", "Tested"),
        ("b", "production", "Tested"),
    ]


def test_promote__again__writes_nothing(production: Environment, staging: Environment) -> None:
    promote(source=staging, target=production, **WRITE)
    before = revision()

    assert promote(source=staging, target=production, **WRITE) == []
    assert revision() == before


def test_promote__named__writes_only_these_and_archived_ones_too(production: Environment, staging: Environment) -> None:
    written = promote(source=staging, target=production, keys=["old", "b", "same"], **WRITE)

    assert [change.key for change in written] == ["b", "old"]
    assert states("a")["production"] == OFF
    assert Flag.objects.get(key="old").archived_at is not None


def test_promote__what_is_common__stays(production: Environment, staging: Environment) -> None:
    create_flag(key="base", environment=production, enabled=True, **WRITE)
    create_flag(key="full", environment=staging, description="d", enabled=True, rules=HALF, **EVERYTHING, **WRITE)
    before = flag_as_json(Flag.objects.get(key="full"))
    promote(source=staging, target=production, keys=["full"], **WRITE)

    assert flag_as_json(Flag.objects.get(key="full")) == {
        **before,
        "states": {**before["states"], "production": before["states"]["staging"]},
    }


def test_promote__from_a_younger_environment__switches_off(production: Environment, staging: Environment) -> None:
    trial = create_environment(key="trial", name="Trial", **WRITE)
    written = promote(source=trial, target=staging, **WRITE)

    assert [change.key for change in written] == ["a", "b"]
    assert states("a")["staging"] == OFF
    assert promote(source=staging, target=trial, **WRITE) == []


def test_promote__dry_run__returns_differences_and_writes_nothing(
    production: Environment, staging: Environment
) -> None:
    before = revision()
    preview = promote(source=staging, target=production, is_dry_run=True, **WRITE)

    assert (revision(), states("a")["production"]) == (before, OFF)
    assert preview == promote(source=staging, target=production, **WRITE)


def test_promote__other_than_was_seen__is_refused(production: Environment, staging: Environment) -> None:
    ask: dict[str, Any] = {"source": staging, "target": production, "keys": ["a"], **WRITE}
    seen = fingerprint(promote(**ask, is_dry_run=True))
    update_flag(key="a", environment=staging, changes={"rules": HALF}, **WRITE)

    with pytest.raises(DomainError) as refused:
        promote(**ask, seen=seen)
    assert refused.value.code == "precondition_failed"
    assert states("a")["production"] == OFF
    assert promote(**ask, seen=fingerprint(promote(**ask, is_dry_run=True)))


def test_promote__flags_that_cannot_be__are_named(production: Environment, staging: Environment) -> None:
    for keys, fields in [
        (["a", "gone", "no key", "\0"], ["flags[1]", "flags[2]", "flags[3]"]),
        (["a", "a"], ["flags[1]"]),
    ]:
        with pytest.raises(ValidationFailed) as refused:
            promote(source=staging, target=production, keys=keys, **WRITE)
        assert [detail.field for detail in refused.value.details] == fields


def test_promote__any_number_of_flags__takes_two_queries_for_each_that_differs(
    production: Environment, staging: Environment, django_assert_max_num_queries: Any
) -> None:
    for at in range(30):
        create_flag(key=f"flag-{at}", environment=staging, enabled=True, **WRITE)
    with django_assert_max_num_queries(17 + 2 * 32):
        assert len(promote(source=staging, target=production, **WRITE)) == 32


# --- the API ----------------------------------------------------------------------------------------------------------


def test_api__promotion__has_the_differences_of_the_history(api: CommittingClient) -> None:
    answer = api.post("/v1/promote", {"from": "staging", "flags": ["a", "same"]})

    assert (answer.status_code, answer.json()) == (
        200,
        {
            "data": {
                "from": "staging",
                "to": "production",
                "dryRun": False,
                "flags": [
                    {
                        "key": "a",
                        "changes": [
                            {"field": "enabled", "before": False, "after": True},
                            {"field": "rules[0]", "after": {"type": "segment", "segment": "crowd"}},
                        ],
                    }
                ],
            }
        },
    )
    history = api.get("/v1/flags/a/history?limit=1").json()["data"][0]
    changes = answer.json()["data"]["flags"][0]["changes"]
    assert sorted(history["changes"], key=str) == sorted(changes, key=str)


def test_api__promotion__is_seen_by_the_next_request(api: CommittingClient, staging_api: CommittingClient) -> None:
    assert api.post("/v1/flags/same/evaluate", {"userId": "u"}).json()["data"]["enabled"] is False
    staging_api.patch("/v1/flags/same", {"enabled": True})
    api.post("/v1/promote", {"from": "staging"})

    assert api.post("/v1/flags/same/evaluate", {"userId": "u"}).json()["data"]["enabled"] is True


def test_api__dry_run__changes_nothing(api: CommittingClient) -> None:
    before = revision()
    preview = api.post("/v1/promote", {"from": "staging", "dryRun": True}).json()["data"]

    assert ([flag["key"] for flag in preview["flags"]], preview["dryRun"]) == (["a", "b"], True)
    assert revision() == before


def test_api__key_that_only_reads__is_refused(client_of: Callable[..., CommittingClient]) -> None:
    answer = client_of(Scope.SERVER).post("/v1/promote", {"from": "staging", "dryRun": True})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


# --- the command ------------------------------------------------------------------------------------------------------


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("promote", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def test_command__promotion__prints_what_differs() -> None:
    dry = run("--from", "staging", "--to", "production", "--dry-run", "a")
    assert dry == (
        "~ flag a\n"
        "    production enabled: false → true\n"
        '    production rules[0]: {"type": "segment", "segment": "crowd"}\n'
        "Dry run: 1 flag changed.\n"
    )
    assert run("--from", "staging", "--to", "production", "a", "--reason", "Tested") == dry.replace("Dry run: ", "")
    assert Change.objects.first().reason == "Tested"  # type: ignore[union-attr]
    assert run("--from", "staging", "--to", "production", "a") == "nothing to change.\n"


def test_command__what_cannot_be__is_refused() -> None:
    for arguments, message in [
        (("--from", "moon", "--to", "staging"), "Unknown environment 'moon'; use one of: production, staging."),
        (("--from", "staging", "--to", "moon"), "Unknown environment 'moon'; use one of: production, staging."),
        (("--from", "staging", "--to", "production", "gone"), "flags[0]: No flag has the key 'gone'."),
        (
            ("--from", "staging", "--to", "staging"),
            "from: Must differ from staging, the environment that is written.",
        ),
    ]:
        with pytest.raises(CommandError, match="^" + message.replace("[", r"\[").replace("]", r"\]")):
            run(*arguments)
