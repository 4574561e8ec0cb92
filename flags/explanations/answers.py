"""Evaluations and their explanations as JSON structs. `tracing` makes the explanations."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, field

from config.answers import Answer, Count, Key, Moment, described, one_of
from flags.engine.assignment import Exclusion
from flags.engine.bucketing import BUCKETS
from flags.engine.operators import OPERATORS
from flags.engine.types import Reason, RuleType
from flags.validation.shapes import MAX_WEIGHT

_ON = "Whether the flag is on for the user. For a flag of type boolean, this is the value served."
_REASONS = (
    "Why. `disabled`: the flag is off in this environment, or archived. `prerequisite_failed`: a flag that it needs is "
    "not on for the user. `rule_match`: this is the first rule that matches the user. `no_rule_match`: no rule "
    "matches. `default`: the flag is on and has no rules, apart from that of an experiment."
)
_Enabled = Annotated[bool, described(_ON)]
_Reason = Annotated[str, one_of(Reason), described(_REASONS)]
_Variant = Annotated[Key | UnsetType, described("The variant served, if the flag has variants.")]
_Value = Annotated[Any, described("The value of the variant served, if the flag has variants.")]
_Salt = Annotated[str, described("The salt of the hash.")]
_Bucket = Annotated[int, Meta(ge=0, le=BUCKETS - 1)]


class SplitPart(Answer):
    """A variant of the flag and its weight in a split."""

    variant: Key
    weight: Annotated[float, Meta(ge=0, le=MAX_WEIGHT), described("Relative to the sum of all weights.")]


_Split = Annotated[list[SplitPart], described("The variants among which the bucket chooses, in order.")]


class Evaluation(Answer):
    """The evaluation of a flag for a user, with its reason."""

    enabled: _Enabled
    reason: _Reason
    variant: _Variant = UNSET
    value: _Value = UNSET


class Step(Answer, tag_field="test", tag=lambda name: name.removesuffix("Step").lower()):
    """A test of a rule, with the data that it compared. `test` names the kind of test."""

    passed: Annotated[bool, described("Whether the user passes the test.")]


class EnabledStep(Step):
    """Whether the rule is on. This step appears only if the rule is off, so the user never passes
    it.
    """


class ScheduleStep(Step, kw_only=True):
    """Whether the rule is in force: from `startAt`, and before `endAt`."""

    start_at: Annotated[Moment | UnsetType, described("The start, if the rule has one.")] = UNSET
    end_at: Annotated[Moment | UnsetType, described("The end, if the rule has one.")] = UNSET
    now: Annotated[Moment, described("The time of the evaluation.")]


class UsersStep(Step):
    """Whether the rule lists the user id."""

    actual: Annotated[str, described("The user id.")]
    user_count: Annotated[Count, described("The number of user ids that the rule lists.")]


class ExplainedSegment(Answer):
    """The segment that the condition asks for."""

    segment: Annotated[Key, described("The key of the segment.")]
    is_member: Annotated[bool, described("Whether the user is a member of the segment.")]
    exists: Annotated[bool | UnsetType, described("False if there is no such segment, and left out otherwise.")] = UNSET
    is_listed: Annotated[bool | UnsetType, described("Whether `userIds` of the segment has the user id.")] = UNSET
    conditions: Annotated[
        list[ConditionStep] | UnsetType,
        described("The conditions of the segment. They are shown only where the segment first appears."),
    ] = UNSET


class SegmentStep(ExplainedSegment, tag_field="test", tag="segment", kw_only=True):
    """Whether the user is a member of the segment that the rule names."""

    passed: Annotated[bool, described("Whether the user passes the test.")]


class ConditionStep(Step, kw_only=True):
    """Whether an attribute of the user meets a condition."""

    attribute: Annotated[str | UnsetType, described("The attribute, as the condition names it.")] = UNSET
    operator: Annotated[str, one_of(OPERATORS), described("The operator of the condition.")]
    value: Annotated[Any, described("The value of the condition: any JSON.")] = UNSET
    ignore_case: Annotated[bool | UnsetType, described("As in the condition.")] = UNSET
    negate: Annotated[bool | UnsetType, described("As in the condition.")] = UNSET
    actual: Annotated[
        Any,
        described("The user's value. It is left out if the user has none; if it is long, only the beginning is shown."),
    ] = UNSET
    segment: Annotated[ExplainedSegment | UnsetType, described("The segment that `inSegment` asks for.")] = UNSET


class ShareStep(Step):
    """Whether the user is in the share of the audience."""

    percentage: Annotated[float, described("The share at that time, in percent.")]
    threshold: Annotated[Count, described("Users in buckets below the threshold pass.")]
    salt: _Salt
    bucket_by: Annotated[str | UnsetType, described("The attribute that is hashed instead of the user id.")] = UNSET
    bucketed: Annotated[
        str | UnsetType, described("What was hashed. It is left out if the user has no such attribute.")
    ] = UNSET
    bucket: Annotated[_Bucket | UnsetType, described("The user's bucket.")] = UNSET


class RangeStep(Step):
    """Whether the user is in a range of buckets, such as the experiment's part of a group."""

    start: Annotated[float, described("The start of the range, in percent.")] = field(name="from")
    end: Annotated[float, described("The end of the range, in percent.")] = field(name="to")
    salt: Annotated[str, described("The salt of the hash. For a group, this is its key.")]
    bucket_by: Annotated[str | UnsetType, described("The attribute that is hashed instead of the user id.")] = UNSET
    bucketed: Annotated[
        str | UnsetType, described("What was hashed. It is left out if the user has no such attribute.")
    ] = UNSET
    bucket: Annotated[_Bucket | UnsetType, described("The user's bucket.")] = UNSET


