"""The properties of a flag that all environments share: their names, empty values and checks, and their form in JSON.

`flags.validation.parsing` checks rules, variants, schemas and prerequisites.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from config.documents import Document, is_identical, is_same
from config.errors import Detail, DetailCode, ValidationFailed
from config.slugs import NAME_LENGTH, check_description
from config.timestamps import format_timestamp, parse_timestamp
from flags.engine.compiling import with_served_variants
from flags.models import TAG_LENGTH, Flag
from flags.validation.parsing import parse_flag
from flags.validation.shapes import check_distinct, check_list, check_text

Values = Mapping[str, Any]
"""Values of a flag in one environment, by the names of the model's fields."""

MAX_TAGS = 50


class Property(NamedTuple):
    """The name of a property in JSON, and its empty value in the model. JSON leaves out empty properties."""

    name: str
    none: Any


PROPERTIES: Mapping[str, Property] = {
    "type": Property("type", ""),
    "variants": Property("variants", []),
    "off_variant": Property("offVariant", ""),
    "default_variant": Property("defaultVariant", ""),
    "schema": Property("schema", None),
    "prerequisites": Property("prerequisites", []),
    "tags": Property("tags", []),
    "owner": Property("owner", ""),
    "expires_at": Property("expiresAt", None),
    "client_visible": Property("clientVisible", True),
}
_SERVED = ("off_variant", "default_variant")
_IN_COLUMNS = [name for name in PROPERTIES if name != "tags"]
_EVALUATED = [name for name in _IN_COLUMNS if name not in ("owner", "expires_at")]
_DECISIVE = frozenset(PROPERTIES[name].name for name in _EVALUATED)
_READ_BY_THE_ENGINE = ("key", *(PROPERTIES[name].name for name in _EVALUATED), "archivedAt")
OFF: Document = {"enabled": False, "rules": []}
NEW: Values = {"description": "", **OFF, **{name: property_.none for name, property_ in PROPERTIES.items()}}


def common_as_json(flag: Flag, tags: list[str]) -> Document:
    """Return the shared part of a flag, as the change log stores it. It takes no query."""
    own = {"id": str(flag.pk), "key": flag.key, "description": flag.description}
    return {**own, **_properties_as_json(flag, _IN_COLUMNS, tags=tags)}


def evaluated_as_json(flag: Flag) -> Document:
    """Return the shared part of a flag that evaluation reads."""
    return {"key": flag.key, **_properties_as_json(flag, _EVALUATED)}


def in_environment(as_json: Document, environment_key: str) -> Document:
    """Return what the engine reads of a flag in one environment. Without a state there, the flag is off."""
    common = {name: as_json[name] for name in _READ_BY_THE_ENGINE if name in as_json}
    return {**common, **as_json["states"].get(environment_key, OFF)}


def with_decisive_values(as_json: Document, values: Values) -> Document:
    """Return the JSON of a flag with these values of the properties that the engine reads."""
    kept = {name: value for name, value in as_json.items() if name not in _DECISIVE}
    return {**kept, **_as_json({name: values[name] for name in _EVALUATED})}


def values_of(as_json: Document, environment_key: str) -> Values:
    """Return the values of a flag in one environment, from the JSON of the whole flag."""
    common = {name: as_json.get(property_.name, property_.none) for name, property_ in PROPERTIES.items()}
    if common["expires_at"] is not None:
        common["expires_at"] = parse_timestamp(common["expires_at"])
    return {"description": as_json["description"], **as_json["states"].get(environment_key, OFF), **common}


def merge(values: Values, changes: Mapping[str, Any]) -> Values:
    """Return the values with `changes` merged in. None removes a property."""
    if unknown := changes.keys() - NEW.keys():
        raise TypeError(f"A flag has no {', '.join(sorted(unknown))}.")
    sent = {
        name: PROPERTIES[name].none if value is None and name in PROPERTIES else value
        for name, value in changes.items()
    }
    merged = {**values, **sent}
    # If a served variant was removed without naming its successor, the default is chosen again.
    keys = _variant_keys(merged["variants"])
    return {**merged, **{name: "" for name in _SERVED if name not in sent and merged[name] not in keys}}


def differing(values: Mapping[str, Any], old: Values) -> dict[str, Any]:
    """Return the values that differ from the old ones.

    In `variants`, 3 differs from 3.0: clients get integers only if all values of a flag are integers.
    """
    return {
        name: value
        for name, value in values.items()
        if not (is_identical if name == "variants" else is_same)(value, old[name])
    }


def validate(key: str, values: Values, details_of_key: list[Detail] | None = None) -> Values:
    """Return the values with the default and off variants filled in. Raises ValidationFailed with all details."""
    details = [*(details_of_key or ()), *_check(values)]
    as_json = {"key": key, "enabled": values["enabled"], "rules": values["rules"], **_as_json(values)}
    try:
        parse_flag(as_json)
    except ValidationFailed as error:
        details.extend(error.details)
    if details:
        raise ValidationFailed(details)
    served = with_served_variants(as_json)
    return {**values, **{name: served.get(PROPERTIES[name].name, "") for name in _SERVED}}


def _properties_as_json(flag: Flag, names: Iterable[str], **more: Any) -> Document:
    archived = {"archivedAt": format_timestamp(flag.archived_at)} if flag.archived_at else {}
    return {**_as_json({name: getattr(flag, name) for name in names} | more), **archived}


def _as_json(values: Values) -> Document:
    filled = {
        property_.name: values[name]
        for name, property_ in PROPERTIES.items()
        if values.get(name, property_.none) != property_.none
    }
    return {name: format_timestamp(value) if isinstance(value, datetime) else value for name, value in filled.items()}


def _variant_keys(variants: Any) -> list[Any]:
    entries = variants if isinstance(variants, list) else ()
    return [entry.get("key") for entry in entries if isinstance(entry, dict)]


def _check(values: Values) -> Iterator[Detail]:
    yield from check_description(values["description"])
    if len(values["owner"]) > NAME_LENGTH:
        yield Detail("owner", DetailCode.TOO_LONG, f"Must be at most {NAME_LENGTH} characters.")
    tags = values["tags"]
    details = list(check_list(tags, "tags", min_length=0, max_length=MAX_TAGS, noun="tags", check=_check_tag))
    yield from details or check_distinct(tags, (f"tags[{index}]" for index in range(len(tags))))


def _check_tag(value: object, field: str) -> Iterator[Detail]:
    yield from check_text(value, field)
    if isinstance(value, str) and len(value) > TAG_LENGTH:
        yield Detail(field, DetailCode.TOO_LONG, f"Must be at most {TAG_LENGTH} characters.")
