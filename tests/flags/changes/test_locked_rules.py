"""Rules before the rule of a running experiment decide who reaches it, so no write may change them."""

from __future__ import annotations

from typing import Any

import pytest

from config.change_log.writing import writing
from config.models import Environment
from flags.changes import experiment_rules as driving
from flags.changes import flag_changes
from flags.changes.promotion import promote
from flags.changes.reversion import revert_flag
from tests.answers import data, error
from tests.flags.changes.drives import HALF, RULE, WRITE, locked, revision, rules_of, write

FIRST = {"type": "users", "userIds": ["ann"]}
LAST = {"type": "percentage", "percentage": 5}


@pytest.fixture
def between(production: Environment) -> int:
    """An experiment that drives a flag from between its rules. Return the revision before that."""
    flag_changes.create_flag(key="f", environment=production, enabled=True, rules=[FIRST, HALF, LAST], **WRITE)
    before = revision()
    write(driving.put_rule, production, rule=RULE, position=2)
    assert rules_of(production) == [FIRST, HALF, RULE, LAST]
    return before


def test_update__rule_before_the_experiments__is_refused(
    subtests: pytest.Subtests, between: int, production: Environment
) -> None:
    before = revision()
    for rules in [
        [RULE], [HALF, FIRST, RULE, LAST], [FIRST, RULE, HALF, LAST], [FIRST, HALF, LAST, RULE],
        [FIRST, HALF, HALF, RULE], [FIRST, {**HALF, "percentage": 51}, RULE, LAST],
        [FIRST, {**HALF, "name": "Half"}, RULE, LAST], [FIRST, HALF, LAST],
    ]:  # fmt: skip
        with subtests.test(rules=rules):
            with locked() as refused:
                flag_changes.update_flag(key="f", environment=production, changes={"rules": rules}, **WRITE)
            assert "its rule and the 2 rules before it" in refused.value.message
            assert revision() == before


def test_update__rules_after_the_experiments__are_free(
    subtests: pytest.Subtests, between: int, production: Environment
) -> None:
    for after in [[], [HALF], [LAST, HALF, LAST]]:
        with subtests.test(after=after):
            rules = [FIRST, HALF, RULE, *after]
            flag_changes.update_flag(key="f", environment=production, changes={"rules": rules}, **WRITE)
            assert rules_of(production) == rules


def test_put_rule__again__stays_in_its_place(between: int, production: Environment) -> None:
    narrower = {**RULE, "percentage": 10}
    write(driving.put_rule, production, rule=narrower, position=0)
    assert rules_of(production) == [FIRST, HALF, narrower, LAST]


def test_revert__to_other_rules_before_the_experiments__is_refused(between: int, production: Environment) -> None:
    flag_changes.update_flag(
        key="f", environment=production, changes={"rules": [FIRST, HALF, RULE], "enabled": False}, **WRITE
    )
    revert_flag(key="f", environment=production, revision=between, **WRITE)
    assert rules_of(production) == [FIRST, HALF, RULE, LAST]
    write(driving.remove_rule, production, experiment="checkout")
    flag_changes.update_flag(key="f", environment=production, changes={"rules": [LAST, FIRST]}, **WRITE)
    with writing(**WRITE) as log:
        driving.put_rule(log, key="f", environment=production, rule=RULE, position=1)
    with locked():
        revert_flag(key="f", environment=production, revision=between, **WRITE)


def test_promote__other_rules_before_the_experiments__is_refused_as_a_whole(
    between: int, production: Environment, staging: Environment
) -> None:
    flag_changes.update_flag(key="f", environment=staging, changes={"rules": [FIRST, HALF]}, **WRITE)
    promote(source=staging, target=production, **WRITE)
    assert rules_of(production) == [FIRST, HALF, RULE]
    flag_changes.update_flag(key="f", environment=staging, changes={"rules": [HALF, FIRST]}, **WRITE)
    before = revision()
    with locked() as refused:
        promote(source=staging, target=production, **WRITE)
    assert "the flag f in production" in refused.value.message
    assert (rules_of(production), revision()) == ([FIRST, HALF, RULE], before)


def test_api__rules_before_the_experiments__are_refused_by_one_code(api: Any, between: int) -> None:
    message = error(api.patch("/v1/flags/f", {"rules": [RULE]}), 409, "experiment_locked")["message"]
    assert message == (
        "The experiment checkout drives this flag; keep its rule and the 2 rules before it unchanged until it stops."
    )
    assert data(api.patch("/v1/flags/f", {"rules": [FIRST, HALF, RULE]}))["rules"] == [FIRST, HALF, RULE]


def test_promote__over_the_api__answers_409(api: Any, between: int, staging: Environment) -> None:
    flag_changes.update_flag(key="f", environment=staging, changes={"rules": []}, **WRITE)
    body = {"from": "staging", "flags": ["f"]}
    for more in ({}, {"dryRun": True}):
        answer = api.post("/v1/promote", {**body, **more})
        assert "checkout" in error(answer, 409, "experiment_locked")["message"]