RuleStep = EnabledStep | ScheduleStep | UsersStep | SegmentStep | ConditionStep | RangeStep | ShareStep


class ExplainedAssignment(Answer, kw_only=True):
    """How the experiment of the rule assigns the user: whether the user is in it, and with which variant."""

    experiment: Annotated[Key, described("The key of the experiment.")]
    variant: Annotated[Key, described("The variant of the experiment.")]
    in_experiment: Annotated[bool, described("Whether the experiment counts the user.")]
    reason: Annotated[str | UnsetType, one_of(Exclusion), described("Why the user is not in the experiment.")] = UNSET
    stored: Annotated[Key | UnsetType, described("The variant that the user saw before, which stays.")] = UNSET
    split: _Split
    salt: _Salt
    bucket: Annotated[_Bucket, described("The user's bucket in the split.")]
    steps: Annotated[
        list[RuleStep],
        described(
            "The tests of the audience, in order. Users with a stored or a forced variant need not pass them. For all "
            "others, the first that fails is the reason why they are not in the experiment."
        ),
    ]


class ExplainedServing(Answer):
    """What the rule serves to this user."""

    enabled: _Enabled
    variant: _Variant = UNSET
    value: _Value = UNSET
    split: Annotated[_Split | UnsetType, described("The split of the rule, if it has one.")] = UNSET
    salt: Annotated[str | UnsetType, described("The salt of the split's hash.")] = UNSET
    bucket: Annotated[_Bucket | UnsetType, described("The user's bucket in the split.")] = UNSET


class ExplainedRule(Answer, kw_only=True):
    """A rule, with each of its tests. `serves` is left out if the rule does not match."""

    index: Annotated[Count, described("The position of the rule, from 0.")]
    type: Annotated[str, one_of(RuleType), described("The type of the rule.")]
    name: Annotated[str | UnsetType, described("The name of the rule, if it has one.")] = UNSET
    matches: Annotated[bool, described("Whether the user passes every test.")]
    is_served: Annotated[bool, described("Whether this rule decides. Rules after it may match too.")]
    steps: Annotated[list[RuleStep], described("The tests, in order.")]
    assignment: Annotated[ExplainedAssignment | UnsetType, described("For a rule of an experiment.")] = UNSET
    serves: Annotated[ExplainedServing | UnsetType, described("What the rule serves, if it matches.")] = UNSET


class ExplainedPrerequisite(Answer, kw_only=True):
    """A flag that this flag needs, evaluated for the same user. There is no evaluation if the flag does not exist."""

    flag: Annotated[Key, described("The key of the other flag.")]
    variants: Annotated[list[Key] | UnsetType, described("The variants that will do; any, if left out.")] = UNSET
    enabled: Annotated[bool | UnsetType, described(_ON)] = UNSET
    reason: Annotated[str | UnsetType, one_of(Reason), described(_REASONS)] = UNSET
    variant: _Variant = UNSET
    value: _Value = UNSET
    is_met: Annotated[bool, described("Whether the prerequisite is met.")]


class Trace(Answer, kw_only=True):
    """The evaluation of a flag, with every step that led to it."""

    flag: Annotated[Key, described("The key of the flag.")]
    enabled: _Enabled
    reason: _Reason
    variant: _Variant = UNSET
    value: _Value = UNSET
    is_enabled: Annotated[bool, described("Whether the flag itself is on, and not archived.")]
    prerequisites: Annotated[list[ExplainedPrerequisite], described("The flags that this flag needs, in order.")]
    rules: Annotated[list[ExplainedRule], described("All rules, in order, also those after the one that decides.")]
