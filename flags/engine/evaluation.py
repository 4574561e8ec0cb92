"""The one evaluator: what a flag is for a user, and why. It decides from compiled flags and the hash alone.

Not here: reading rules, the clock, storage, or the shape of an answer on the wire.
"""

from __future__ import annotations

from flags.engine.bucketing import BUCKETS, bucket
from flags.engine.types import Attributes, Evaluation, Flag, Reason, Rule

DISABLED = Evaluation(False, Reason.DISABLED)
DEFAULT = Evaluation(True, Reason.DEFAULT)
RULE_MATCH = Evaluation(True, Reason.RULE_MATCH)
NO_RULE_MATCH = Evaluation(False, Reason.NO_RULE_MATCH)


def compile_flag(key: str, enabled: bool, rules: tuple[Rule, ...]) -> Flag:
    """Return the flag as `evaluate` takes it. `rules` are parsed ones, in the order in which they are tried."""
    return Flag(key, enabled, rules)


def evaluate(flag: Flag, user_id: str, attributes: Attributes) -> Evaluation:
    """Return one of the four shared answers. Rules are tried in order; the first that takes the user in decides.

    `user_id` has 1 to 200 characters; it is also the attribute `userId`, whatever the caller sends under that name.
    Attributes of any type are fine: one that is missing or of the wrong type matches nothing, and nothing is raised.
    """
    if not flag.enabled:
        return DISABLED
    if not flag.rules:
        return DEFAULT
    for rule in flag.rules:
        if _in_audience(rule, user_id, attributes) and _in_share(rule, flag.key, user_id):
            return RULE_MATCH
    return NO_RULE_MATCH


def _in_audience(rule: Rule, user_id: str, attributes: Attributes) -> bool:
    if rule.user_ids is not None and user_id not in rule.user_ids:
        return False
    for condition in rule.conditions:
        name = condition.attribute
        if not condition.matches(user_id if name == "userId" else attributes.get(name)):
            return False
    return True


def _in_share(rule: Rule, salt: str, user_id: str) -> bool:
    # The whole audience needs no hash.
    return rule.threshold == BUCKETS or bucket(salt, user_id) < rule.threshold
