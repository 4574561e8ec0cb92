"""The filters of lists: a few choices side by side, or a menu."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.views.main import ERROR_FLAG, IGNORED_PARAMS, PAGE_VAR
from django.http import HttpRequest
from django.utils.functional import cached_property

from config.timestamps import parse_timestamp

_OF_EVERY_LIST = {*IGNORED_PARAMS, PAGE_VAR, ERROR_FLAG}


class IgnoresUnknownParameters:
    """A mixin for pages whose list ignores unknown parameters.

    Mailers and ad networks add parameters to shared links. Django takes each of them for a lookup of a column and
    refuses the page. The links of the page leave them out, too.
    """

    def knows_parameter(self, request: HttpRequest, name: str) -> bool:
        """Return whether the list reads the parameter. Django makes lookups of those that `lookup_allowed` allows."""
        return name in _OF_EVERY_LIST or bool(self.lookup_allowed(name, "", request))  # type: ignore[attr-defined]  # of the model admin

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        # The columns, the list and its templates all read the query string from the request.
        known = request.GET.copy()
        for name in request.GET:
            if not self.knows_parameter(request, name):
                del known[name]
        request.GET = known  # type: ignore[assignment]  # a copy can be changed
        return super().get_changelist_instance(request)  # type: ignore[misc]  # of the model admin


class ChoiceFilter(admin.SimpleListFilter):
    """A filter of a few choices, shown side by side.

    `otherwise` labels the list without a choice.
    """

    template = "admin/segmented_filter.html"
    otherwise: ClassVar[str] = ""

    @classmethod
    def names(cls) -> Sequence[str | None]:
        """Return the names of its parameters in the query string."""
        return (cls.parameter_name,)

    def value(self) -> str | None:
        """Return the choice in the query string, if it is a valid one."""
        return self._valid_choice

    @cached_property
    def _valid_choice(self) -> str | None:
        # Every choice of a list asks for the value, and a menu may have hundreds.
        chosen: str | None = super().value()
        return chosen if chosen in [value for value, _ in self.lookup_choices] else None


class MenuFilter(ChoiceFilter):
    """A filter of any number of choices, in a menu."""

    template = "admin/menu_filter.html"

    @property
    def chosen(self) -> str:
        """Return the label of the choice, empty without one."""
        return next((str(words) for value, words in self.lookup_choices if value == self.value()), "")


_BOUNDS = {"from": "gte", "to": "lte"}


class DayFilter(admin.ListFilter):
    """A filter of `column` by days in UTC. It also accepts times, like the parameters of the API."""

    title = "day"
    template = "admin/day_filter.html"
    column: ClassVar[str]

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        for name in _BOUNDS:
            if text := params.pop(name, [""])[-1]:
                self.used_parameters[name] = text
        self.bounds: dict[str, datetime] = {}
        self.errors: dict[str, str] = {}
        for name, text in self.used_parameters.items():
            try:
                self.bounds[name] = parse_timestamp(str(text), end_of_day=name == "to")
            except ValueError:
                self.errors[name] = "Must be a day such as 2026-01-31."

    @classmethod
    def names(cls) -> Sequence[str | None]:
        return [*_BOUNDS]

    def expected_parameters(self) -> list[str | None]:
        return [*_BOUNDS]

    def has_output(self) -> bool:
        return True

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        """Yield the hidden inputs of the form: the other filters and the search."""
        for name, values in changelist.filter_params.items():
            if name not in _BOUNDS:
                yield from ({"name": name, "value": value} for value in values)

    @property
    def fields(self) -> list[dict[str, Any]]:
        """Return the inputs, which are for days unless a time was sent."""
        sent: dict[str, Any] = self.used_parameters
        return [
            {
                "name": name,
                "label": f"{name.capitalize()}, UTC",
                "value": sent.get(name, ""),
                "type": "date" if len(sent.get(name, "")) in (0, len("2026-01-31")) else "text",
                "error": self.errors.get(name),
            }
            for name in _BOUNDS
        ]

    @property
    def chosen(self) -> str:
        """Return the label of the choice, empty without one."""
        return " ".join(f"{name} {text}" for name, text in self.used_parameters.items())

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        if self.errors:
            return queryset.none()
        return queryset.filter(**{f"{self.column}__{_BOUNDS[name]}": bound for name, bound in self.bounds.items()})
