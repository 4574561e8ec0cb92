"""References of flags and segments: they must exist, form no circle, and not be removed while they are needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from config.errors import DomainError, ValidationFailed
from config.models import Change, Environment
from flags.changes.flag_changes import archive_flag, create_flag, restore_flag, update_flag
from flags.changes.references import MAX_CHAIN_LENGTH, check_flag
from flags.changes.segment_changes import create_segment, delete_segment, update_segment
from flags.models import Flag, Segment
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db

WRITE = {"actor": ACTOR, "now": NOON}
COLOURS = [{"key": "blue", "value": "#00f"}, {"key": "red", "value": "#f00"}]


@pytest.fixture(autouse=True)
def environment(production: Environment) -> Environment:
    return production


def flag(key: str, *needed: str, **values: Any) -> None:
    prerequisites = [{"flag": other} for other in needed]
    production = Environment.objects.get(key="production")
    create_flag(**{"key": key, "environment": production, "prerequisites": prerequisites, **values, **WRITE})


def require(key: str, *prerequisites: dict[str, Any]) -> None:
    production = Environment.objects.get(key="production")
    update_flag(key=key, environment=production, changes={"prerequisites": list(prerequisites)}, **WRITE)


def within(*keys: str) -> list[dict[str, Any]]:
    return [{"operator": "inSegment", "value": key} for key in keys]


def segment(key: str, *needed: str) -> None:
    create_segment(key=key, conditions=within(*needed), **WRITE)


def refusal(write: Any, *arguments: Any, **values: Any) -> tuple[str, str, str]:
    """Return the field, code and message of the only detail, and check that nothing was written."""
    before = Change.objects.latest_revision()
    with pytest.raises(ValidationFailed) as refused:
        write(*arguments, **values)
    assert Change.objects.latest_revision() == before
    [detail] = refused.value.details
    return detail.field, detail.code, detail.message


def in_use(write: Any, *arguments: Any, **values: Any) -> str:
    before = Change.objects.latest_revision()
    with pytest.raises(DomainError) as refused:
        write(*arguments, **values)
    assert Change.objects.latest_revision() == before
    assert refused.value.code == "in_use"
    return refused.value.message


# what is not there


def test_flag__names_what_does_not_exist__is_refused_by_its_field(production: Environment) -> None:
    segment("beta")
    flag("a", type="string", variants=COLOURS)
    flag("b")
    flag("d")
    for values, field, named in [
        ({"prerequisites": [{"flag": "a"}, {"flag": "ghost"}]}, "prerequisites[1].flag", "No flag has the key ghost"),
        (
            {"prerequisites": [{"flag": "a", "variants": ["blue", "pink"]}]},
            "prerequisites[0].variants[1]",
            "has no variant pink; it has: blue, red",
        ),
        ({"prerequisites": [{"flag": "b", "variants": ["x"]}]}, "prerequisites[0].variants[0]", "it has: none"),
        ({"rules": [{"type": "segment", "segment": "ghost"}]}, "rules[0].segment", "No segment has the key ghost"),
        (
            {"rules": [{"type": "attribute", "conditions": within("beta", "ghost")}]},
            "rules[0].conditions[1].value",
            "No segment has the key ghost",
        ),
        # A flag's own key is no segment.
        ({"rules": [{"type": "segment", "segment": "c"}]}, "rules[0].segment", "No segment has the key c"),
    ]:
        created = refusal(flag, "c", **values)
        updated = refusal(update_flag, key="d", environment=production, changes=values, **WRITE)

        assert created[:2] == (field, "unknown_reference")
        assert named in created[2]
        if "key c" not in named:
            assert updated == created


def test_flag__names_an_archived_prerequisite__is_refused_by_its_field(production: Environment) -> None:
    flag("a")
    flag("old")
    flag("dependent")
    archive_flag(key="old", environment=production, **WRITE)
    needs = {"prerequisites": [{"flag": "a"}, {"flag": "old"}]}
    created = refusal(create_flag, key="c", environment=production, **needs, **WRITE)
    updated = refusal(update_flag, key="dependent", environment=production, changes=needs, **WRITE)

    archived = ("prerequisites[1].flag", "unknown_reference", "The flag old is archived; restore it first.")
    assert created == updated == archived


def test_restore__prerequisite_is_archived__comes_after_it(production: Environment) -> None:
    flag("old")
    flag("dependent", "old")
    archive_flag(key="dependent", environment=production, **WRITE)
    archive_flag(key="old", environment=production, **WRITE)
    field, code, message = refusal(restore_flag, key="dependent", environment=production, **WRITE)
    assert (field, code) == ("prerequisites[0].flag", "unknown_reference")
    assert message == "The flag old is archived; restore it first."

    restore_flag(key="old", environment=production, **WRITE)
    assert restore_flag(key="dependent", environment=production, **WRITE).archived_at is None


def test_archived_flag__needs_an_archived_flag__may_be_edited(production: Environment) -> None:
    flag("old")
    flag("dependent", "old")
    flag("other")
    archive_flag(key="dependent", environment=production, **WRITE)
    archive_flag(key="old", environment=production, **WRITE)
    archive_flag(key="other", environment=production, **WRITE)
    require("dependent", {"flag": "old"}, {"flag": "other"})

    assert Flag.objects.get(key="dependent").prerequisites == [{"flag": "old"}, {"flag": "other"}]


def test_segment__names_a_segment_that_does_not_exist__is_refused_by_its_field() -> None:
    segment("beta")
    field, code, message = refusal(segment, "b", "beta", "ghost")

    assert (field, code) == ("conditions[1].value", "unknown_reference")
    assert "ghost" in message


def test_flag__names_what_exists__is_accepted_everywhere() -> None:
    segment("beta")
    segment("inner", "beta")
    flag("a", type="string", variants=COLOURS)
    asks = [
        {"type": "segment", "segment": "inner"},
        {"type": "percentage", "percentage": 5, "conditions": within("beta")},
    ]
    flag("b", rules=asks, prerequisites=[{"flag": "a", "variants": ["red"]}])


# circles


def test_flag__needs_itself__is_refused_with_the_circle() -> None:
    expected = (
        "prerequisites[0].flag",
        "invalid_value",
        "Would depend on itself: a → a; remove one of these references.",
    )
    assert refusal(flag, "a", "a") == expected


def test_flag__needs_one_that_needs_it__is_refused_with_the_shortest_circle() -> None:
    flag("a")
    flag("b", "a")
    flag("c", "b")
    flag("d", "c", "b")
    flag("other")

    field, code, message = refusal(require, "a", {"flag": "other"}, {"flag": "d"})
    assert (field, code) == ("prerequisites[1].flag", "invalid_value")
    assert "a → d → b → a" in message


def test_segment__names_itself__is_refused_with_the_circle() -> None:
    segment("a")
    segment("b", "a")
    field, code, message = refusal(update_segment, key="a", changes={"conditions": within("b")}, **WRITE)

    assert (field, code) == ("conditions[0].value", "invalid_value")
    assert "a → b → a" in message
    assert refusal(segment, "c", "c")[0] == "conditions[0].value"


def test_flag__two_ways_to_the_same_flag__are_no_circle() -> None:
    flag("a")
    flag("b", "a")
    flag("c", "a")
    flag("d", "b", "c", "a")


# depth


@pytest.mark.parametrize(("write", "field"), [(flag, "prerequisites[0].flag"), (segment, "conditions[0].value")])
def test_chain__one_too_many__is_refused_with_the_whole_chain(write: Any, field: str) -> None:
    keys = [f"x{at}" for at in range(MAX_CHAIN_LENGTH + 1)]
    write(keys[0])
    for at in range(1, MAX_CHAIN_LENGTH):
        write(keys[at], keys[at - 1])

    detail = refusal(write, keys[-1], keys[-2])
    assert detail[:2] == (field, "out_of_range")
    assert " → ".join(reversed(keys)) in detail[2]


def test_chain__lengthened_in_the_middle__counts_who_asks_and_who_is_asked() -> None:
    half = MAX_CHAIN_LENGTH // 2
    for name in "lr":
        flag(f"{name}0")
        for at in range(1, half):
            flag(f"{name}{at}", f"{name}{at - 1}")
    require("l0", {"flag": f"r{half - 1}"})
    flag("more")

    detail = refusal(require, "r0", {"flag": "more"})
    assert detail[:2] == ("prerequisites[0].flag", "out_of_range")
    assert f"chain of {MAX_CHAIN_LENGTH + 1} flags, l{half - 1} → " in detail[2]


# what is needed stays


def test_segment__asked_for_by_flags_and_segments__is_in_use_there(
    production: Environment, staging: Environment
) -> None:
    segment("beta")
    segment("inner", "beta")
    flag("a", rules=[{"type": "segment", "segment": "beta"}])
    flag("b")
    conditions = [{"type": "attribute", "conditions": within("beta")}]
    update_flag(key="b", environment=staging, changes={"rules": conditions}, **WRITE)

    message = in_use(delete_segment, key="beta", **WRITE)
    assert "the flag a (production, staging), the flag b (staging), the segment inner;" in message


def test_segment__key_stands_in_rules_and_conditions_as_something_else__is_not_in_use(production: Environment) -> None:
    segment("beta")
    create_segment(key="other", conditions=[{"attribute": "beta", "operator": "equals", "value": "beta"}], **WRITE)
    flag("beta", rules=[{"type": "users", "userIds": ["beta"]}])
    flag("b", "beta")

    delete_segment(key="beta", **WRITE)


def test_segment__last_use_taken_out__can_be_deleted(production: Environment) -> None:
    segment("beta")
    flag("a", rules=[{"type": "segment", "segment": "beta"}])
    for environment in Environment.objects.all():
        update_flag(key="a", environment=environment, changes={"rules": []}, **WRITE)

    delete_segment(key="beta", **WRITE)


def test_in_use__by_very_many__names_some_and_counts_the_rest() -> None:
    segment("beta")
    for at in range(13):
        segment(f"s{at:02}", "beta")

    assert "the segment s09 and 3 more;" in in_use(delete_segment, key="beta", **WRITE)


@pytest.mark.parametrize(("key", "other"), [("a.b", "axb"), ("a_b", "axb"), ("A", "a")])
def test_in_use__keys_that_look_alike__are_distinguished(key: str, other: str) -> None:
    segment(key)
    segment(other)
    segment("asks", other)

    delete_segment(key=key, **WRITE)


@pytest.mark.parametrize("count", [1, 8])
def test_check__any_number_of_references__takes_as_many_queries(count: int, django_assert_num_queries: Any) -> None:
    for at in range(count):
        segment(f"s{at}")
        flag(f"f{at}")
    rules = [{"type": "attribute", "conditions": within(*(f"s{at}" for at in range(count)))}]
    needed = [{"flag": f"f{at}"} for at in range(count)]
    document = {"key": "a", "rules": rules, "prerequisites": needed}

    with django_assert_num_queries(3):
        check_flag(document)


# at the same time


def at_once(*writes: Callable[[], Any]) -> int:
    """Run each call in its own thread, and return how many were refused."""
    refused: list[DomainError] = []
    start = threading.Barrier(len(writes))

    def run(write: Callable[[], Any]) -> None:
        try:
            start.wait(30)
            write()
        except DomainError as error:
            refused.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(write,)) for write in writes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return len(refused)


@pytest.mark.django_db(transaction=True)
def test_segment__deleted_while_a_flag_starts_to_use_it__is_never_missing() -> None:
    if connection.vendor == "sqlite" and connection.is_in_memory_db():
        pytest.skip("a database in memory is shared by no threads")
    for at in range(10):
        key = f"beta{at}"
        segment(key)
        asks = [{"type": "segment", "segment": key}]
        refused = at_once(lambda: flag(key, rules=asks), lambda: delete_segment(key=key, **WRITE))  # noqa: B023 (they end within the loop)

        assert refused == 1
        assert Flag.objects.filter(key=key).exists() == Segment.objects.filter(key=key).exists()


@pytest.mark.django_db(transaction=True)
def test_flags__made_to_need_each_other_at_once__never_form_a_circle() -> None:
    if connection.vendor == "sqlite" and connection.is_in_memory_db():
        pytest.skip("a database in memory is shared by no threads")
    for at in range(5):
        one, other = f"a{at}", f"b{at}"
        flag(one)
        flag(other)

        assert at_once(lambda: require(one, {"flag": other}), lambda: require(other, {"flag": one})) == 1  # noqa: B023 (they end within the loop)
