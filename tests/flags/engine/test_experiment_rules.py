"""The rule of an experiment: its checks, what it serves to each user, and which users take part."""

from __future__ import annotations

from typing import Any

import pytest

from config.timestamps import format_timestamp
from flags.engine.evaluation import TargetingKeyMissing, evaluate, resolve
from flags.engine.types import Configuration, Context, Evaluation, Participation, Reason
from flags.explanations.tracing import explain
from flags.validation.parsing import Reference, parse_flag, parse_segment, references
from tests.flags.engine.experiments import COLOURS, experiment_rule
from tests.flags.engine.reference import reference_bucket, reference_variant
from tests.flags.engine.strategies import NOW
from tests.flags.validation.refusals import blamed_in

PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
USERS = [f"user-{at}" for at in range(300)]
SERVES: dict[str, Any] = {"control": False, "treatment": True}


def among(*documents: dict[str, Any], segments: tuple[dict[str, Any], ...] = ()) -> Configuration:
    flags = [parse_flag({"enabled": True, "rules": [], **document}) for document in documents]
    return Configuration(
        {flag.key: flag for flag in flags}, {segment["key"]: parse_segment(segment) for segment in segments}
    )


def driven(*rules: dict[str, Any], **more: Any) -> Configuration:
    return among({"key": "f", "rules": list(rules), **more})


def context(
    configuration: Configuration, user_id: str, assigned: dict[str, str] | None = None, **attributes: Any
) -> Context:
    return Context(user_id, attributes, configuration, NOW, assigned=assigned or {})


def answer(configuration: Configuration, *who: Any, **attributes: Any) -> Evaluation:
    return evaluate(configuration.flags["f"], context(configuration, *who, **attributes))


def variant_by_hash(user_id: str) -> str:
    return reference_variant([("control", 50), ("treatment", 50)], reference_bucket("checkout:variant", user_id))


# --- how it may be written -------------------------------------------------------------------------------------------

TWO = experiment_rule()["variants"]
VALUED = experiment_rule(is_plain=False)["variants"]


def test_rule__wrong_field__is_blamed() -> None:
    for more, expected in [
        ({"experiment": 1}, [("experiment", "invalid_type")]),
        ({"experiment": "a b"}, [("experiment", "invalid_value")]),
        ({"variants": {}}, [("variants", "invalid_type")]),
        ({"variants": TWO[:1]}, [("variants", "out_of_range")]),
        ({"variants": TWO * 26}, [("variants", "out_of_range")]),
        ({"variants": [TWO[0], TWO[0]]}, [("variants[1].key", "duplicate")]),
        ({"variants": [{**variant, "weight": 0} for variant in TWO]}, [("variants", "out_of_range")]),
        ({"variants": [TWO[0], {**TWO[1], "weight": -1}]}, [("variants[1].weight", "out_of_range")]),
        ({"variants": [TWO[0], {**TWO[1], "weight": True}]}, [("variants[1].weight", "invalid_type")]),
        ({"variants": [TWO[0], {**TWO[1], "serves": "new"}]}, [("variants[1].serves", "invalid_type")]),
        ({"variants": [TWO[0], {"key": "b", "weight": 1}]}, [("variants[1].serves", "required")]),
        ({"percentage": 100.1}, [("percentage", "out_of_range")]),
        ({"percentage": 0.0001}, [("percentage", "invalid_value")]),
        ({"conditions": [{**PRO, "operator": "like"}]}, [("conditions[0].operator", "invalid_value")]),
        ({"group": None}, [("group", "invalid_type")]),
        ({"group": {"key": "g"}}, [("group.from", "required"), ("group.to", "required")]),
        ({"group": {"key": "g", "from": 50, "to": 50}}, [("group.to", "out_of_range")]),
        ({"group": {"key": "g", "from": 0, "to": 0.0005}}, [("group.to", "invalid_value")]),
        ({"forced": ["qa"]}, [("forced", "invalid_type")]),
        ({"forced": {"qa": True}}, [("forced.qa", "invalid_type")]),
        ({"forced": {"qa": "pink"}}, [("forced.qa", "unknown_reference")]),
        ({"forced": {"": "control"}}, [("forced.", "invalid_value")]),
        ({"forced": {f"qa-{at}": "control" for at in range(1_001)}}, [("forced", "out_of_range")]),
        ({"salt": "s"}, [("salt", "unknown_field")]),
        ({"enabled": False}, [("enabled", "unknown_field")]),
    ]:
        errors = blamed_in({"rules": [experiment_rule(**more)]})
        assert errors == [(f"rules[0].{field}", code) for field, code in expected], more


