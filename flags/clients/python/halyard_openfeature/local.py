"""Evaluation in this process, with the engine of the service."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from openfeature.exception import FlagNotFoundError, ProviderNotReadyError, TargetingKeyMissingError
from openfeature.flag_evaluation import FlagMetadata, FlagResolutionDetails, FlagType

from .engine.evaluation import TargetingKeyMissing, resolve
from .engine.openfeature import experiment_variant, reason_of, value_of
from .engine.types import Context, Evaluation, Flag, Rule
from .ruleset import Ruleset
from .values import require_type


class LocalEvaluator:
    """Evaluates the newest ruleset. It is replaced as a whole, so evaluations need no lock."""

    def __init__(self) -> None:
        self.ruleset: Ruleset | None = None

    def resolve(
        self, flag_key: str, flag_type: FlagType, user_id: str, attributes: Mapping[str, Any]
    ) -> FlagResolutionDetails[Any]:
        """Evaluate a flag for a user. Raises OpenFeatureError."""
        ruleset = self.ruleset
        if ruleset is None:
            raise ProviderNotReadyError("There is no ruleset yet: the service has not answered.")
        flag = ruleset.configuration.flags.get(flag_key)
        if flag is None:
            raise FlagNotFoundError(f"No flag has the key {flag_key!r}.")
        context = Context(user_id, attributes, ruleset.configuration, datetime.now(UTC))
        try:
            evaluation, rule = resolve(flag, context)
        except TargetingKeyMissing:
            raise TargetingKeyMissingError("This flag is on for a share of the users; send a targeting key.") from None
        value, variant = value_of(flag, evaluation)
        require_type(flag_key, value, flag_type)
        return FlagResolutionDetails(
            value=copy.deepcopy(value) if flag_type is FlagType.OBJECT else value,
            reason=reason_of(flag, evaluation, rule, context),
            variant=variant,
            flag_metadata=_metadata(ruleset, flag, evaluation, rule, user_id),
        )


def _metadata(ruleset: Ruleset, flag: Flag, evaluation: Evaluation, rule: Rule | None, user_id: str) -> FlagMetadata:
    """Return the metadata that the service would answer."""
    metadata: dict[str, bool | int | float | str] = {
        "flagSetId": ruleset.environment,
        "revision": ruleset.revision,
        "version": str(flag.version),
        "reason": evaluation.reason.value,
    }
    if rule is not None:
        metadata["rule"] = rule.index
        if "name" in rule.source:
            metadata["ruleName"] = rule.source["name"]
    if flag.driver is not None:
        metadata["experiment"] = flag.driver
        metadata["inExperiment"] = evaluation.participation is not None
        if (seen := experiment_variant(evaluation, rule, user_id)) is not None:
            metadata["experimentVariant"] = seen
    return metadata
