"""The rule of an experiment that drives a flag: it takes everybody in, and serves what the variant of each stands for.

Not here: who is in the experiment, with which variant (`assignment`), and how the rule may be written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flags.engine.assignment import Assigned, compile_assignment
from flags.engine.bucketing import BUCKETS, threshold
from flags.engine.conditions import Condition, compile_condition
from flags.engine.rules import rule_match
from flags.engine.timetable import together
from flags.engine.types import Context, Evaluation, Participation, Reason, Rule, Variant

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

    def serve_anybody(self, context: Context) -> Evaluation | None:
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
        times=together(condition.times for condition in conditions),
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
