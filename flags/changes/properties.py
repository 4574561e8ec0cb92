"""What all environments share of a flag: each property's names, what none of it is, and how documents hold it.

Not here: what rules, variants, schemas and prerequisites may be, which `flags.engine.parsing` says, who reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from config.documents import Document
from config.errors import Detail, DetailCode, ValidationFailed
from config.slugs import NAME_LENGTH, check_description
from config.timestamps import format_timestamp, parse_timestamp
from flags.engine.parsing import parse_flag, with_served_variants
from flags.engine.shapes import check_distinct, check_list, check_text
from flags.models import TAG_LENGTH, Flag

Values = Mapping[str, Any]
"""All that can be written of a flag in one environment, by the names of the model, which are those of the domain."""

MOST_TAGS = 50


class Property(NamedTuple):
    """Its name in JSON, and what stands in the model of a flag that has none. Documents leave it out then."""

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
}
_SERVED = ("off_variant", "default_variant")
_EVALUATED = [name for name in PROPERTIES if name not in ("tags", "owner", "expires_at")]
_READ_BY_THE_ENGINE = ("key", *(PROPERTIES[name].name for name in _EVALUATED), "archivedAt")
OFF: Document = {"enabled": False, "rules": []}
NEW: Values = {"description": "", **OFF, **{name: each.none for name, each in PROPERTIES.items()}}


def common_document(flag: Flag) -> Document:
    """What all environments share of a flag, as the change log keeps it."""
    own = {"id": str(flag.pk), "key": flag.key, "description": flag.description}
    return {**own, **_stored_document(flag, PROPERTIES)}


def evaluated_document(flag: Flag) -> Document:
    """What of that bears on evaluation: less, for it takes no query."""
    return {"key": flag.key, **_stored_document(flag, _EVALUATED)}


def in_environment(document: Document, environment_key: str) -> Document:
    """What the engine reads of the document of a whole flag: off and without rules where it has no state."""
    common = {name: document[name] for name in _READ_BY_THE_ENGINE if name in document}
    return {**common, **document["states"].get(environment_key, OFF)}


def values_of(document: Document, environment_key: str) -> Values:
    """What the document of a whole flag says of it in one environment."""
    common = {name: document.get(each.name, each.none) for name, each in PROPERTIES.items()}
    if common["expires_at"] is not None:
        common["expires_at"] = parse_timestamp(common["expires_at"])
    return {"description": document["description"], **document["states"].get(environment_key, OFF), **common}


def merge(values: Values, changes: Mapping[str, Any]) -> Values:
    """The values with those in `changes` in their place; None stands for a property that the flag is not to have."""
    if unknown := changes.keys() - NEW.keys():
        raise TypeError(f"A flag has no {', '.join(sorted(unknown))}.")
    sent = {
        name: PROPERTIES[name].none if value is None and name in PROPERTIES else value
        for name, value in changes.items()
    }
    merged = {**values, **sent}
    # Where the variant that was served so far is gone, and nobody says which one follows it, it is chosen anew.
    left = _variant_keys(merged["variants"])
    return {**merged, **{name: "" for name in _SERVED if name not in sent and merged[name] not in left}}


def validate(key: str, values: Values, found: list[Detail] | None = None) -> Values:
    """The values with the variants that they serve. Raises ValidationFailed with every field that is to blame."""
    details = [*(found or ()), *_check(values)]
    document = {"key": key, "enabled": values["enabled"], "rules": values["rules"], **_as_json(values)}
    try:
        parse_flag(document)
    except ValidationFailed as error:
        details.extend(error.details)
    if details:
        raise ValidationFailed(details)
    served = with_served_variants(document)
    return {**values, **{name: served.get(PROPERTIES[name].name, "") for name in _SERVED}}


def _stored_document(flag: Flag, names: Iterable[str]) -> Document:
    archived = {"archivedAt": format_timestamp(flag.archived_at)} if flag.archived_at else {}
    return {**_as_json({name: getattr(flag, name) for name in names}), **archived}


def _as_json(values: Values) -> Document:
    there = {each.name: values[name] for name, each in PROPERTIES.items() if values.get(name, each.none) != each.none}
    return {name: format_timestamp(value) if isinstance(value, datetime) else value for name, value in there.items()}


def _variant_keys(variants: Any) -> list[Any]:
    return [each.get("key") for each in variants if isinstance(each, dict)] if isinstance(variants, list) else []


def _check(values: Values) -> Iterator[Detail]:
    yield from check_description(values["description"])
    if len(values["owner"]) > NAME_LENGTH:
        yield Detail("owner", DetailCode.TOO_LONG, f"Must be at most {NAME_LENGTH} characters.")
    tags = values["tags"]
    found = list(check_list(tags, "tags", least=0, most=MOST_TAGS, noun="tags", check=_check_tag))
    yield from found or check_distinct(tags, (f"tags[{at}]" for at in range(len(tags))))


def _check_tag(value: object, field: str) -> Iterator[Detail]:
    yield from check_text(value, field)
    if isinstance(value, str) and len(value) > TAG_LENGTH:
        yield Detail(field, DetailCode.TOO_LONG, f"Must be at most {TAG_LENGTH} characters.")
