"""Evaluate flags for a request, in the views and in the fast lane.

Only flags that an experiment drives need the database, for the user's stored variant.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial

from config.api.authentication import Caller
from config.api.bodies import UserRequest
from config.api.renderers import envelope
from config.errors import ErrorCode
from config.serving.fast_lane import Call, Reply
from config.snapshot import revision
from flags import exposures, snapshot
from flags.api.evaluation_serializers import EvaluationsRequest
from flags.engine.evaluation import evaluate
from flags.engine.types import Context, Flag
from flags.snapshot import flag_not_found
from flags.usage import counting

Answer = Mapping[str, object]


def evaluate_one(request: UserRequest, flag_key: str, caller: Caller, now: datetime) -> Answer:
    """Evaluate a flag for a user, count the evaluation, and record the exposure to an experiment, if any.

    Raises DomainError `flag_not_found`.
    """
    environment = caller.environment
    context = Context(request.userId, request.attributes, snapshot.configuration(environment.key), now)
    if context.configuration.experiments:
        exposures.load_assignments(environment, context, [flag_key])
    answer = _evaluate(context, flag_key, caller)
    if context.evaluations[flag_key].participation is not None:
        again = partial(_evaluate, flag_key=flag_key, caller=caller)
        answer, context, _ = exposures.record_exposure(environment, context, flag_key, answer, again)
    counting.count(environment, context)
    return answer


def _evaluate(context: Context, flag_key: str, caller: Caller) -> Answer:
    flag = snapshot.flags_for(caller.scope, context.configuration).get(flag_key)
    if flag is None:
        raise flag_not_found(flag_key)
    evaluation = context.evaluations[flag_key] = evaluate(flag, context)
    return evaluation.answer


def evaluate_several(request: EvaluationsRequest, caller: Caller, now: datetime) -> Mapping[str, Answer]:
    """Evaluate flags for a user and count the evaluations. Exposures are not recorded."""
    environment = caller.environment
    configuration = snapshot.configuration(environment.key)
    context = Context(request.userId, request.attributes, configuration, now)
    if configuration.experiments:
        exposures.load_assignments(environment, context, request.flags or None)
    answers = _answers(request, context, snapshot.flags_for(caller.scope, configuration))
    counting.count(environment, context)
    return answers


def _answers(request: EvaluationsRequest, context: Context, flags: Mapping[str, Flag]) -> Mapping[str, Answer]:
    if request.flags:
        # The flags' own keys have cached their hashes, and are the same objects in all requests.
        evaluations = {flag.key: evaluate(flag, context) for key in request.flags if (flag := flags.get(key))}
    else:
        archived = snapshot.compiled.state.archived
        evaluations = {key: evaluate(flag, context) for key, flag in flags.items() if key not in archived}
    context.evaluations = {**context.evaluations, **evaluations} if context.evaluations else evaluations
    answers = {key: evaluation.answer for key, evaluation in evaluations.items()}
    if not request.flags or len(answers) == len(request.flags):
        return answers
    return {key: answers.get(key) or _unknown(key) for key in request.flags}


def _unknown(key: str) -> Answer:
    return {"error": {"code": ErrorCode.FLAG_NOT_FOUND.value, "message": flag_not_found(key).message}}


def revision_header() -> dict[str, str]:
    """Return the header with the revision that an answer has at least.

    Read it before any configuration, which may then be newer.
    """
    return {"X-Revision": str(revision())}


# --- in the fast lane ------------------------------------------------------------------------------------------------


def answer_evaluate(call: Call) -> Reply | None:
    request = call.read()
    if request is None:
        return None
    headers = revision_header()
    with call.using_database(if_needed=snapshot.needs_database(call.caller.environment, call.key)):
        answer = evaluate_one(request, call.key, call.caller, call.now)
    return Reply(envelope(answer), headers)


def answer_evaluate_all(call: Call) -> Reply | None:
    request = call.read()
    if request is None:
        return None
    headers = revision_header()
    with call.using_database(if_needed=snapshot.needs_database(call.caller.environment)):
        answers = evaluate_several(request, call.caller, call.now)
    return Reply(envelope(answers), headers)
