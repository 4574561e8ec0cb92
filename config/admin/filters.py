"""The filters of lists: a few choices side by side, or a menu."""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin
from django.utils.functional import cached_property


class ChoiceFilter(admin.SimpleListFilter):
    """A filter of a few choices, shown side by side.

    `otherwise` labels the list without a choice.
    """

    template = "admin/segmented_filter.html"
    otherwise: ClassVar[str] = ""

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
        """Return what the menu calls its choice."""
        return next((str(words) for value, words in self.lookup_choices if value == self.value()), "")