def test_rule__without_what_it_needs__is_blamed() -> None:
    errors = blamed_in({"rules": [{"type": "experiment"}]})
    assert errors == [("rules[0].experiment", "required"), ("rules[0].variants", "required")]


@pytest.mark.parametrize(
    ("variants", "expected"),
    [
        ([{**VALUED[0], "serves": True}, VALUED[1]], [("rules[0].variants[0].serves", "invalid_type")]),
        ([{**VALUED[0], "serves": "pink"}, VALUED[1]], [("rules[0].variants[0].serves", "unknown_reference")]),
    ],
)
def test_rule__of_a_flag_with_variants__serves_these(variants: Any, expected: Any) -> None:
    assert blamed_in({"rules": [experiment_rule(variants=variants)], **COLOURS}) == expected


def test_rule__other_types__have_none_of_its_fields() -> None:
    rule = {"type": "percentage", "percentage": 1, "experiment": "e", "variants": [], "group": {}, "forced": {}}
    names = ("experiment", "variants", "group", "forced")
    assert blamed_in({"rules": [rule]}) == [(f"rules[0].{name}", "unknown_field") for name in names]


def test_references__conditions_of_its_audience__name_segments() -> None:
    rule = experiment_rule(conditions=[{"operator": "inSegment", "value": "beta"}])
    assert list(references({"rules": [rule]})) == [Reference("segment", "beta", "rules[0].conditions[0].value")]


# --- what it serves to which users -----------------------------------------------------------------------------------


def test_rule__everybody__is_served_what_the_published_split_says() -> None:
    configuration = driven(experiment_rule(), {"type": "percentage", "percentage": 0})
    for user_id in USERS:
        variant = variant_by_hash(user_id)
        expected = Evaluation(SERVES[variant], Reason.RULE_MATCH, None, Participation("checkout", variant))
        assert answer(configuration, user_id) == expected
    assert {variant_by_hash(user_id) for user_id in USERS} == {"control", "treatment"}


def test_rule__participation__is_not_in_the_answer() -> None:
    configuration = driven(experiment_rule(is_plain=False), **COLOURS)
    evaluation = answer(configuration, "user-1")
    assert evaluation.participation is not None
    assert evaluation.answer.keys() == {"enabled", "reason", "variant", "value"}
    assert evaluation.outcome == evaluation.variant


def test_rule__user_outside_the_audience__goes_on_to_the_next_rule() -> None:
    for more, is_in in [
        ({"percentage": 30}, lambda user_id: reference_bucket("checkout", user_id) < 30_000),
        (
            {"group": {"key": "g", "from": 20, "to": 60}},
            lambda user_id: 20_000 <= reference_bucket("g", user_id) < 60_000,
        ),
        ({"conditions": [PRO]}, lambda _: False),
    ]:
        configuration = driven(experiment_rule(**more), {"type": "users", "userIds": [*USERS[:50]]})
        for at, user_id in enumerate(USERS):
            evaluation = answer(configuration, user_id)
            if is_in(user_id):
                assert evaluation.participation == Participation("checkout", variant_by_hash(user_id)), (more, is_in)
            elif at < 50:
                assert evaluation == Evaluation(True, Reason.RULE_MATCH), (more, is_in)
            else:
                assert evaluation == Evaluation(False, Reason.NO_RULE_MATCH), (more, is_in)


def test_rule__user_whom_an_earlier_rule_matches__is_not_in_the_experiment() -> None:
    configuration = driven({"type": "users", "userIds": [*USERS[:50]]}, experiment_rule())
    for user_id in USERS[:50]:
        assert answer(configuration, user_id, {"checkout": "control"}) == Evaluation(True, Reason.RULE_MATCH)
    assert all(answer(configuration, user_id).participation for user_id in USERS[50:])


