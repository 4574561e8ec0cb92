"""The compiled rule of an experiment that drives a flag.

The rule matches the experiment's audience and users with a forced or stored variant. It serves what the flag has for
the user's variant. Other users go on to the flag's next rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .assignment import Assigned, compile_assignment, compile_audience
from .conditions import Condition
from .rules import rule_match
from .timetable import combine
from .types import Context, Evaluation, Participation, Reason, Rule, Variant

Answers = Mapping[str, Evaluation]
"""The flag's answers by the experiment's variants."""


@dataclass(frozen=True, slots=True)
class ExperimentRule(Rule):
    """The compiled rule of an experiment.

    `assign`: returns the user's variant, which determines the answer.
    `steps`: the tests of the audience, for explanations. `tests` only calls `assign`, because users with a forced or
    stored variant need not pass the steps.
    `outside`: the answers for users who do not take part.
    """

    assign: Callable[[Context], Assigned] = field(compare=False, repr=False)
    outside: Answers = field(compare=False, repr=False)

    def serve_anonymous(self) -> Evaluation | None:
        """Return the answer for an anonymous user in the audience, or None if it depends on the hash of a user id."""
        answers = [self.outside[variant["key"]] for variant in self.source["variants"] if variant["weight"]]
        return answers[0] if all(answer == answers[0] for answer in answers) else None


def compile_experiment_rule(source: Mapping[str, Any], *, index: int, variants: Mapping[str, Variant]) -> Rule:
    """Compile a rule that has passed its check. `variants` are those of the flag."""
    steps, assign = compile_audience(source), compile_assignment(source)
    outside = {variant["key"]: _answer(variant["serves"], variants) for variant in source["variants"]}
    return ExperimentRule(
        source=source,
        salt=source["experiment"],
        index=index,
        is_split=True,
        times=combine(step.times for step in steps if isinstance(step, Condition)),
        steps=steps,
        tests=(lambda context: assign(context).is_in_audience,),
        serve=_compile_serving(source, assign, outside),
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
        # Only a manual edit of the database stores a variant that the experiment does not have.
        return answers.get(assigned.variant) or outside[control]

    return serve
