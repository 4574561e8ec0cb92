"""What the rule that an experiment writes may be: a check for each of its fields, and for what they say together.

Not here: what the rule means (`experiment_rules`), and whose it is.


The rule of an experiment that drives a flag: it takes everybody in, and serves what the variant of each stands for.

Not here: who is in the experiment, with which variant (`assignment`), and how the rule may be written.
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
    """Take the rule of an experiment that drives a flag with variants of these keys, or with none."""

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
    """Take a part of a group of experiments: its key, and the range in percent, `to` itself not included."""
    checks = {"key": check_key, "from": check_percentage, "to": check_percentage}
    found = list(check_object(value, field, checks=checks, required=checks, example=_GROUP))
    yield from found
    if not found and isinstance(value, dict) and value["from"] >= value["to"]:
        yield Detail(f"{field}.to", DetailCode.OUT_OF_RANGE, "Must be more than from.")


def check_forced(value: object, field: str, variants: Collection[str]) -> Iterator[Detail]:
    """Take an object of variants by user id, of an experiment with variants of these keys."""
    if not isinstance(value, dict):
        yield Detail(field, DetailCode.INVALID_TYPE, 'Must be an object of variants by user id, as {"qa-1": "green"}.')
    elif len(value) > MOST_FORCED:
        yield Detail(field, DetailCode.OUT_OF_RANGE, f"Must have at most {MOST_FORCED:,} users.")
    else:
        for user_id, variant in value.items():
            at = f"{field}.{echo(user_id)}"
            yield from check_name(user_id, at)
            if not isinstance(variant, str):
                yield Detail(at, DetailCode.INVALID_TYPE, "Must be a string.")
            elif variant not in variants:
                yield Detail(at, DetailCode.UNKNOWN_REFERENCE, unknown_variant(variant, variants, of="experiment"))


def _check_type(value: object, field: str) -> Iterator[Detail]:
    return check_choice(value, field, noun="rule type", choices=[RuleType.EXPERIMENT.value])


def _check_variants(value: object, field: str, served: Collection[str]) -> Iterator[Detail]:
    def check_serves(value: object, serves_field: str) -> Iterator[Detail]:
        return _check_serves(value, serves_field, served)

    def check_variant(variant: object, variant_field: str) -> Iterator[Detail]:
        checks: Mapping[str, Check] = {"key": check_key, "weight": check_weight, "serves": check_serves}
        return check_object(variant, variant_field, checks=checks, required=checks, example=_EXAMPLE)

    found = list(check_list(value, field, least=2, most=MOST_VARIANTS, noun="variants", check=check_variant))
    yield from found
    if not found and isinstance(value, list):
        yield from check_distinct([each["key"] for each in value], (f"{field}[{at}].key" for at in range(len(value))))
        yield from check_weights([each["weight"] for each in value], field)


def _check_serves(value: object, field: str, served: Collection[str]) -> Iterator[Detail]:
    if not served:
        if not isinstance(value, bool):
            yield Detail(field, DetailCode.INVALID_TYPE, "The flag has no variants; must be true or false.")
    elif not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be the key of a variant of the flag, which has some.")
    elif value not in served:
        yield Detail(field, DetailCode.UNKNOWN_REFERENCE, unknown_variant(value, served))


Answers = Mapping[str, Evaluation]
"""By the variant of the experiment, what the flag is."""


@dataclass(frozen=True, slots=True)
class ExperimentRule(Rule):
    """A rule without tests of its own: `assign` tells the variant of a user, and all are served what it stands for.

    `conditions` are those of the experiment's audience. `outside` are the answers to who is not in the experiment.
    """

    conditions: tuple[Condition, ...] = field(compare=False, repr=False)
    assign: Callable[[Context], Assigned] = field(compare=False, repr=False)
    outside: Answers = field(compare=False, repr=False)

    def serve_anonymous(self, context: Context) -> Evaluation | None:
        """Return the answer to a user that nobody knows by name; None where only the hash of a user id could tell."""
        answers = [self.outside[key] for key in self._possible(context)]
        return answers[0] if all(answer == answers[0] for answer in answers) else None

    def _possible(self, context: Context) -> list[str]:
        """The variants that some user with these attributes would get, whatever the id."""
        control = self.source["variants"][0]["key"]
        group = self.source.get("group") or {"from": 0, "to": 100}
        reached = threshold(self.source.get("percentage", 100))
        if reached == 0 or not all(condition.test(context) for condition in self.conditions):
            return [control]
        is_whole = reached == BUCKETS and (group["from"], group["to"]) == (0, 100)
        split = [each["key"] for each in self.source["variants"] if each["weight"]]
        return split if is_whole else [control, *split]


def compile_experiment_rule(source: Mapping[str, Any], *, index: int, variants: Mapping[str, Variant]) -> Rule:
    """Return the compiled form of a rule that passes its check, of a flag that has these variants, or none."""
    conditions = tuple(map(compile_condition, source.get("conditions", ())))
    assign = compile_assignment(source)
    outside = {each["key"]: _answer(each["serves"], variants) for each in source["variants"]}
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
        # A variant that the experiment does not have can only have been stored by hand.
        return answers.get(assigned.variant) or outside[control]

    return serve
