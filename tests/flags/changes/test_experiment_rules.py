"""Writes of experiments to the flags that they drive."""

from __future__ import annotations

import pytest

from config.errors import ErrorCode, ValidationFailed
from config.models import Change, Environment
from flags.changes import experiment_rules as driving
from flags.changes import flag_changes
from flags.models import Flag
from tests.conftest import ACTOR
from tests.flags.changes.drives import HALF, RULE, WRITE, refusal, revision, rules_of, write
from tests.flags.engine.experiments import experiment_rule


def test_put_rule__flag_with_rules__comes_first_and_is_reported_by_one_change(
    plain: Flag, production: Environment
) -> None:
    before = revision()
    write(driving.put_rule, production, rule=RULE)

    assert rules_of(production) == [RULE, HALF]
    change = Change.objects.get(revision=before + 1)
    assert (change.kind, change.key, change.environment, change.actor) == ("flag", "f", "production", ACTOR.name)
    assert change.after == flag_changes.flag_as_json(flag_changes.get_flag("f", production))
    assert revision() == before + 1


def test_put_rule__again__replaces_the_previous_rule(driven: Flag, production: Environment) -> None:
    narrower = {**RULE, "percentage": 10}
    write(driving.put_rule, production, rule=narrower)
    before = revision()
    write(driving.put_rule, production, rule=narrower)

    assert rules_of(production) == [narrower, HALF]
    assert revision() == before


def test_put_rule__in_one_environment__leaves_others_alone(
    plain: Flag, production: Environment, staging: Environment
) -> None:
    write(driving.put_rule, staging, rule=RULE)
    assert (rules_of(staging), rules_of(production)) == ([RULE, HALF], [HALF])


def test_put_rule__flag_of_another_experiment__is_refused(driven: Flag, production: Environment) -> None:
    with refusal(ErrorCode.IN_USE) as refused:
        write(driving.put_rule, production, rule=experiment_rule("pricing"))
    assert "checkout" in refused.value.message
    assert rules_of(production) == [RULE, HALF]


def test_put_rule__that_the_flag_cannot_have__blames_the_experiments_fields(
    subtests: pytest.Subtests, plain: Flag, production: Environment
) -> None:
    for more, field, code in [
        (
            {"variants": [{**variant, "serves": "new"} for variant in RULE["variants"]]},
            "flag.serves.control",
            "invalid_type",
        ),
        ({"conditions": [{"operator": "inSegment", "value": "nope"}]}, "conditions[0].value", "unknown_reference"),
        ({"forced": {"qa": "pink"}}, "forcedVariants.qa", "unknown_reference"),
        ({"percentage": 101}, "percentage", "out_of_range"),
    ]:
        with subtests.test(more=more, field=field):
            with pytest.raises(ValidationFailed) as refused:
                write(driving.put_rule, production, rule={**RULE, **more})
            assert (refused.value.details[0].field, refused.value.details[0].code) == (field, code)
            assert rules_of(production) == [HALF]


def test_put_rule__variant_that_the_flag_does_not_have__is_refused(coloured: Flag, staging: Environment) -> None:
    rule = experiment_rule(is_plain=False)
    rule["variants"][1]["serves"] = "pink"
    with pytest.raises(ValidationFailed) as refused:
        write(driving.put_rule, staging, "c", rule=rule)
    assert refused.value.details[0].field == "flag.serves.treatment"


def test_put_rule__flag_that_is_not_there__is_refused(plain: Flag, production: Environment) -> None:
    flag_changes.archive_flag(key="f", environment=production, **WRITE)
    for key in ("f", "nope", "no key"):
        with pytest.raises(ValidationFailed) as refused:
            write(driving.put_rule, production, key, rule=RULE)
        assert [detail.field for detail in refused.value.details] == ["flag.key"]


def test_put_rule__flag_with_two_hundred_rules__is_refused(plain: Flag, production: Environment) -> None:
    flag_changes.update_flag(key="f", environment=production, changes={"rules": [HALF] * 200}, **WRITE)
    with pytest.raises(ValidationFailed) as refused:
        write(driving.put_rule, production, rule=RULE)
    assert [(detail.field, detail.code) for detail in refused.value.details] == [("flag.key", "out_of_range")]
    assert refused.value.details[0].message == "The flag f has 200 rules, the most that it may have; remove one."


def test_put_rule__flag_with_one_rule_less__is_driven_until_it_ends(plain: Flag, production: Environment) -> None:
    flag_changes.update_flag(key="f", environment=production, changes={"rules": [HALF] * 199}, **WRITE)
    write(driving.put_rule, production, rule=RULE)
    write(driving.put_rule, production, rule={**RULE, "percentage": 10})
    assert len(rules_of(production)) == 200


def test_take_rule_out__driven_flag__is_decided_by_its_other_rules(driven: Flag, production: Environment) -> None:
    before = revision()
    write(driving.remove_rule, production, experiment="checkout")
    assert rules_of(production) == [HALF]
    assert revision() == before + 1
    write(driving.remove_rule, production, experiment="checkout")
    assert revision() == before + 1


