"""The operations of flags in the fast lane: evaluate one flag or several, by the API and by OFREP."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import msgspec

from config.api.bodies import convert, decode_flat
from config.api.renderers import envelope
from config.serving.fast_lane.operations import Call, Reply, register
from flags.api import evaluations
from flags.api.evaluation_serializers import EvaluationRequest, EvaluationsRequest
from flags.ofrep import evaluations as ofrep
from flags.ofrep.client_state import matches
from flags.snapshot import configuration


def evaluate(call: Call) -> Reply | None:
    request = _request(call, _decoder)
    if request is None:
        return None
    headers = evaluations.revision_header()
    with _database(call, call.key):
        answer = evaluations.evaluate_one(request, call.key, call.caller, call.now)
    return Reply(envelope(answer), headers)


def evaluate_all(call: Call) -> Reply | None:
    request = _request(call, _decoder_of_several)
    if request is None:
        return None
    headers = evaluations.revision_header()
    with _database(call):
        answers = evaluations.evaluate_several(request, call.caller, call.now)
    return Reply(envelope(answers), headers)


def evaluate_by_ofrep(call: Call) -> Reply:
    context = ofrep.context_of(call.json(), call.caller, call.now)
    with _database(call, call.key):
        answer = ofrep.evaluate_one(context, call.key, call.caller)
    return Reply(msgspec.json.encode(answer))


def evaluate_all_by_ofrep(call: Call) -> Reply:
    context = ofrep.context_of(call.json(), call.caller, call.now)
    if_none_match = call.environ.get("HTTP_IF_NONE_MATCH")
    offer = ofrep.offer_to(call.caller, call.like, context, if_none_match)
    with _database(call):
        evaluation = ofrep.EvaluationOfAll(context, call.caller, offer)
    headers = {"ETag": evaluation.etag}
    if matches(if_none_match, headers["ETag"]):
        return Reply(b"", headers, status=304)
    return Reply(msgspec.json.encode(evaluation.answer()), headers)


_decoder = msgspec.json.Decoder(EvaluationRequest)
_decoder_of_several = msgspec.json.Decoder(EvaluationsRequest)

Request = TypeVar("Request", bound=EvaluationRequest)


def _request(call: Call, decoder: msgspec.json.Decoder[Request]) -> Request | None:
    """Return the body, or None if it is invalid."""
    return decode_flat(call.body, decoder) or convert(call.json(), decoder.type)


_WITHOUT = nullcontext()


def _database(call: Call, flag_key: str | None = None) -> AbstractContextManager[None]:
    """Return what surrounds an evaluation that may need the database, because an experiment drives one of the flags."""
    experiments = configuration(call.caller.environment.key).experiments
    is_driven = bool(experiments) if flag_key is None else flag_key in experiments
    return call.using_database() if is_driven else _WITHOUT


register("/v1/flags/<key>/evaluate", evaluate)
register("/v1/evaluate", evaluate_all)
register("/ofrep/v1/evaluate/flags/<key>", evaluate_by_ofrep)
register("/ofrep/v1/evaluate/flags", evaluate_all_by_ofrep)
