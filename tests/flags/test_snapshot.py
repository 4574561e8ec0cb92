"""The compiled flags and segments: applying changes one by one gives the same as loading everything."""

from __future__ import annotations

from typing import Any

import pytest

from config.access.environments import create_environment, update_environment
from config.models import Change, Environment
from flags.changes.flag_changes import archive_flag, create_flag, restore_flag, update_flag
from flags.changes.segment_changes import create_segment, delete_segment
from flags.snapshot import Compiled, compiled, configuration
from tests.conftest import ACTOR, NOON
from tests.flags.changes.random_changes import RandomChanges

pytestmark = pytest.mark.django_db

WRITE = {"actor": ACTOR, "now": NOON}
HALF = [{"type": "percentage", "percentage": 50}]


@pytest.fixture(autouse=True)
def loaded(db: None) -> None:
    compiled.load()


def apply_new_changes(since: int) -> int:
    changes = list(Change.objects.since(since))
    compiled.apply(changes)
    return changes[-1].revision if changes else since


def revision() -> int:
    return Change.objects.latest_revision()


def versions(state: Compiled) -> dict[str, dict[str, int]]:
    return {
        name: {key: flag.version for key, flag in configuration.flags.items()}
        for name, configuration in state.configurations.items()
    }


def test_apply__a_thousand_random_changes__ends_where_a_fresh_start_does() -> None:
    changes = RandomChanges(seed=7)
    applied = revision()
    for at in range(1000):
        changes.make()
        at_once = 1 if at // 100 % 2 else 20
        if at % at_once == 0 or at % 100 == 99:
            applied = apply_new_changes(applied)
        if at % 100 == 99:
            followed = compiled.state
            compiled.load()
            assert followed == compiled.state
            assert versions(followed) == versions(compiled.state)

    assert len(changes.made) == 14
    assert sum(changes.made.values()) > 300
    state = compiled.state
    assert state.archived
    assert len(state.configurations) > 3
    assert len({len(configuration.flags) for configuration in state.configurations.values()}) == 1


def test_apply__change_that_was_loaded_already__does_no_harm() -> None:
    before = revision()
    create_environment(key="qa", name="QA", **WRITE)
    qa = Environment.objects.get(key="qa")
    create_segment(key="beta", **WRITE)
    create_flag(key="a", environment=qa, enabled=True, rules=HALF, **WRITE)
    archive_flag(key="a", environment=qa, **WRITE)
    compiled.load()
    loaded = compiled.state
    apply_new_changes(before)

    assert compiled.state == loaded


def test_apply__one_flag_changed__leaves_every_other_entry_the_same_object(production: Environment) -> None:
    create_segment(key="beta", **WRITE)
    for key in ("a", "b"):
        create_flag(key=key, environment=production, rules=HALF, **WRITE)
    compiled.load()
    before, applied = compiled.state, revision()
    update_flag(key="a", environment=production, changes={"enabled": True}, **WRITE)
    apply_new_changes(applied)

    for key, now in compiled.state.configurations.items():
        assert now.flags["b"] is before.configurations[key].flags["b"]
        assert now.segments is before.configurations[key].segments
    assert configuration("production").flags["a"] != before.configurations["production"].flags["a"]
    assert before.configurations["production"].flags["a"].enabled is False


def test_apply__segment_deleted__is_gone_from_every_environment(production: Environment) -> None:
    create_segment(key="beta", user_ids=["u"], **WRITE)
    compiled.load()
    applied = revision()
    assert "beta" in configuration("staging").segments
    delete_segment(key="beta", **WRITE)
    apply_new_changes(applied)

    assert not any(configuration.segments for configuration in compiled.state.configurations.values())


def test_apply__environment_renamed__keeps_its_flags(production: Environment) -> None:
    create_flag(key="a", environment=production, enabled=True, **WRITE)
    compiled.load()
    applied = revision()
    update_environment(production, name="Live", is_default=True, **WRITE)
    apply_new_changes(applied)

    assert configuration("production").flags["a"].enabled


def test_configuration__environment_that_is_not_known__has_every_flag_off(production: Environment) -> None:
    create_flag(key="a", environment=production, enabled=True, rules=HALF, **WRITE)
    compiled.load()

    flag = configuration("nowhere").flags["a"]
    assert (flag.enabled, flag.rules) == (False, ())


