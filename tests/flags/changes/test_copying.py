"""Imports and promotions do not copy rules of experiments, and keep those of the target."""

from __future__ import annotations

from typing import Any

import pytest

from config.change_log.writing import Writing, writing
from config.errors import ValidationFailed
from config.models import Environment
from flags.changes import bulk, flag_changes
from flags.changes import experiment_rules as driving
from flags.changes.bulk import FlagEntry
from flags.changes.flag_rows import common_values, flags_as_json
from flags.changes.promotion import promote
from flags.changes.properties import values_of
from flags.changes.reversion import revert_flag
from flags.files.exporting import content_of_file
from flags.models import Flag
from tests.flags.changes.drives import HALF, RULE, WRITE, locked, revision, rules_of, write
from tests.flags.engine.experiments import COLOURS, experiment_rule


def test_revert__to_before_the_experiment__keeps_its_rule(plain: Flag, production: Environment) -> None:
    then = revision()
    flag_changes.update_flag(key="f", environment=production, changes={"rules": [], "enabled": False}, **WRITE)
    write(driving.put_rule, production, rule=RULE)
    flag = revert_flag(key="f", revision=then, environment=production, **WRITE)
    assert (flag.rules, flag.enabled) == ([RULE, HALF], True)


def test_revert__to_while_the_experiment_ran__leaves_its_rule_out(driven: Flag, production: Environment) -> None:
    then = revision()
    write(driving.ship, production, experiment="checkout", winner=True, control=False)
    flag = revert_flag(key="f", revision=then, environment=production, **WRITE)
    assert flag.rules == [HALF]


def test_revert__to_other_values_of_served_variants__is_refused(coloured: Flag, production: Environment) -> None:
    write(driving.remove_rule, production, "c", experiment="checkout")
    then = revision()
    new = [COLOURS["variants"][0], {"key": "new", "value": "#fff"}]
    flag_changes.update_flag(key="c", environment=production, changes={"variants": new}, **WRITE)
    write(driving.put_rule, production, "c", rule=experiment_rule(is_plain=False))
    with locked():
        revert_flag(key="c", revision=then, environment=production, **WRITE)


def test_promote__from_where_an_experiment_runs__leaves_its_rule_out(
    driven: Flag, production: Environment, staging: Environment
) -> None:
    promote(source=production, target=staging, **WRITE)
    assert (rules_of(staging), flag_changes.get_flag("f", staging).enabled) == ([HALF], True)


def test_promote__to_where_an_experiment_runs__keeps_its_rule(
    driven: Flag, production: Environment, staging: Environment
) -> None:
    new = [{**HALF, "percentage": 7}]
    flag_changes.update_flag(key="f", environment=staging, changes={"rules": new}, **WRITE)
    promote(source=staging, target=production, **WRITE)
    assert rules_of(production) == [RULE, *new]
    assert list(promote(source=staging, target=production, **WRITE)) == []


def test_export__driven_flag__leaves_the_rule_out(driven: Flag, production: Environment, staging: Environment) -> None:
    [flag] = content_of_file(environments=[production, staging])["flags"]
    assert flag["environments"] == {
        "production": {"enabled": True, "rules": [HALF]},
        "staging": {"enabled": False, "rules": [HALF]},
    }


def imported(log: Writing, environment: Environment, **more: Any) -> None:
    """Return the entries of a file with all flags."""
    entries = [
        FlagEntry(
            field=f"flags[{at}]",
            key=key,
            common={**common_values(values_of(document, environment.key)), **more.get("common", {})},
            states={environment.key: {"enabled": True, "rules": more.get("rules", [])}},
            is_archived=more.get("is_archived", False),
        )
        for at, (key, (_, document)) in enumerate(flags_as_json().items())
    ]
    bulk.prepare(log, flags=entries).write(log)


def test_import__flag_that_an_experiment_drives__keeps_its_rule(driven: Flag, production: Environment) -> None:
    with writing(**WRITE) as log:
        imported(log, production, rules=[{**HALF, "percentage": 3}])
    assert rules_of(production) == [RULE, {**HALF, "percentage": 3}]


def test_import__rule_of_an_experiment__is_left_out(plain: Flag, production: Environment) -> None:
    with writing(**WRITE) as log:
        imported(log, production, rules=[RULE, {**HALF, "percentage": 3}])
    assert rules_of(production) == [{**HALF, "percentage": 3}]


def test_import__rule_that_names_no_segment__is_blamed_where_it_stands(driven: Flag, production: Environment) -> None:
    with pytest.raises(ValidationFailed) as refused, writing(**WRITE) as log:
        imported(log, production, rules=[{"type": "segment", "segment": "nope"}])
    assert [detail.field for detail in refused.value.details] == ["flags[0].environments.production.rules[0].segment"]


@pytest.mark.parametrize(("number", "is_refused"), [(199, False), (200, True)])
def test_import__as_many_rules_as_there_may_be__leaves_no_room_for_that_of_the_experiment(
    driven: Flag, production: Environment, number: int, is_refused: bool
) -> None:
    rules = [{**HALF, "percentage": at / 10} for at in range(number)]
    if not is_refused:
        with writing(**WRITE) as log:
            imported(log, production, rules=rules)
        assert rules_of(production) == [RULE, *rules]
        return
    with pytest.raises(ValidationFailed) as refused, writing(**WRITE) as log:
        imported(log, production, rules=rules)
    assert [detail.field for detail in refused.value.details] == ["flags[0].environments.production.rules"]


def test_import__other_variants_or_the_archive__is_refused(coloured: Flag, production: Environment) -> None:
    other = {"variants": [COLOURS["variants"][0], {"key": "new", "value": "#fff"}]}
    for more, field in (({"common": other}, "variants"), ({"is_archived": True}, "archived")):
        with pytest.raises(ValidationFailed) as refused, writing(**WRITE) as log:
            imported(log, production, **more)
        assert [detail.field for detail in refused.value.details] == [f"flags[0].{field}"]
        assert "checkout" in refused.value.details[0].message
