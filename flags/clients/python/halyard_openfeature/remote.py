"""Evaluation by the service, with one request of OFREP for each flag."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import quote

import httpx
from openfeature.exception import (
    ErrorCode,
    FlagNotFoundError,
    GeneralError,
    InvalidContextError,
    OpenFeatureError,
    ParseError,
)
from openfeature.flag_evaluation import FlagResolutionDetails, FlagType

from .api import Api, retry_after
from .values import require_type

_CODES = {code.value: code for code in ErrorCode}
_REFUSALS = {401: "The service does not know this key.", 403: "This key may not evaluate flags."}


class RemoteEvaluator:
    def __init__(self, api: Api) -> None:
        self._api = api
        self._not_before = 0.0

    def resolve(
        self, flag_key: str, flag_type: FlagType, user_id: str, attributes: Mapping[str, Any]
    ) -> FlagResolutionDetails[Any]:
        """Evaluate a flag for a user. Raises OpenFeatureError."""
        path, body = self._question(flag_key, user_id, attributes)
        try:
            response = self._api.client.post(path, content=body, headers=_JSON)
        except httpx.HTTPError as error:
            raise _unreachable(error) from error
        return self._read(flag_key, flag_type, response)

    async def resolve_async(
        self, flag_key: str, flag_type: FlagType, user_id: str, attributes: Mapping[str, Any]
    ) -> FlagResolutionDetails[Any]:
        """Evaluate a flag for a user without blocking the event loop. Raises OpenFeatureError."""
        path, body = self._question(flag_key, user_id, attributes)
        try:
            response = await self._api.async_client.post(path, content=body, headers=_JSON)
        except httpx.HTTPError as error:
            raise _unreachable(error) from error
        return self._read(flag_key, flag_type, response)

    def _question(self, flag_key: str, user_id: str, attributes: Mapping[str, Any]) -> tuple[str, bytes]:
        if time.monotonic() < self._not_before:
            raise GeneralError("The service asked for a pause, because this key sends too many requests.")
        try:
            path = f"/ofrep/v1/evaluate/flags/{quote(flag_key, safe='')}"
        except UnicodeEncodeError:
            raise FlagNotFoundError(f"No flag has the key {flag_key!r}.") from None
        context = {**attributes, "targetingKey": user_id} if user_id else attributes
        try:
            return path, json.dumps({"context": context}).encode()
        except ValueError as error:  # an integer of thousands of digits
            raise InvalidContextError(f"JSON cannot hold the evaluation context: {error}.") from None

    def _read(self, flag_key: str, flag_type: FlagType, response: httpx.Response) -> FlagResolutionDetails[Any]:
        answer = _decode(response)
        if response.status_code != 200:
            self._not_before = time.monotonic() + (retry_after(response) if response.status_code == 429 else 0.0)
            _fail(response.status_code, answer)
        value = answer.get("value")
        require_type(flag_key, value, flag_type)
        return FlagResolutionDetails(
            value=value,
            reason=answer.get("reason"),
            variant=answer.get("variant"),
            flag_metadata=answer.get("metadata", {}),
        )


_JSON = {"Content-Type": "application/json"}


def _decode(response: httpx.Response) -> dict[str, Any]:
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ParseError(f"The service answered {response.status_code} without a JSON object.")
    return answer


def _fail(status: int, answer: Mapping[str, Any]) -> NoReturn:
    code = _CODES.get(str(answer.get("errorCode")), ErrorCode.GENERAL)
    details = answer.get("errorDetails") or f"The service answered {status}."
    raise OpenFeatureError(code, _REFUSALS.get(status, str(details)))


def _unreachable(error: httpx.HTTPError) -> GeneralError:
    return GeneralError(f"The service does not answer: {type(error).__name__}.")
