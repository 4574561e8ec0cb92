"""The error codes of the service with their meanings, and the exceptions that carry them.

This module is pure: it does not import Django, and uses only the status codes of HTTP.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class ErrorCode(StrEnum):
    """`error.code` of a failure, with its HTTP status and its meaning for the caller."""

    status: int
    meaning: str

    def __new__(cls, value: str, status: int, meaning: str) -> ErrorCode:
        member = str.__new__(cls, value)
        member._value_ = value
        member.status = status
        member.meaning = meaning
        return member

    MALFORMED_JSON = "malformed_json", 400, "The body is not valid JSON in UTF-8."
    VALIDATION_FAILED = (
        "validation_failed",
        400,
        "The body is JSON, but a field is invalid; `details` names it.",
    )
    INVALID_PARAMETER = "invalid_parameter", 400, "A parameter or header is invalid; `details` names it."
    UNAUTHENTICATED = "unauthenticated", 401, "No API key was sent, or it is unknown, expired or revoked."
    FORBIDDEN = "forbidden", 403, "The caller is known, but lacks the scope or permission that the message names."
    FLAG_NOT_FOUND = "flag_not_found", 404, "No flag has this key."
    EXPERIMENT_NOT_FOUND = "experiment_not_found", 404, "No experiment of this environment has this key."
    NOT_FOUND = (
        "not_found",
        404,
        "There is nothing at this path, or no segment, metric, environment or API key has this key or id.",
    )
    METHOD_NOT_ALLOWED = (
        "method_not_allowed",
        405,
        "The path does not accept this method; `Allow` lists those that it accepts.",
    )
    BODY_TIMEOUT = "body_timeout", 408, "The body did not arrive in time; the connection is closed."
    ALREADY_EXISTS = "already_exists", 409, "An object with this key already exists."
    INVALID_TRANSITION = (
        "invalid_transition",
        409,
        "An experiment goes from draft to running to stopped, and can be reopened for 30 days after that.",
    )
    EXPERIMENT_NOT_RUNNING = "experiment_not_running", 409, "Only a running experiment assigns variants."
    EXPERIMENT_LOCKED = (
        "experiment_locked",
        409,
        "A started experiment does not allow this change, for example of its variants, or of its flag's rules.",
    )
    ENABLED_ELSEWHERE = (
        "enabled_elsewhere",
        409,
        "The flag is on in another environment, so it cannot be deleted or archived.",
    )
    IN_USE = (
        "in_use",
        409,
        "Something else uses this object, or holds what the request asks for; the message names what does.",
    )
    IDEMPOTENCY_CONFLICT = "idempotency_conflict", 409, "The same idempotency key came with another path or body."
    PRECONDITION_FAILED = (
        "precondition_failed",
        412,
        "The resource has changed since the version that `If-Match` names.",
    )
    BODY_TOO_LARGE = "body_too_large", 413, "The body is over 5 MiB."
    BATCH_TOO_LARGE = "batch_too_large", 413, "The batch has more than 1,000 events."
    UNSUPPORTED_MEDIA_TYPE = (
        "unsupported_media_type",
        415,
        "The body is not `application/json`, or its compression is not gzip.",
    )
    RATE_LIMITED = "rate_limited", 429, "Too many requests; try again after `Retry-After` seconds."
    INTERNAL_ERROR = "internal_error", 500, "The service has a defect; its log contains the request id."
    UNAVAILABLE = (
        "unavailable",
        503,
        "The database is unavailable, or there is too much to do; "
        "try again after `Retry-After` seconds, with your own ids for events.",
    )


class ExplainedEnum(StrEnum):
    """An enumeration whose members have a sentence for people, `meaning`."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member


class DetailCode(ExplainedEnum):
    """`code` of an entry in `error.details`: what is wrong with one field."""

    REQUIRED = "required", "The field is missing."
    UNKNOWN_FIELD = "unknown_field", "There is no such field or parameter, or it cannot be set."
    INVALID_TYPE = "invalid_type", "The value does not have the JSON type of the field."
    INVALID_VALUE = "invalid_value", "The type is right, but the value is not."
    OUT_OF_RANGE = "out_of_range", "A number, or the number of items, is too small or too large."
    TOO_LONG = "too_long", "A text or document is too long."
    DUPLICATE = "duplicate", "The same item appears more than once."
    UNKNOWN_REFERENCE = "unknown_reference", "The value names something that does not exist."
    ID_CONFLICT = "id_conflict", "The event id already belongs to another event."


@dataclass(frozen=True, slots=True)
class Detail:
    """A field that is invalid, by its name in the API, such as `rules[0].percentage`."""

    field: str
    code: DetailCode
    message: str


class DomainError(Exception):
    """A refusal with its reason, from which the exception handler makes the response."""

    def __init__(self, code: ErrorCode, message: str, details: Iterable[Detail] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details: Sequence[Detail] = tuple(details)


class ValidationFailed(DomainError):
    """An invalid value. The message is the one of the first detail, preceded by its field."""

    def __init__(self, details: Iterable[Detail], code: ErrorCode = ErrorCode.VALIDATION_FAILED) -> None:
        first, *others = details
        message = f"{first.field}: {first.message}" if first.field else first.message
        super().__init__(code, message, (first, *others))


@contextmanager
def reported_at(field: str) -> Iterator[None]:
    """Report all invalid fields at this one, because the caller sent only this field and the others follow from it."""
    try:
        yield
    except ValidationFailed as error:
        details = [Detail(field, detail.code, f"{detail.field}: {detail.message}") for detail in error.details]
        raise ValidationFailed(details) from error
