"""Request bodies: read up to a limit, decoded strictly, and checked for values that databases cannot store.

On hot paths, msgspec decodes a valid body in a microsecond, and a serializer explains an invalid one. A test checks
that each struct accepts the same bodies as its serializer.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

import msgspec
import orjson
from django.conf import settings
from rest_framework.parsers import BaseParser

from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.slugs import NAME_LENGTH

MAX_DEPTH = 64
_MAX_DETAILS = 20

# U+0000, which databases cannot store, and the colon, by which duplicate names are found.
_ESCAPED = re.compile(rb"\\u00(00|3[aA])")

Decoded = TypeVar("Decoded")


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Body(NamedTuple):
    """A decoded body. Only a suspect body may have `defects`."""

    value: Any
    is_suspect: bool


def read(stream: _Readable, content_length: int) -> bytes:
    """Read a body of at most DATA_UPLOAD_MAX_MEMORY_SIZE bytes. A longer `content_length` is refused unread."""
    most: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    if content_length <= most:
        raw = stream.read(most + 1)
        if len(raw) <= most:
            return raw
    message = f"Send at most {most // 1024**2} MiB in one request, counted without compression."
    raise DomainError(ErrorCode.BODY_TOO_LARGE, message)


def is_compressed(content_encoding: str) -> bool:
    """Return whether a body is gzip. Raises DomainError `unsupported_media_type` for other compressions."""
    match content_encoding.strip().lower():
        case "" | "identity":
            return False
        case "gzip" | "x-gzip":
            return True
    message = "Send the body as it is, or compressed, with `Content-Encoding: gzip`."
    raise DomainError(ErrorCode.UNSUPPORTED_MEDIA_TYPE, message)


def expand(compressed: bytes) -> bytes:
    """Expand gzip, but never beyond the maximum length of a body."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(compressed)) as expanded:
            return read(expanded, 0)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        message = f"The body is not valid gzip ({error}); send all of it, or send it as it is."
        raise DomainError(ErrorCode.MALFORMED_JSON, message) from error


def decode(raw: bytes) -> Body:
    """Decode JSON. Raises DomainError `malformed_json`. Valid JSON that may not be storable makes the body suspect."""
    if not _has_escaped(raw):
        try:
            value = msgspec.json.decode(raw)
            # It refuses integers beyond 64 bits.
            if orjson.dumps(value).count(b":") == raw.count(b":"):
                return Body(value, is_suspect=is_maybe_deep(raw))
        except (ValueError, RecursionError, orjson.JSONEncodeError):
            pass  # the standard library also reads NaN and lone surrogates, whose fields can be named
    return Body(_decode_leniently(raw), is_suspect=True)


def _has_escaped(raw: bytes) -> bool:
    return b"\\u00" in raw and _ESCAPED.search(raw) is not None


def is_maybe_deep(document: bytes, depth: int = 0) -> bool:
    """Return whether JSON at this depth has enough brackets to be nested too deeply."""
    least = MAX_DEPTH + 1 - depth
    return len(document) >= 2 * least and document.count(b"{") + document.count(b"[") >= least


def decode_as(raw: bytes, decoder: msgspec.json.Decoder[Decoded]) -> Decoded | None:
    """Decode JSON of a known shape in one pass, or return None. Then `decode` and `defects` find what is wrong.

    The caller must check for integers beyond 64 bits and for deep nesting.
    """
    if _has_escaped(raw):
        return None
    try:
        value = decoder.decode(raw)
        # A duplicate name is decoded once, and its colon is lost.
        return value if msgspec.json.encode(value).count(b":") == raw.count(b":") else None
    except (ValueError, RecursionError):
        return None


class Flat(Protocol):
    """A body without nested objects, except at known names."""

    def count_names(self) -> int:
        """Return the number of names in the body, or -1 if the body must be decoded in the thorough way."""


FlatBody = TypeVar("FlatBody", bound=Flat)


def decode_flat(raw: bytes, decoder: msgspec.json.Decoder[FlatBody]) -> FlatBody | None:
    """Decode JSON of a known shape in one pass, or return None if `decode` and `check` may find defects.

    If every colon belongs to a decoded name, no name is a duplicate.
    """
    if _has_escaped(raw):
        return None
    try:
        value = decoder.decode(raw)
    except (ValueError, RecursionError):
        return None
    return value if raw.count(b":") == value.count_names() else None


_SCALARS = frozenset({str, bool, float, type(None)})


def are_scalars(values: Iterable[object]) -> bool:
    """Return whether all values are scalars without defects."""
    for value in values:
        kind = type(value)
        if kind not in _SCALARS and not (kind is int and -(2**63) <= value < 2**64):  # type: ignore[operator]
            return False
    return True