def test_take_rule_out__of_another_experiment__is_refused(driven: Flag, production: Environment) -> None:
    with refusal(ErrorCode.IN_USE):
        write(driving.remove_rule, production, experiment="pricing")
    assert rules_of(production) == [RULE, HALF]


ALL = {"type": "percentage", "percentage": 100}
SALT = {"salt": "checkout:holdback"}


def test_ship__plain_flag__serves_the_winner_to_all_but_those_held_back(
    subtests: pytest.Subtests, driven: Flag, production: Environment
) -> None:
    for winner, control, holdback, expected in [
        (True, False, 0, [ALL]),
        (True, False, 5, [{**ALL, "percentage": 5, **SALT, "serves": False}, ALL]),
        (True, False, 0.001, [{**ALL, "percentage": 0.001, **SALT, "serves": False}, ALL]),
        (True, True, 5, [ALL]),
        (False, True, 0, [{**ALL, "serves": False}]),
        (False, True, 12.5, [{**ALL, "percentage": 12.5, **SALT}, {**ALL, "serves": False}]),
        (False, False, 5, [{**ALL, "serves": False}]),
    ]:
        with subtests.test(winner=winner, control=control):
            values = {"experiment": "checkout", "winner": winner, "control": control, "holdback": holdback}
            for ship_to, others in ((driving.ShipTo.AUDIENCE, [HALF]), (driving.ShipTo.EVERYONE, [])):
                rules = write(driving.ship, production, **values, ship_to=ship_to)
                assert rules == ([RULE, HALF], [*expected, *others])
                assert rules_of(production) == [*expected, *others]
                write(driving.restore_rules, production, experiment="checkout", revision=revision(), rules=[RULE, HALF])


@pytest.mark.parametrize("holdback", [0, 10.0])
def test_ship__flag_with_variants__serves_the_winner_to_all_but_those_held_back(
    coloured: Flag, production: Environment, holdback: float
) -> None:
    more = {"experiment": "checkout", "winner": "new", "control": "old", "holdback": holdback}
    _, after = write(driving.ship, production, "c", **more)
    held = {"type": "percentage", "percentage": 10, "variant": "old", **SALT}
    assert after == [*([held] if holdback else []), {**ALL, "variant": "new"}]
    assert rules_of(production, "c") == after


def test_take_back__flag_as_it_was_left__has_its_rules_again(driven: Flag, production: Environment) -> None:
    before, _ = write(driving.ship, production, experiment="checkout", winner=True, control=False)
    write(driving.restore_rules, production, experiment="checkout", revision=revision(), rules=before)
    assert rules_of(production) == [RULE, HALF]


def test_take_back__flag_whose_description_was_changed__has_its_rules_again(
    driven: Flag, production: Environment
) -> None:
    before, _ = write(driving.ship, production, experiment="checkout", winner=True, control=False)
    shipped = revision()
    flag_changes.update_flag(key="f", environment=production, changes={"description": "d", "owner": "o"}, **WRITE)
    write(driving.restore_rules, production, experiment="checkout", revision=shipped, rules=before)
    assert rules_of(production) == [RULE, HALF]


def test_take_back__flag_that_was_changed_and_changed_back__is_refused(driven: Flag, production: Environment) -> None:
    before, after = write(driving.ship, production, experiment="checkout", winner=True, control=False)
    shipped = revision()
    for rules in ([], list(after)):
        flag_changes.update_flag(key="f", environment=production, changes={"rules": rules}, **WRITE)
    with refusal(ErrorCode.EXPERIMENT_LOCKED) as refused:
        write(driving.restore_rules, production, experiment="checkout", revision=shipped, rules=before)
    assert f"in revision {shipped + 1}" in refused.value.message


def test_take_back__flag_that_was_changed_since__is_refused(driven: Flag, production: Environment) -> None:
    before, _ = write(driving.ship, production, experiment="checkout", winner=True, control=False)
    shipped = revision()
    flag_changes.update_flag(key="f", environment=production, changes={"rules": []}, **WRITE)
    with refusal(ErrorCode.EXPERIMENT_LOCKED) as refused:
        write(driving.restore_rules, production, experiment="checkout", revision=shipped, rules=before)
    assert f"in revision {shipped + 1}" in refused.value.message
    assert rules_of(production) == []


def test_take_back__flag_that_was_changed_elsewhere_alone__has_its_rules_again(
    driven: Flag, production: Environment, staging: Environment
) -> None:
    before, _ = write(driving.ship, production, experiment="checkout", winner=True, control=False)
    shipped = revision()
    flag_changes.update_flag(key="f", environment=staging, changes={"rules": []}, **WRITE)
    write(driving.restore_rules, production, experiment="checkout", revision=shipped, rules=before)
    assert (rules_of(production), rules_of(staging)) == ([RULE, HALF], [])


def test_take_back__flag_that_another_experiment_drives__is_refused(driven: Flag, production: Environment) -> None:
    before, _ = write(driving.ship, production, experiment="checkout", winner=True, control=False)
    shipped = revision()
    write(driving.put_rule, production, rule=experiment_rule("pricing"))
    with refusal(ErrorCode.IN_USE):
        write(driving.restore_rules, production, experiment="checkout", revision=shipped, rules=before)
