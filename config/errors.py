"""What can go wrong, once for code, schema, guide and tests: the codes, and the exceptions that carry them.

Pure: nothing here knows Django or HTTP beyond the number of a status.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class ErrorCode(StrEnum):
    """`error.code` of a failure, with the status it is answered with and what it means to the caller."""

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
        "The body is JSON, but a field of it is not acceptable; `details` name it.",
    )
    INVALID_PARAMETER = "invalid_parameter", 400, "A parameter or header is not acceptable; `details` name it."
    UNAUTHENTICATED = "unauthenticated", 401, "No API key was sent, or it is unknown, expired or revoked."
    FORBIDDEN = "forbidden", 403, "The caller is known, but lacks the scope or right that the message names."
    FLAG_NOT_FOUND = "flag_not_found", 404, "No flag has this key."
    EXPERIMENT_NOT_FOUND = "experiment_not_found", 404, "No experiment of this environment has this key."
    NOT_FOUND = "not_found", 404, "Nothing lives at this path, or no segment or metric has this key."
    METHOD_NOT_ALLOWED = (
        "method_not_allowed",
        405,
        "The path exists, but not for this method; `Allow` lists those it has.",
    )
    ALREADY_EXISTS = "already_exists", 409, "Something with this key exists already."
    INVALID_TRANSITION = (
        "invalid_transition",
        409,
        "An experiment goes from draft to running to stopped, one step at a time, and back for 30 days at most.",
    )
    EXPERIMENT_NOT_RUNNING = "experiment_not_running", 409, "Only a running experiment assigns variants."
    EXPERIMENT_LOCKED = (
        "experiment_locked",
        409,
        "A started experiment can no longer be changed or deleted, nor what a flag serves by it.",
    )
    ENABLED_ELSEWHERE = (
        "enabled_elsewhere",
        409,
        "The flag is on in another environment, so it cannot be deleted or archived.",
    )
    IN_USE = "in_use", 409, "Something else needs what was to be removed; the message names it."
    IDEMPOTENCY_CONFLICT = "idempotency_conflict", 409, "The same idempotency key came with another path or body."
    PRECONDITION_FAILED = "precondition_failed", 412, "The resource changed since the version that `If-Match` names."
    BODY_TOO_LARGE = "body_too_large", 413, "The body is over 5 MiB."
    BATCH_TOO_LARGE = "batch_too_large", 413, "The batch has more than 1,000 events."
    UNSUPPORTED_MEDIA_TYPE = (
        "unsupported_media_type",
        415,
        "The body is not sent as `application/json`, or compressed other than by gzip.",
    )
    RATE_LIMITED = "rate_limited", 429, "Too many requests; try again after `Retry-After` seconds."
    INTERNAL_ERROR = "internal_error", 500, "A defect of the service; its log has the request id."
    UNAVAILABLE = (
        "unavailable",
        503,
        "The database cannot answer now; try again after `Retry-After` seconds, with events that have ids of yours.",
    )


class DetailCode(StrEnum):
    """`code` of an entry in `error.details`: what is wrong with that one field."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> DetailCode:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    REQUIRED = "required", "The field is missing."
    UNKNOWN_FIELD = "unknown_field", "There is no such field or parameter here, or it cannot be set."
    INVALID_TYPE = "invalid_type", "The value has another JSON type than the field."
    INVALID_VALUE = "invalid_value", "The type is right, the value is not."
    OUT_OF_RANGE = "out_of_range", "A number, or a number of things, is too small or too large."
    TOO_LONG = "too_long", "A text or document is longer than it may be."
    DUPLICATE = "duplicate", "The same thing stands there twice."
    UNKNOWN_REFERENCE = "unknown_reference", "The value names something that does not exist."
    ID_CONFLICT = "id_conflict", "The event id belongs to another event already."


@dataclass(frozen=True, slots=True)
class Detail:
    """One field to blame, by the caller's own name for it, such as `rules[0].percentage`."""

    field: str
    code: DetailCode
    message: str


class DomainError(Exception):
    """A refusal with its reason. The one exception handler gives it its shape on the wire."""

    def __init__(self, code: ErrorCode, message: str, details: Iterable[Detail] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details: Sequence[Detail] = tuple(details)


class ValidationFailed(DomainError):
    """A body that is JSON but not acceptable. The message is that of the first detail, with its field in front."""

    def __init__(self, details: Iterable[Detail], code: ErrorCode = ErrorCode.VALIDATION_FAILED) -> None:
        found = tuple(details)
        first = found[0]
        super().__init__(code, f"{first.field}: {first.message}" if first.field else first.message, found)