def _decode_leniently(raw: bytes) -> Any:
    try:
        return json.loads(raw.decode(), parse_int=_parse_int, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise _malformed(f"byte {error.start} is not valid UTF-8") from error
    except json.JSONDecodeError as error:
        raise _malformed(f"line {error.lineno}, column {error.colno}: {error.msg.lower()}") from error
    except RecursionError as error:
        raise _malformed("it is nested too deeply") from error


class _Repeating(dict[str, Any]):
    """An object with duplicate names. Most JSON readers silently keep only the last value."""

    repeated: Sequence[str]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    repeating = _Repeating(members)
    repeating.repeated = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
    return repeating


def repetitions(value: object, path: str = "") -> Iterator[Detail]:
    """Yield the duplicate names of an object, without those of nested objects."""
    if isinstance(value, _Repeating):
        for name in value.repeated:
            yield Detail(f"{path}.{name}" if path else name, DetailCode.DUPLICATE, "Must appear only once.")


def _parse_int(digits: str) -> int:
    # Enough digits to be recognised as too many: Python refuses to convert thousands of them.
    return int(digits[:30])


def _malformed(why: str) -> DomainError:
    return DomainError(
        ErrorCode.MALFORMED_JSON, f"The body is not valid JSON ({why}); send one JSON document in UTF-8."
    )


def defects(value: object, path: str = "", depth: int = 0) -> Iterator[Detail]:
    """Yield what no field may have: U+0000, lone surrogates, NaN, infinities, integers beyond 64 bits, deep nesting.

    Duplicate names are defects, too.
    """
    match value:
        case str():
            yield from _text_defects(value, path)
        case int() if not -(2**63) <= value < 2**64:
            message = "Must be an integer of at most 64 bits; send longer ones as text."
            yield Detail(path, DetailCode.OUT_OF_RANGE, message)
        case float() if not math.isfinite(value):
            yield Detail(path, DetailCode.INVALID_VALUE, "Must be a finite number.")
        case dict() | list() if depth >= MAX_DEPTH:
            yield Detail(path, DetailCode.OUT_OF_RANGE, f"Must not be nested deeper than {MAX_DEPTH} levels.")
        case dict():
            yield from repetitions(value, path)
            for name, item in value.items():
                yield from _text_defects(name, path)
                yield from defects(item, f"{path}.{name}" if path else name, depth + 1)
        case list():
            for index, item in enumerate(value):
                yield from defects(item, f"{path}[{index}]", depth + 1)


def _text_defects(text: str, path: str) -> Iterator[Detail]:
    if "\0" in text:
        yield Detail(path, DetailCode.INVALID_VALUE, "Must not contain the character U+0000.")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        yield Detail(path, DetailCode.INVALID_VALUE, "Must not contain half of a surrogate pair.")


def check(body: Body) -> Any:
    """Return the value of a body, which must have no defects. Raises ValidationFailed."""
    if body.is_suspect:
        problems = [detail for detail, _ in zip(defects(body.value), range(_MAX_DETAILS), strict=False)]
        if problems:
            raise ValidationFailed(problems)
    return body.value


class JSONParser(BaseParser):
    """Reads the body as strict JSON."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, context: Mapping[str, Any] | None = None) -> Any:
        return check(decode_stream(stream))


class BytesParser(BaseParser):
    """Reads the body as bytes of JSON, which the view decodes."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, context: Mapping[str, Any] | None = None) -> Any:
        return read_stream(stream)


def decode_stream(stream: Any) -> Body:
    """Read and decode the body of a request."""
    return decode(read_stream(stream))


def read_stream(stream: Any) -> bytes:
    """Read the body of a request. A body in chunks announces no length, and may be empty."""
    has_gzip = is_compressed(stream.META.get("HTTP_CONTENT_ENCODING", ""))
    is_chunked = "HTTP_TRANSFER_ENCODING" in stream.META
    raw = read(stream, 0 if is_chunked else int(stream.META.get("CONTENT_LENGTH") or 0))
    if has_gzip and raw:
        raw = expand(raw)
    stream.sent_body = raw  # to compare requests with the same idempotency key
    return b"{}" if is_chunked and not raw else raw


Struct = TypeVar("Struct", bound=msgspec.Struct)

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_LENGTH)]


class UserRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A user to evaluate flags for, or to assign a variant to."""

    userId: Name
    attributes: dict[str, Any] = {}

    def count_names(self) -> int:
        """Return the number of names in the body, or -1 if attributes are not all scalars."""
        if not self.attributes:
            return 1
        return 2 + len(self.attributes) if are_scalars(self.attributes.values()) else -1


def convert(data: Any, to: type[Struct]) -> Struct | None:
    """Return the body as a struct, or None if it is invalid: then the serializer finds the errors."""
    try:
        return msgspec.convert(data, to)
    except msgspec.ValidationError:
        return None
