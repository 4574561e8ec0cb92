"""Query strings. Unknown and duplicate parameters and values of the wrong type are refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, ClassVar, TypeVar
from urllib.parse import parse_qs

import django_filters
from django import forms
from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.request import Request

from config.answers import MOMENT, NAME
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.timestamps import parse_timestamp

Rows = TypeVar("Rows", bound=QuerySet[Any])


class StrictFilterBackend(DjangoFilterBackend):
    """django-filter, with unknown and repeated parameters refused instead of ignored."""

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        filterset = self.get_filterset(request, queryset, view)
        _check(request, filterset, view.paginator.parameters)
        return filterset.qs if filterset else queryset


def read_parameters(request: Request, filterset_class: type[django_filters.FilterSet]) -> dict[str, Any]:
    """Return the parameters of an operation by name, for operations that are not lists. Missing ones are None."""
    filterset = filterset_class(request.query_params, request=request)
    _check(request, filterset)
    values: dict[str, Any] = filterset.form.cleaned_data
    return values


def narrowed(request: Request, filterset_class: type[django_filters.FilterSet], queryset: Rows) -> Rows:
    """Return the rows that match the parameters, for operations without pages."""
    filterset = filterset_class(request.query_params, queryset=queryset, request=request)
    _check(request, filterset)
    rows: Rows = filterset.qs
    return rows


def refuse_parameters(request: Request) -> None:
    """Refuse all query parameters, for operations that have none."""
    if request.META.get("QUERY_STRING") and (details := _misused(request, set())):
        raise ValidationFailed(details, code=ErrorCode.INVALID_PARAMETER)


def _check(request: Request, filterset: Any, others: Iterable[str] = ()) -> None:
    accepted = {*(filterset.filters if filterset else ()), *getattr(filterset, "patterns", ()), *others}
    required = (
        {name for name, parameter in filterset.filters.items() if parameter.extra["required"]} if filterset else set()
    )
    details = [*_misused(request, accepted, required), *(_invalid(filterset) if filterset else ())]
    if details:
        raise ValidationFailed(details, code=ErrorCode.INVALID_PARAMETER)


def _misused(request: Request, known: Collection[str], required: Collection[str] = ()) -> list[Detail]:
    choice = f"use {', '.join(sorted(known))}" if known else "this operation has none"
    details = []
    for name, values in _sent(request):
        if name not in known:
            details.append(Detail(name, DetailCode.UNKNOWN_FIELD, f"Unknown parameter; {choice}."))
        elif len(values) > 1:
            details.append(Detail(name, DetailCode.DUPLICATE, "Must be given only once."))
        elif not values[0] and name not in required:  # the filter of a required one reports it
            details.append(Detail(name, DetailCode.OUT_OF_RANGE, "Must not be empty; leave it out."))
        elif any("\ud800" <= character <= "\udfff" for character in values[0]):
            details.append(Detail(name, DetailCode.INVALID_VALUE, "Must be UTF-8."))
    return details


def _sent(request: Request) -> Iterable[tuple[str, list[str]]]:
    """Return the parameters. Bytes that are not UTF-8 are lone surrogates, which Django would replace."""
    sent = request.query_params  # raises if there are too many
    query = request.META.get("QUERY_STRING", "")
    if "%" not in query and query.isascii():
        return sent.lists()
    raw = query.encode("latin-1", errors="replace").decode(errors="surrogateescape")
    return parse_qs(raw, keep_blank_values=True, errors="surrogateescape").items()


def _invalid(filterset: Any) -> list[Detail]:
    if filterset.is_valid():
        return []
    return [
        Detail(field, _CODES.get(error.code, DetailCode.INVALID_VALUE), error.messages[0])
        for field, errors in filterset.errors.as_data().items()
        for error in errors
    ]


_CODES = {"max_length": DetailCode.TOO_LONG, "type": DetailCode.INVALID_TYPE, "required": DetailCode.REQUIRED}


class TextFilter(django_filters.CharFilter):
    """A text, including spaces at its ends."""

    def __init__(self, *args: Any, max_length: int = 200, **options: Any) -> None:
        super().__init__(*args, strip=False, max_length=max_length, **options)
        self.schema = {**NAME, "maxLength": max_length}


class ChoiceFilter(django_filters.ChoiceFilter):
    """One of a few words. `initial` is the default that the OpenAPI document names."""

    def __init__(self, words: Iterable[str], *, message: str = "", **options: Any) -> None:
        *others, last = self.words = [str(word) for word in words]
        message = message or f"Must be {', '.join(others)} or {last}."
        super().__init__(
            choices=[(word, word) for word in self.words], error_messages={"invalid_choice": message}, **options
        )
        self.schema = {"type": "string", "enum": self.words}


class _SwitchField(forms.Field):
    def clean(self, value: Any) -> bool | None:
        if value in (None, ""):
            return None
        if value not in ("true", "false"):
            raise forms.ValidationError("Must be true or false.", code="invalid")
        return bool(value == "true")


class SwitchFilter(django_filters.Filter):
    """`true` or `false`."""

    schema: ClassVar[dict[str, Any]] = {"type": "boolean"}
    field_class = _SwitchField


_number = re.compile(r"-?\d{1,30}(\.\d{1,30})?(e-?\d{1,2})?", re.ASCII | re.IGNORECASE)
_whole_number = re.compile(r"-?\d{1,18}", re.ASCII)


class _NumberField(forms.Field):
    def __init__(self, *, is_whole: bool = False, **options: Any) -> None:
        self.is_whole = is_whole
        super().__init__(**options)

    def clean(self, value: Any) -> float | None:
        if value in (None, ""):
            return None
        if self.is_whole:
            if not _whole_number.fullmatch(value):
                raise forms.ValidationError("Must be a whole number such as 2.", code="type")
            return int(value)
        if not _number.fullmatch(value):
            raise forms.ValidationError("Must be a number such as 0.05.", code="type")
        return float(value)


class NumberFilter(django_filters.Filter):
    """A finite number, or an integer if its schema says so. The domain checks its range."""

    field_class = _NumberField

    def __init__(self, schema: dict[str, Any], **options: Any) -> None:
        super().__init__(is_whole=schema["type"] == "integer", **options)
        self.schema = schema


class _MomentField(forms.Field):
    def __init__(self, *, end_of_day: bool = False, **options: Any) -> None:
        self.end_of_day = end_of_day
        super().__init__(**options)

    def clean(self, value: Any) -> Any:
        if value in (None, ""):
            return None
        try:
            # In a query string, an unescaped "+" arrives as a space, which is not valid before an offset.
            return parse_timestamp(_restore_plus(value), end_of_day=self.end_of_day)
        except ValueError:
            message = "Must be a date, or a date and time such as 2026-01-31T12:00:00Z."
            raise forms.ValidationError(message, code="invalid") from None


def _restore_plus(text: str) -> str:
    head, space, tail = text.rpartition(" ")
    return f"{head}+{tail}" if space and ":" in head else text


class MomentFilter(django_filters.Filter):
    """An ISO 8601 date and time. A date alone is its first instant or, with `end_of_day`, its last."""

    schema = MOMENT
    field_class = _MomentField
