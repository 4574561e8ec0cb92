"""The parameters and headers of operations in the OpenAPI document. Most follow from what views declare."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import django_filters
from drf_spectacular.utils import OpenApiParameter

from config.answers import KEY
from config.api.idempotency import KEY_LENGTH as IDEMPOTENCY_KEY_LENGTH
from config.api.idempotency import REPLAYED
from config.api.pagination import KeysetPagination
from config.models import Scope
from config.slugs import KEY_RULE, REASON_LENGTH

Schema = dict[str, Any]

_CURSOR: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}


def _key_in_path(name: str) -> OpenApiParameter:
    description = f"The key of the {name.removesuffix('_key')}: {KEY_RULE}."
    return OpenApiParameter(name, KEY, OpenApiParameter.PATH, description=description)


def query(name: str, schema: Schema, description: str, *, required: bool = False) -> OpenApiParameter:
    """Return a parameter of the query string. Unknown and duplicate parameters are refused."""
    return OpenApiParameter(name, schema, OpenApiParameter.QUERY, description=description, required=required)


def parameters_of(filterset: type[django_filters.FilterSet]) -> list[OpenApiParameter]:
    """Return the parameters of the query string that filters take; the label of a filter is its description."""
    return [
        query(
            name,
            {**parameter.schema, **({"default": parameter.extra["initial"]} if "initial" in parameter.extra else {})},
            parameter.label,
            required=parameter.extra["required"],
        )
        for name, parameter in filterset.base_filters.items()
    ]


def header(
    name: str, description: str, *, on: Sequence[int] = (), schema: Any = str, required: bool = True
) -> OpenApiParameter:
    """Return a header of all answers, or of those with these statuses."""
    return OpenApiParameter(
        name, schema, OpenApiParameter.HEADER, response=list(on) or True, description=description, required=required
    )


def _paging(pagination: type[KeysetPagination]) -> list[OpenApiParameter]:
    """Return the parameters of a list: `limit` and `cursor`, and `Link` in the answer."""
    limit: Schema = {"type": "integer", "minimum": 1, "maximum": pagination.max_limit}
    without = "Without it, the answer holds all of them." if pagination.default_limit is None else ""
    if pagination.default_limit is not None:
        limit["default"] = pagination.default_limit
    return [
        query("limit", limit, f"The maximum number of objects in a page. {without}".strip()),
        query(
            "cursor",
            _CURSOR,
            "The start of a page. It is part of the address in the `Link` header; do not make one up.",
        ),
        header(
            "Link",
            'The address of the next page, as `<...>; rel="next"`. The last page has none.',
            on=[200],
            required=False,
        ),
    ]


def _etag(use: str, on: Sequence[int], *, has_digest: bool) -> OpenApiParameter:
    digest = (
        ' It is `"<version>-<digest>"`. The digest covers the whole answer, including parts without a version; '
        "`If-Match` ignores it."
    )
    return header("ETag", f"The version of the object, for {use}.{digest if has_digest else ''}", on=on)


_IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    str,
    OpenApiParameter.HEADER,
    description="The `ETag` that you read. If it is still current, the answer is 304.",
)
_VARY = header("Vary", "The headers that name the caller and the environment.", on=[200, 304])
_IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    description="The `ETag` that you read. If there is a newer version, the answer is 412.",
)
_REASON = OpenApiParameter(
    "X-Change-Reason",
    {"type": "string", "minLength": 1, "pattern": r"^(?!.*%00)[\t -~]*[!-~][\t -~]*$"},
    OpenApiParameter.HEADER,
    description=f"Why you make this change, for its history. At most {REASON_LENGTH:,} characters. "
    "Percent-encode characters other than ASCII, as UTF-8.",
)
_IDEMPOTENCY = [
    OpenApiParameter(
        "Idempotency-Key",
        {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_LENGTH, "pattern": "^[!-~]([ -~]*[!-~])?$"},
        OpenApiParameter.HEADER,
        description="A text of your choice that identifies this request. If the first request "
        "succeeded, sending it again with the same key and body within 24 hours changes nothing "
        "and returns the first answer. With another body, the answer is 409.",
    ),
    header(REPLAYED, "`true` if this is the answer of the first request.", on=[200, 201, 202], required=False),
    header("Location", "The address of the new object.", on=[201]),
]
REVISION = header(
    "X-Revision",
    "A revision of the configuration. The answer includes all changes up to it.",
    on=[200],
    schema=int,
)
ON_EVERY_ANSWER = [
    header(
        "X-Stale",
        "Only while the database is away, or a large change is being applied: how many seconds ago the configuration "
        "behind the answer was known to be the newest.",
        schema=int,
        required=False,
    ),
    header(
        "X-Request-Id", "The id of this request: the `X-Request-Id` that was sent, if it is acceptable, else a new one."
    ),
    header(
        "Cache-Control",
        "`no-store`, or `private, no-cache` with an `ETag`: you may keep the answer, but check it before each use.",
    ),
    header("WWW-Authenticate", "`Bearer`.", on=[401]),
    header(
        "Retry-After", "The number of seconds to wait before sending the same request again.", on=[429, 503], schema=int
    ),
]


def variables_of(path: str) -> list[str]:
    """Return the names of the variables of a path, such as `flag_key`."""
    return re.findall(r"\{(\w+)\}", path)


def is_write(view: Any) -> bool:
    """Return whether the action of a view changes configuration."""
    return bool(view.access[view.action].scope is Scope.MANAGE)


def is_idempotent(view: Any) -> bool:
    """Return whether the action of a view takes an `Idempotency-Key`."""
    return bool(getattr(getattr(view, view.action), "is_idempotent", False))


def takes_if_match(view: Any, path: str) -> bool:
    """Return whether the action of a view changes a version of a resource that exists."""
    return view.etag_of is not None and is_write(view) and bool(variables_of(path))


def is_versioned_read(view: Any) -> bool:
    """Return whether the action of a view answers a version of a resource, or 304."""
    return bool(view.etag_of is not None and view.action == "retrieve")


def parameters_for(view: Any, path: str) -> Iterator[OpenApiParameter]:
    """Yield the parameters and headers of an operation that follow from its view. Its own take precedence."""
    yield from (_key_in_path(name) for name in variables_of(path) if name.endswith("_key"))
    if view.action == "list" and view.pagination_class:
        yield from _paging(view.pagination_class)
        if filterset := getattr(view, "filterset_class", None):
            yield from parameters_of(filterset)
    if is_idempotent(view):
        yield from _IDEMPOTENCY
    if is_write(view) and view.keeps_history:
        yield _REASON
    if takes_if_match(view, path):
        yield _IF_MATCH
    has_digest = view.etag_of == "answer"
    if is_versioned_read(view):
        yield _IF_NONE_MATCH
        yield _VARY
        yield _etag("`If-None-Match` and `If-Match`", [200, 304], has_digest=has_digest)
    elif view.etag_of is not None and is_write(view):
        yield _etag("`If-Match`", [200, 201], has_digest=has_digest)
    yield from ON_EVERY_ANSWER
