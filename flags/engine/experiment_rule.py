"""The rule of an experiment that drives a flag: its checks, and its compiled form.

The rule matches every user and serves what the user's variant stands for. `assignment` assigns the
variants.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from config.errors import Detail, DetailCode
from flags.engine.assignment import Assigned, compile_assignment
from flags.engine.bucketing import BUCKETS, threshold
from flags.engine.conditions import Condition, check_conditions, compile_condition
from flags.engine.rules import rule_match
from flags.engine.shapes import (
    MOST_VARIANTS,
    Check,
    check_choice,
    check_distinct,
    check_key,
    check_list,
    check_name,
    check_object,
    check_percentage,
    check_weight,
    check_weights,
    echo,
    unknown_variant,
    variant_keys,
)
from flags.engine.timetable import combine
from flags.engine.types import Context, Evaluation, Participation, Reason, Rule, RuleType, Variant

MOST_FORCED = 1_000
_EXAMPLE = '{"key": "treatment", "weight": 50, "serves": true}'
_GROUP = '{"key": "checkout", "from": 0, "to": 50}'


def check_experiment_rule(rule: object, field: str, variants: Collection[str]) -> Iterator[Detail]:
    """Accept the rule of an experiment that drives a flag with variants of these keys, or without variants."""

    def check_variants(value: object, variants_field: str) -> Iterator[Detail]:
        return _check_variants(value, variants_field, variants)

    def check_forced_variants(value: object, forced_field: str) -> Iterator[Detail]:
        return check_forced(value, forced_field, variant_keys(rule.get("variants")) if isinstance(rule, dict) else ())

    checks: Mapping[str, Check] = {
        "type": _check_type,
        "experiment": check_key,
        "variants": check_variants,
        "percentage": check_percentage,
        "conditions": check_conditions,
        "group": check_group,
        "forced": check_forced_variants,
    }
    yield from check_object(rule, field, checks=checks, required=("type", "experiment", "variants"), example=_EXAMPLE)


def check_group(value: object, field: str) -> Iterator[Detail]:
    """Accept a part of a group of experiments: its key, and a range in percent, which does not include `to`."""
    checks = {"key": check_key, "from": check_percentage, "to": check_percentage}
    details = list(check_object(value, field, checks=checks, required=checks, example=_GROUP))
    yield from details
    if not details and isinstance(value, dict) and value["from"] >= value["to"]:
        yield Detail(f"{field}.to", DetailCode.OUT_OF_RANGE, "Must be more than from.")


def check_forced(value: object, field: str, variants: Collection[str]) -> Iterator[Detail]:
    """Accept an object of variants by user id, of an experiment with variants of these keys."""
    if not isinstance(value, dict):
        yield Detail(
            field, DetailCode.INVALID_TYPE, 'Must be an object of variants by user id, such as {"qa-1": "green"}.'
        )
    elif len(value) > MOST_FORCED:
        yield Detail(field, DetailCode.OUT_OF_RANGE, f"Must have at most {MOST_FORCED:,} users.")
    else:
        for user_id, variant in value.items():
            user_field = f"{field}.{echo(user_id)}"
            yield from check_name(user_id, user_field)
            if not isinstance(variant, str):
                yield Detail(user_field, DetailCode.INVALID_TYPE, "Must be a string.")
            elif variant not in variants:
                message = unknown_variant(variant, variants, of="experiment")
                yield Detail(user_field, DetailCode.UNKNOWN_REFERENCE, message)


def _check_type(value: object, field: str) -> Iterator[Detail]:
    return check_choice(value, field, noun="rule type", choices=[RuleType.EXPERIMENT.value])


def _check_variants(value: object, field: str, served: Collection[str]) -> Iterator[Detail]:
    def check_serves(value: object, serves_field: str) -> Iterator[Detail]:
        return _check_serves(value, serves_field, served)

    def check_variant(variant: object, variant_field: str) -> Iterator[Detail]:
        checks: Mapping[str, Check] = {"key": check_key, "weight": check_weight, "serves": check_serves}
        return check_object(variant, variant_field, checks=checks, required=checks, example=_EXAMPLE)

    details = list(check_list(value, field, least=2, most=MOST_VARIANTS, noun="variants", check=check_variant))
    yield from details
    if not details and isinstance(value, list):
        keys = [variant["key"] for variant in value]
        yield from check_distinct(keys, (f"{field}[{index}].key" for index in range(len(keys))))
        yield from check_weights([variant["weight"] for variant in value], field)


def _check_serves(value: object, field: str, served: Collection[str]) -> Iterator[Detail]:
    if not served:
        if not isinstance(value, bool):
            yield Detail(field, DetailCode.INVALID_TYPE, "Must be true or false, because the flag has no variants.")
    elif not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be the key of a variant, because the flag has variants.")
    elif value not in served:
        yield Detail(field, DetailCode.UNKNOWN_REFERENCE, unknown_variant(value, served))


Answers = Mapping[str, Evaluation]
"""The answers of the flag, by the variant of the experiment."""


@dataclass(frozen=True, slots=True)
class ExperimentRule(Rule):
    """A rule without tests. `assign` returns the variant of a user, which determines the answer.

    `conditions` are those of the experiment's audience. `outside` has the answers for users who
    do not count in the experiment.
    """

    conditions: tuple[Condition, ...] = field(compare=False, repr=False)
    assign: Callable[[Context], Assigned] = field(compare=False, repr=False)
    outside: Answers = field(compare=False, repr=False)

    def serve_anonymous(self, context: Context) -> Evaluation | None:
        """Return the answer for an anonymous user, or None if it depends on the hash of a user id."""
        answers = [self.outside[key] for key in self._possible_variants(context)]
        return answers[0] if all(answer == answers[0] for answer in answers) else None

    def _possible_variants(self, context: Context) -> list[str]:
        """Return the variants that users with these attributes may get, depending on their id."""
        control = self.source["variants"][0]["key"]
        group = self.source.get("group") or {"from": 0, "to": 100}
        share = threshold(self.source.get("percentage", 100))
        if share == 0 or not all(condition.test(context) for condition in self.conditions):
            return [control]
        is_whole = share == BUCKETS and (group["from"], group["to"]) == (0, 100)
        split = [variant["key"] for variant in self.source["variants"] if variant["weight"]]
        return split if is_whole else [control, *split]


def compile_experiment_rule(source: Mapping[str, Any], *, index: int, variants: Mapping[str, Variant]) -> Rule:
    """Return the compiled form of a rule that has passed its check. `variants` are those of the flag, if any."""
    conditions = tuple(map(compile_condition, source.get("conditions", ())))
    assign = compile_assignment(source)
    outside = {variant["key"]: _answer(variant["serves"], variants) for variant in source["variants"]}
    return ExperimentRule(
        source=source,
        salt=source["experiment"],
        index=index,
        is_split=True,
        times=combine(condition.times for condition in conditions),
        steps=(),
        tests=(),
        serve=_compile_serving(source, assign, outside),
        conditions=conditions,
        assign=assign,
        outside=outside,
    )


def _answer(serves: str | bool, variants: Mapping[str, Variant]) -> Evaluation:
    if isinstance(serves, bool):
        return Evaluation.of(serves, Reason.RULE_MATCH, None)
    return rule_match(variants[serves])


def _compile_serving(
    source: Mapping[str, Any], assign: Callable[[Context], Assigned], outside: Answers
) -> Callable[[Context], Evaluation]:
    key, control = source["experiment"], source["variants"][0]["key"]
    inside = {
        variant: replace(answer, participation=Participation(key, variant)) for variant, answer in outside.items()
    }

    def serve(context: Context) -> Evaluation:
        assigned = assign(context)
        answers = outside if assigned.exclusion else inside
        # A stored variant that the experiment does not have can only come from a manual edit of the
        # database.
        return answers.get(assigned.variant) or outside[control]

    return serve
