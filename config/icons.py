"""Hides icons from screen readers. An icon is a ligature of a font, such as the text `flag`, which they would read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from django.conf import settings
from django.forms import renderers
from django.forms.renderers import DjangoTemplates
from django.template import Origin
from django.template.loaders import app_directories
from django.template.utils import get_app_template_dirs
from django.utils.functional import cached_property

_ICON = re.compile(
    r'<(span|div)(?![^<>]*(?:aria-hidden|role="img"))(?=[^<>]*class="[^"]*\bmaterial-symbols-outlined\b)'
)


class Loader(app_directories.Loader):
    """Loads all templates, also those of the theme, and hides their icons from screen readers.

    An icon that says something has `role="img"` and a label.
    """

    def get_dirs(self) -> list[str | Path]:
        return [*self.engine.dirs, *get_app_template_dirs("templates")]

    def get_contents(self, origin: Origin) -> str:
        return hide_icons(super().get_contents(origin))


class FormRenderer(DjangoTemplates):
    """Renders form fields as Django does, from templates that come through `Loader`."""

    @cached_property
    def engine(self) -> Any:
        # Read from the setting, because the theme renders a field before the engine of pages can be made.
        pages: Any = settings.TEMPLATES[0]
        options = {"loaders": pages["OPTIONS"]["loaders"]}
        folder = Path(renderers.__file__).parent / "templates"
        return self.backend({"APP_DIRS": False, "DIRS": [folder], "NAME": "forms", "OPTIONS": options})


def hide_icons(source: str) -> str:
    """Return the source of a template in which icons are hidden from screen readers."""
    return _ICON.sub(r'<\1 aria-hidden="true"', source)
