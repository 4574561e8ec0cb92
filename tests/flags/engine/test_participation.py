"""Who takes part in an experiment that drives a flag: assignment and evaluation agree on every user."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flags.engine.assignment import Exclusion
from flags.engine.evaluation import evaluate, matches
from flags.engine.participation import assign_by_flag
from flags.engine.types import Configuration, Context, Flag, Participation
from flags.validation.parsing import parse_flag
from tests.flags.engine.experiments import experiment_rule
from tests.flags.engine.strategies import NOW

PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
SERVES = {"control": False, "treatment": True}
USERS = [f"user-{number}" for number in range(8)]
OTHER_RULES = st.lists(
    st.sampled_from(
        [
            {"type": "percentage", "percentage": 30},
            {"type": "percentage", "percentage": 50, "serves": False},
            {"type": "attribute", "conditions": [PRO]},
            {"type": "users", "userIds": ["user-0", "user-1"], "serves": False},
            {"type": "percentage", "percentage": 100, "enabled": False},
        ]
    ),
    max_size=3,
)
EXPERIMENTS = st.fixed_dictionaries(
    {},
    optional={
        "percentage": st.sampled_from([0, 40, 99.999]),
        "conditions": st.just([PRO]),
        "group": st.sampled_from([{"key": "g", "from": 0, "to": 50}, {"key": "g", "from": 25, "to": 100}]),
        "forced": st.dictionaries(st.sampled_from(USERS), st.sampled_from(list(SERVES)), max_size=3),
    },
).map(lambda more: experiment_rule(**more))
STATES = st.sampled_from([{}, {}, {}, {"enabled": False}, {"prerequisites": [{"flag": "gone"}]}])


def compiled(rules: list[Any], state: dict[str, Any]) -> Flag:
    return parse_flag({"key": "f", "enabled": True, "rules": rules, **state})


@settings(derandomize=True, deadline=None, max_examples=400)
@given(OTHER_RULES, EXPERIMENTS, OTHER_RULES, STATES, st.booleans(), st.sampled_from([None, *SERVES]))
def test_assign_by_flag__any_user_position_and_audience__agrees_with_the_evaluation(
    before: list[Any], rule: Any, after: list[Any], state: dict[str, Any], is_pro: bool, stored: str | None
) -> None:
    flag, without = compiled([*before, rule, *after], state), compiled([*before, *after], state)
    configuration = Configuration({"f": flag}, {})
    for user_id in USERS:
        user = Context(user_id, {"plan": "pro"} if is_pro else {}, configuration, NOW)
        user.assigned = {"checkout": stored} if stored else {}
        evaluation, assigned = evaluate(flag, user), assign_by_flag(flag, "checkout", user)
        assert assigned is not None
        if assigned.exclusion is None:
            assert evaluation.participation == Participation("checkout", assigned.variant)
        else:
            assert evaluation.participation is None
        if assigned.is_in_audience:
            assert evaluation.enabled == SERVES[assigned.variant]
        else:
            assert assigned.variant == "control"
            assert replace(evaluation) == replace(evaluate(without, user))
        early = [earlier for earlier in flag.rules[: len(before)] if matches(earlier, user)]
        assert (assigned.exclusion is Exclusion.SERVED_BY_RULE) == (not state and bool(early))


def test_assign_by_flag__flag_that_another_experiment_drives__knows_nothing() -> None:
    flag = compiled([experiment_rule()], {})
    assert assign_by_flag(flag, "pricing", Context("user-1", {}, Configuration({"f": flag}, {}), NOW)) is None
