"""`Idempotency-Key`: a repeated request gets the first answer again, and its work is done once."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from hashlib import sha256
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import orjson
from django.db import transaction
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from config.database.idempotency import RETENTION, claim, store_response
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.models import IdempotencyKey

if TYPE_CHECKING:
    from config.api.views import ApiViewSet

HEADER = "Idempotency-Key"
KEY_LENGTH = 255
REPLAYED = "Idempotent-Replayed"
_KEPT_HEADERS = ("Content-Type", "ETag", "Location")

_printable = re.compile(r"[!-~]([ -~]*[!-~])?")  # the server removes spaces around a header

View = TypeVar("View", bound="ApiViewSet")
Path = ParamSpec("Path")  # an object that the path of a request names


def idempotent(
    handle: Callable[Concatenate[View, Request, Path], Response],
) -> Callable[Concatenate[View, Request, Path], HttpResponse]:
    """Make a handler do its work once for each idempotency key.

    One transaction stores the key, the work and the answer, or nothing. Another request with the same key waits for
    it. Only successes are stored.
    """

    @wraps(handle)
    def handle_once(view: View, request: Request, /, *args: Path.args, **path: Path.kwargs) -> HttpResponse:
        key = request._request.META.get("HTTP_IDEMPOTENCY_KEY")
        if key is None:
            return handle(view, request, *args, **path)
        which, what = _sender_and_key(view, _checked(key)), _digest_of_request(request)
        with transaction.atomic():
            earlier = claim(which, request=what, now=view.now)
            if earlier is None:
                return _keep_success(which, _rendered(view, handle(view, request, *args, **path)))
        return _answer_again(earlier, what)

    handle_once.is_idempotent = True  # type: ignore[attr-defined]  # read by the OpenAPI document
    return handle_once


def _checked(key: str) -> str:
    if not _printable.fullmatch(key):
        raise _refused(DetailCode.INVALID_VALUE, f"Must be 1 to {KEY_LENGTH} printable characters of ASCII.")
    if len(key) > KEY_LENGTH:
        raise _refused(DetailCode.TOO_LONG, f"Must be at most {KEY_LENGTH} characters.")
    return key


def _refused(code: DetailCode, message: str) -> ValidationFailed:
    return ValidationFailed([Detail(HEADER, code, message)], code=ErrorCode.INVALID_PARAMETER)


def _sender_and_key(view: ApiViewSet, key: str) -> str:
    """Return the id of a key, which differs between callers and environments."""
    sender = view.caller.key_id or view.request.user.pk or "anonymous"
    return sha256(f"{view.environment.pk}\n{sender}\n{key}".encode()).hexdigest()


def _digest_of_request(request: Request) -> str:
    """Return a digest of the request with its body. Raises for bodies that are not JSON."""
    request.data  # noqa: B018 (reads the body)
    sent: bytes = getattr(request._request, "sent_body", b"")
    return sha256(f"{request.method} {request.get_full_path()}\n".encode() + sent).hexdigest()


def _rendered(view: ApiViewSet, response: Response) -> Response:
    """Render the answer inside the transaction, which can still be rolled back."""
    view.finalize_response(view.request, response)
    response.render()
    return response


def _keep_success(which: str, response: Response) -> Response:
    if 200 <= response.status_code < 300:
        headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
        kept = getattr(response, "kept_data", None)  # it leaves out what must not be stored
        body = response.content if kept is None else orjson.dumps({"data": kept})
        store_response(which, status=response.status_code, headers=headers, body=body)
    else:
        transaction.set_rollback(True)
    return response


def _answer_again(known: IdempotencyKey, request: str) -> HttpResponse:
    if known.request != request:
        message = f"This {HEADER} came with another path or body within {RETENTION.total_seconds() / 3600:.0f} hours; "
        raise DomainError(ErrorCode.IDEMPOTENCY_CONFLICT, message + "use a new key for each request.")
    return HttpResponse(known.body, status=known.status, headers={**(known.headers or {}), REPLAYED: "true"})
