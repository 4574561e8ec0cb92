"""Writes that are refused while an experiment drives the flag."""

from __future__ import annotations

from typing import Any

import pytest

from config.errors import ErrorCode, ValidationFailed
from config.models import Environment
from flags.changes import experiment_rules as driving
from flags.changes import flag_changes
from flags.changes.segment_changes import create_segment, delete_segment
from flags.models import Flag
from tests.answers import data, error
from tests.flags.changes.drives import HALF, RULE, WRITE, locked, refusal, revision, write
from tests.flags.engine.experiments import COLOURS


def test_update__rule_of_an_experiment_lost_or_altered__is_refused(
    subtests: pytest.Subtests, driven: Flag, production: Environment
) -> None:
    before = revision()
    for rules in [
        [], [HALF], [HALF, RULE], [RULE, RULE], [{**RULE, "percentage": 50}],
        [{**RULE, "variants": RULE["variants"][::-1]}],
    ]:  # fmt: skip
        with subtests.test(rules=rules):
            with locked():
                flag_changes.update_flag(key="f", environment=production, changes={"rules": rules}, **WRITE)
            assert revision() == before


def test_update__other_rules_and_the_switch__can_be_changed(driven: Flag, production: Environment) -> None:
    new = {"rules": [RULE, {**HALF, "percentage": 1}, HALF], "enabled": False, "description": "D"}
    flag = flag_changes.update_flag(key="f", environment=production, changes=new, **WRITE)
    assert (flag.rules, flag.enabled, flag.description) == (new["rules"], False, "D")


def test_write__rule_that_no_experiment_wrote__is_refused(
    subtests: pytest.Subtests, plain: Flag, production: Environment
) -> None:
    for rules in [[RULE], [HALF, RULE], [{"type": "experiment"}], [{"type": "experiment", "experiment": []}]]:
        with subtests.test(rules=rules):
            at = len(rules) - 1
            for function, more in (
                (flag_changes.create_flag, {"key": "new", "rules": rules}),
                (flag_changes.update_flag, {"key": "f", "changes": {"rules": rules}}),
            ):
                with pytest.raises(ValidationFailed) as refused:
                    function(environment=production, **more, **WRITE)
                assert [(detail.field, detail.code) for detail in refused.value.details] == [
                    (f"rules[{at}].type", "invalid_value")
                ]


def test_update__rules_that_are_none__are_refused_as_ever(
    subtests: pytest.Subtests, driven: Flag, production: Environment
) -> None:
    for rules in [None, {}, [RULE, 7], [RULE, {"type": "percentage"}]]:
        with subtests.test(rules=rules), pytest.raises(ValidationFailed):
            flag_changes.update_flag(key="f", environment=production, changes={"rules": rules}, **WRITE)


def test_update__variant_that_an_experiment_serves__is_locked(
    subtests: pytest.Subtests, coloured: Flag, production: Environment, staging: Environment
) -> None:
    for variants in [
        COLOURS["variants"][:1],
        [COLOURS["variants"][0], {"key": "new", "value": "#fff"}],
        None,
    ]:
        with subtests.test(variants=variants):
            more = {} if variants else {"type": None}
            for environment in (production, staging):
                with locked():
                    flag_changes.update_flag(
                        key="c", environment=environment, changes={"variants": variants, **more}, **WRITE
                    )
            assert flag_changes.get_flag("c", production).variants == COLOURS["variants"]


def test_update__variant_that_no_experiment_serves__can_be_added(coloured: Flag, production: Environment) -> None:
    variants = [*COLOURS["variants"], {"key": "third", "value": "#00f"}]
    flag = flag_changes.update_flag(key="c", environment=production, changes={"variants": variants}, **WRITE)
    assert flag.variants == variants


def test_update__plain_flag_of_an_experiment__gets_no_variants(driven: Flag, staging: Environment) -> None:
    with locked():
        flag_changes.update_flag(key="f", environment=staging, changes=COLOURS, **WRITE)


def test_update__variants_of_no_shape__are_refused_as_ever(coloured: Flag, production: Environment) -> None:
    for variants in ("old", [1], {"a": 1}):
        with pytest.raises(ValidationFailed):
            flag_changes.update_flag(key="c", environment=production, changes={"variants": variants}, **WRITE)


def test_archive_and_delete__driven_flag__are_refused_in_any_environment(
    driven: Flag, production: Environment, staging: Environment
) -> None:
    flag_changes.update_flag(key="f", environment=production, changes={"enabled": False}, **WRITE)
    for environment in (production, staging):
        for function in (flag_changes.archive_flag, flag_changes.delete_flag):
            with locked():
                function(key="f", environment=environment, **WRITE)
    write(driving.remove_rule, production, experiment="checkout")
    flag_changes.archive_flag(key="f", environment=production, **WRITE)


def test_delete_segment__of_the_audience__is_refused(plain: Flag, production: Environment) -> None:
    create_segment(key="beta", **WRITE)
    conditions = [{"operator": "inSegment", "value": "beta"}]
    write(driving.put_rule, production, rule={**RULE, "conditions": conditions})
    with refusal(ErrorCode.IN_USE):
        delete_segment(key="beta", **WRITE)


def test_api__driven_flag__is_refused_by_one_code_and_takes_what_it_reads(api: Any, driven: Flag) -> None:
    for method, address, body in (
        ("patch", "/v1/flags/f", {"rules": [HALF]}),
        ("delete", "/v1/flags/f", None),
        ("post", "/v1/flags/f/archive", None),
    ):
        assert "checkout" in error(getattr(api, method)(address, body), 409, "experiment_locked")["message"]
    read = data(api.get("/v1/flags/f"))
    assert read["rules"] == [RULE, HALF]
    assert data(api.patch("/v1/flags/f", {"rules": read["rules"], "enabled": False}))["rules"] == read["rules"]
    assert data(api.get("/v1/ruleset"))["flags"][0]["rules"] == read["rules"]