def test_configuration__flag_without_a_state__is_off_but_has_what_is_common(production: Environment) -> None:
    values = [{"key": "on", "value": 1}, {"key": "off", "value": 0}]
    create_flag(key="a", environment=production, enabled=True, type="number", variants=values, **WRITE)
    create_environment(key="qa", name="QA", **WRITE)
    compiled.load()

    flag = configuration("qa").flags["a"]
    assert not flag.enabled
    assert flag.disabled.value == 0


def test_version__of_a_flag__is_the_revision_of_its_newest_change_in_the_environment(production: Environment) -> None:
    create_flag(key="a", environment=production, **WRITE)
    create_flag(key="b", environment=production, **WRITE)
    created = Change.objects.get(kind="flag", key="a").revision
    applied = apply_new_changes(0)
    update_flag(key="a", environment=production, changes={"enabled": True}, **WRITE)
    enabled = revision()
    update_flag(key="b", environment=production, changes={"description": "B"}, **WRITE)
    apply_new_changes(applied)

    for state in (compiled.state, _loaded()):
        assert {name: versions(state)[name]["a"] for name in ("production", "staging")} == {
            "production": enabled,
            "staging": created,
        }
        assert versions(state)["staging"]["b"] == versions(state)["production"]["b"] == revision()


def _loaded() -> Compiled:
    compiled.load()
    return compiled.state


def test_apply__flag_archived_and_restored__is_followed(production: Environment) -> None:
    create_flag(key="a", environment=production, enabled=True, **WRITE)
    applied = apply_new_changes(0)
    archive_flag(key="a", environment=production, **WRITE)
    applied = apply_new_changes(applied)
    assert compiled.state.archived == {"a"}
    assert not configuration("production").flags["a"].enabled

    restore_flag(key="a", environment=production, **WRITE)
    apply_new_changes(applied)
    assert not compiled.state.archived
    assert configuration("production").flags["a"].enabled


def test_load__any_number_of_flags__takes_as_many_queries(
    production: Environment, django_assert_max_num_queries: Any
) -> None:
    for at in range(20):
        create_segment(key=f"s{at}", **WRITE)
        create_flag(key=f"f{at}", environment=production, tags=["a"], rules=HALF, **WRITE)

    with django_assert_max_num_queries(5):
        compiled.load()


def test_flags__loaded_or_applied__stand_in_the_same_order(production: Environment) -> None:
    since = revision()
    for key in ("f", "zz", "A.b", "a-b", "ab", "mm", "Z"):
        create_flag(key=key, environment=production, **WRITE)
    apply_new_changes(since)
    applied = list(configuration("production").flags)
    compiled.load()
    assert applied == list(configuration("production").flags) == sorted(applied)


def test_revision__of_each_environment__moves_with_what_bears_on_it(
    production: Environment, staging: Environment
) -> None:
    def revisions() -> tuple[int, int]:
        apply_new_changes(0)
        followed = compiled.state
        compiled.load()
        assert followed == compiled.state
        return configuration("production").revision, configuration("staging").revision

    assert revisions() == (0, 0)
    created = create_flag(key="a", environment=production, **WRITE)
    both = revision()
    assert revisions() == (both, both)
    update_flag(key="a", environment=staging, changes={"enabled": True}, **WRITE)
    assert revisions() == (both, revision())
    update_flag(key="a", environment=production, changes={"rules": HALF}, **WRITE)
    assert revisions() == (revision(), revision() - 1)
    update_environment(production, name="Live", is_default=True, **WRITE)
    assert revisions() == (revision() - 1, revision() - 2)
    create_segment(key="s", **WRITE)
    assert revisions() == (revision(), revision())
    create_environment(key="qa", name="QA", **WRITE)
    assert revisions() == (revision() - 1, revision() - 1)
    assert configuration("qa").revision == revision() - 1
    assert created.key in configuration("qa").flags


def test_revision__change_of_all_environments_and_then_of_one__moves_in_all_if_applied_at_once(
    production: Environment,
) -> None:
    before = revision()
    create_flag(key="a", environment=production, **WRITE)
    of_all = revision()
    update_flag(key="a", environment=production, changes={"enabled": True}, **WRITE)
    apply_new_changes(before)
    assert (configuration("production").revision, configuration("staging").revision) == (revision(), of_all)