def test_rule__forced_user__sees_the_forced_variant_and_is_not_in_the_experiment() -> None:
    configuration = driven(experiment_rule(forced={"qa": "treatment"}, percentage=0))
    assert answer(configuration, "qa", {"checkout": "control"}) == Evaluation(True, Reason.RULE_MATCH)


def test_rule__stored_variant__stays_whatever_the_audience_is_now() -> None:
    configuration = driven(experiment_rule(percentage=0, conditions=[PRO]))
    for variant, is_on in SERVES.items():
        expected = Evaluation(is_on, Reason.RULE_MATCH, None, Participation("checkout", variant))
        assert answer(configuration, "user-1", {"checkout": variant}) == expected
    assert answer(configuration, "user-1", {"other": "treatment"}) == Evaluation(True, Reason.DEFAULT)


def test_rule__stored_variant_that_there_is_not__serves_control() -> None:
    assert answer(driven(experiment_rule()), "user-1", {"checkout": "gone"}) == Evaluation(False, Reason.RULE_MATCH)


def test_rule__flag_that_is_off__has_no_participation() -> None:
    configuration = driven(experiment_rule(), enabled=False)
    assert answer(configuration, "user-1") == Evaluation(False, Reason.DISABLED)
    assert configuration.experiments == {}


def test_rule__condition_that_the_clock_changes__is_known_to_the_timetable() -> None:
    configuration = driven(experiment_rule(conditions=[{"attribute": "joined", "operator": "after", "value": "-7d"}]))
    asked = context(configuration, "user-1", joined=format_timestamp(NOW))
    assert configuration.schedule.next_change_for(asked) is not None


# --- which flags go by which experiments -----------------------------------------------------------------------------


def test_experiments__flags_and_those_that_need_them__are_reported_by_key() -> None:
    configuration = among(
        {"key": "driven", "rules": [experiment_rule("one")]},
        {"key": "needing", "prerequisites": [{"flag": "driven"}]},
        {"key": "both", "rules": [experiment_rule("two")], "prerequisites": [{"flag": "needing"}]},
        {"key": "plain"},
        {"key": "apart", "prerequisites": [{"flag": "plain"}]},
    )
    expected = {"driven": {"one"}, "needing": {"one"}, "both": {"one", "two"}}
    assert configuration.experiments == expected
    assert among({"key": "plain"}, {"key": "apart", "prerequisites": [{"flag": "plain"}]}).experiments == {}


# --- anonymous users -------------------------------------------------------------------------------------------------


def test_resolve__anonymous_user__gets_what_all_users_are_served() -> None:
    for more, is_on in [
        ({"variants": [{**variant, "serves": True} for variant in TWO]}, True),
        ({"variants": [{**variant, "serves": False} for variant in TWO], "conditions": [PRO]}, False),
        ({"variants": [{**TWO[0], "weight": 0}, TWO[1]]}, True),
        ({"variants": [{**TWO[0], "weight": 0}, TWO[1]], "group": {"key": "g", "from": 0, "to": 100}}, True),
    ]:
        configuration = driven(experiment_rule(**more))
        evaluation, rule = resolve(configuration.flags["f"], context(configuration, "", plan="pro"))
        assert evaluation == Evaluation(is_on, Reason.RULE_MATCH), (more, is_on)
        assert rule is configuration.flags["f"].rules[0], (more, is_on)


def test_resolve__anonymous_user_whom_no_hash_can_include__goes_on_to_the_next_rule() -> None:
    for more in [
        {"percentage": 0},
        {"conditions": [{**PRO, "value": "free"}]},
        {"conditions": [{**PRO, "value": "free"}], "percentage": 50, "group": {"key": "g", "from": 0, "to": 50}},
        {"percentage": 0, "group": {"key": "g", "from": 0, "to": 50}},
    ]:
        configuration = driven(experiment_rule(**more), {"type": "percentage", "percentage": 100})
        evaluation, rule = resolve(configuration.flags["f"], context(configuration, "", plan="pro"))
        assert evaluation == Evaluation(True, Reason.RULE_MATCH), more
        assert rule is configuration.flags["f"].rules[1], more


