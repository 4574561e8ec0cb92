"""Evaluate flags for a request of OFREP, in the views and in the fast lane.

Only flags that an experiment drives need the database, for the user's stored variant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
from django.conf import settings
from django.http import HttpRequest
from msgspec import UNSET

from config.api.authentication import Caller
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import Scope
from config.serving.fast_lane import Call, Reply
from config.slugs import NAME_LENGTH
from flags import exposures, snapshot
from flags.engine.types import Attributes, Context, Flag
from flags.ofrep import client_state
from flags.ofrep.answers import (
    CommonMetadata,
    OfrepEvaluation,
    OfrepEvaluations,
    OfrepEvaluationsMetadata,
    answer_flag,
    answer_flags,
)
from flags.ofrep.client_state import Offer, etag, matches
from flags.snapshot import flag_not_found
from flags.usage import counting

TARGETING_KEY = "targetingKey"
CONTEXT = "context"
FILTER = "flags"


def context_of(body: object, caller: Caller, now: datetime) -> Context:
    """Return the user of a body. Raises DomainError or ValidationFailed."""
    user_id, attributes = read_user(body)
    return Context(user_id, attributes, snapshot.configuration(caller.environment.key), now)


def evaluate_one(context: Context, flag_key: str, caller: Caller) -> OfrepEvaluation:
    """Evaluate a flag for a user, count the evaluation, and record the exposure to an experiment, if any.

    Raises DomainError `flag_not_found`, or TargetingKeyMissing.
    """
    environment = caller.environment
    if context.configuration.experiments:
        exposures.load_assignments(environment, context, [flag_key])
    answer = _evaluate(context, flag_key, caller)
    if context.evaluations[flag_key].participation is not None:
        evaluate = partial(_evaluate, flag_key=flag_key, caller=caller)
        answer, context, is_left_out = exposures.record_exposure(environment, context, flag_key, answer, evaluate)
        if is_left_out:
            answer.metadata.in_experiment = False
    counting.count(environment, context)
    return answer


def _evaluate(context: Context, flag_key: str, caller: Caller) -> OfrepEvaluation:
    configuration = context.configuration
    flag = snapshot.flags_for(caller.scope, configuration).get(flag_key)
    if flag is None:
        raise flag_not_found(flag_key)
    facts = CommonMetadata(caller.environment.key, configuration.revision)
    return answer_flag(flag, context, facts, shows_rules=_shows_rules(caller))


class EvaluationOfAll:
    """The evaluation of all flags for a user. Its entity tag is known before anything is evaluated."""

    def __init__(self, context: Context, caller: Caller, offer: Offer | None) -> None:
        self._context, self._caller, self._offer = context, caller, offer
        if context.configuration.experiments:
            exposures.load_assignments(caller.environment, context)

    @property
    def etag(self) -> str:
        context = self._context
        tag = etag(
            settings.SECRET_KEY,
            self._caller.environment.key,
            context.configuration.revision,
            _shows_rules(self._caller),
            context.user_id,
            context.attributes,
            context.configuration.schedule.next_change_for(context),
            self._offer and self._offer.identity(context.now),
            *([dict(context.assigned)] if context.assigned else ()),
        )
        return tag if self._offer is None else self._offer.add_revision(tag, context.now)

    def answer(self) -> OfrepEvaluations:
        """Evaluate the flags and count the evaluations."""
        context, environment = self._context, self._caller.environment
        known = snapshot.flags_for(self._caller.scope, context.configuration)
        flags = _flags_to_evaluate(known, context.attributes)
        # Without the revision, because clients compare entries to find changed flags.
        answers = answer_flags(flags, context, CommonMetadata(environment.key), shows_rules=_shows_rules(self._caller))
        counting.count(environment, context)
        return OfrepEvaluations(
            flags=answers,
            metadata=OfrepEvaluationsMetadata(flag_set_id=environment.key, revision=context.configuration.revision),
            event_streams=UNSET if self._offer is None else self._offer.streams(context.now),
        )


def offer_to(caller: Caller, request: HttpRequest, context: Context, if_none_match: str | None) -> Offer | None:
    """Return the event stream to offer to the sender of a request, or None."""
    origin = client_state.origin(request)
    if origin is None:
        return None
    offered = client_state.offered_revision(if_none_match, context.now)
    revision = context.configuration.revision if offered is None else offered
    return Offer(origin, caller.environment.key, caller.key_id, revision)


def _shows_rules(caller: Caller) -> bool:
    """Return False for keys of scope `client`: they are inside apps, whose users must not read the rules."""
    return caller.scope is not Scope.CLIENT


def _flags_to_evaluate(flags: Mapping[str, Flag], attributes: Attributes) -> Iterable[Flag]:
    """Return the flags that are not archived, or those of them that the context names."""
    keys = read_filter(attributes)
    candidates = flags.values() if keys is None else (flags[key] for key in keys if key in flags)
    return (flag for flag in candidates if "archivedAt" not in flag.source)


# --- in the fast lane ------------------------------------------------------------------------------------------------


def answer_evaluate(call: Call) -> Reply:
    context = context_of(call.json(), call.caller, call.now)
    with call.using_database(if_needed=snapshot.needs_database(call.caller.environment, call.key)):
        answer = evaluate_one(context, call.key, call.caller)
    return Reply(msgspec.json.encode(answer))


def answer_evaluate_all(call: Call) -> Reply:
    context = context_of(call.json(), call.caller, call.now)
    if_none_match = call.environ.get("HTTP_IF_NONE_MATCH")
    offer = offer_to(call.caller, call.like, context, if_none_match)
    with call.using_database(if_needed=snapshot.needs_database(call.caller.environment)):
        evaluation = EvaluationOfAll(context, call.caller, offer)
    headers = {"ETag": evaluation.etag}
    if matches(if_none_match, headers["ETag"]):
        return Reply(b"", headers, status=304)
    return Reply(msgspec.json.encode(evaluation.answer()), headers)


# --- the user of a request -------------------------------------------------------------------------------------------


def read_user(body: object) -> tuple[str, dict[str, Any]]:
    """Return the user id, which may be empty, and the attributes.

    Unknown fields of the body are ignored, because later versions of the protocol may add some. Raises DomainError if
    the body is not an object, and ValidationFailed if the context is invalid.
    """
    if not isinstance(body, dict):
        raise DomainError(ErrorCode.MALFORMED_JSON, 'Send an object such as {"context": {"targetingKey": "user-17"}}.')
    context = body.get(CONTEXT, {})
    if not isinstance(context, dict):
        raise ValidationFailed([Detail(CONTEXT, DetailCode.INVALID_TYPE, "Must be an object.")])
    user_id = context.get(TARGETING_KEY)
    if user_id is None:
        user_id = ""
    elif not isinstance(user_id, str):
        raise _invalid(DetailCode.INVALID_TYPE, "Must be a string.")
    elif len(user_id) > NAME_LENGTH:
        raise _invalid(DetailCode.TOO_LONG, f"Must be at most {NAME_LENGTH} characters.")
    return user_id, {name: value for name, value in context.items() if name != TARGETING_KEY}


def read_filter(attributes: Attributes) -> list[str] | None:
    """Return the keys of the flags to evaluate, or None for all flags.

    The protocol has no field for a filter. `flags` in the context may also be an attribute of the application, so a
    value that is not a list of keys is no filter.
    """
    keys = attributes.get(FILTER)
    if isinstance(keys, list) and keys and all(isinstance(key, str) for key in keys):
        return list(dict.fromkeys(keys))
    return None


def _invalid(code: DetailCode, message: str) -> ValidationFailed:
    return ValidationFailed([Detail(f"{CONTEXT}.{TARGETING_KEY}", code, message)])