def test_resolve__anonymous_user__is_refused_if_the_hash_decides(subtests: pytest.Subtests) -> None:
    for more in [
        {},
        {"conditions": [PRO]},
        {"percentage": 99.999, "variants": [{**variant, "serves": True} for variant in TWO]},
        {"variants": [{**TWO[0], "weight": 0}, TWO[1]], "percentage": 99.999},
        {"variants": [{**TWO[0], "weight": 0}, TWO[1]], "group": {"key": "g", "from": 0, "to": 50}},
    ]:
        with subtests.test(more=more):
            configuration = driven(experiment_rule(**more))
            with pytest.raises(TargetingKeyMissing):
                resolve(configuration.flags["f"], context(configuration, "", plan="pro"))


# --- why -------------------------------------------------------------------------------------------------------------


def explained(configuration: Configuration, *who: Any, **attributes: Any) -> Any:
    trace = explain(configuration.flags["f"], context(configuration, *who, **attributes)).as_json()
    assert trace["rules"][0]["matches"] == trace["rules"][0]["isServed"]
    return trace["rules"][0]


def test_explain__user_of_the_audience__tells_each_step_and_the_split() -> None:
    rule = experiment_rule(conditions=[PRO], group={"key": "g", "from": 0, "to": 100}, percentage=50)
    user_id = next(user_id for user_id in USERS if reference_bucket("checkout", user_id) < 50_000)
    trace = explained(driven(rule), user_id, plan="pro")
    assert trace["assignment"] == {
        "experiment": "checkout",
        "variant": variant_by_hash(user_id),
        "inExperiment": True,
        "split": [{"variant": "control", "weight": 50}, {"variant": "treatment", "weight": 50}],
        "salt": "checkout:variant",
        "bucket": reference_bucket("checkout:variant", user_id),
        "steps": [
            {
                "test": "range",
                "from": 0,
                "to": 100,
                "salt": "g",
                "bucketed": user_id,
                "bucket": reference_bucket("g", user_id),
                "passed": True,
            },
            {"test": "condition", **PRO, "actual": "pro", "passed": True},
            {
                "test": "share",
                "percentage": 50,
                "threshold": 50_000,
                "salt": "checkout",
                "bucketed": user_id,
                "bucket": reference_bucket("checkout", user_id),
                "passed": True,
            },
        ],
    }
    assert trace["serves"] == {"enabled": SERVES[variant_by_hash(user_id)]}


def test_explain__excluded_user__has_the_reason() -> None:
    for more, reason in [
        ({"forced": {"user-1": "treatment"}}, "forced"),
        ({"group": {"key": "g", "from": 0, "to": 0.001}}, "not_in_group"),
        ({"conditions": [PRO]}, "not_targeted"),
        ({"percentage": 0}, "not_in_traffic"),
    ]:
        assignment = explained(driven(experiment_rule(**more)), "user-1")["assignment"]
        assert (assignment["inExperiment"], assignment["reason"]) == (False, reason), more
        assert assignment["variant"] == ("treatment" if reason == "forced" else "control"), more


@pytest.mark.parametrize("forced", [{}, {"user-1": "treatment"}])
def test_explain__user_who_does_not_reach_the_rule__has_the_reason_of_the_flag(forced: Any) -> None:
    first, needed = {"type": "percentage", "percentage": 100}, [{"flag": "gone"}]
    rule = experiment_rule(forced=forced, percentage=0)
    for reason, configuration in {
        "served_by_rule": driven(first, rule),
        "disabled": driven(rule, enabled=False),
        "prerequisite_failed": driven(rule, prerequisites=needed),
    }.items():
        trace = explain(configuration.flags["f"], context(configuration, "user-1")).as_json()
        assignment = trace["rules"][-1]["assignment"]
        assert (assignment["inExperiment"], assignment["reason"]) == (False, reason)
        assert assignment["variant"] == "control"
        assert not trace["rules"][-1]["isServed"]


def test_explain__stored_variant__is_shown() -> None:
    assignment = explained(driven(experiment_rule(percentage=0)), "user-1", {"checkout": "treatment"})["assignment"]
    assert (assignment["variant"], assignment["inExperiment"], assignment["stored"]) == ("treatment", True, "treatment")
