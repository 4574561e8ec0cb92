"""Fields and forms of the admin. They read input as the API reads a body, and the domain validates it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar, cast

from django import forms
from django.core.validators import ProhibitNullCharactersValidator
from django.http import QueryDict
from unfold.widgets import (
    TEXTAREA_CLASSES,
    UnfoldAdminExpandableTextareaWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from config.admin.conflicts import Conflict
from config.api.bodies import Body, check, decode
from config.errors import Detail, DomainError, ErrorCode
from config.slugs import REASON_LENGTH
from config.timestamps import parse_timestamp

_LOCAL = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?)?", re.ASCII)
_MAX_ERRORS = 20
_head = re.compile(r"[A-Za-z]+")
_capital = re.compile(r"[A-Z]")
_blank = re.compile(r"[\s\ufeff]*")  # with what JavaScript takes for white space


class TextField(forms.CharField):
    """Text as typed. The domain checks its length and content."""

    widget = UnfoldAdminTextInputWidget

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"required": False, "strip": False, **options})
        self.validators = [
            validator for validator in self.validators if not isinstance(validator, ProhibitNullCharactersValidator)
        ]

    def to_python(self, value: Any) -> str:
        # Browsers send the line breaks of a textarea as CRLF; a text that was not edited must
        # stay unchanged.
        return str(super().to_python(value)).replace("\r\n", "\n")


class DescriptionField(TextField):
    """Text of a few lines."""

    widget = UnfoldAdminExpandableTextareaWidget


class ReasonField(forms.CharField):
    """The reason for a change, which the history shows."""

    def __init__(self) -> None:
        super().__init__(
            required=False,
            max_length=REASON_LENGTH,
            label="Reason",
            help_text="Why you make this change. The history shows it.",
            widget=UnfoldAdminTextInputWidget(),
        )


class JSONField(forms.CharField):
    """JSON in a textarea, which the script named `editor` replaces by form controls.

    The value of an empty textarea is the result of `blank`.
    """

    def __init__(
        self, *, name: str, editor: str = "", blank: Callable[[], Any] = list, rows: int = 12, **options: Any
    ) -> None:
        self.name = name
        self.blank = blank
        classes = " ".join([*TEXTAREA_CLASSES, "hy-json"])
        attributes = {"rows": rows, "spellcheck": "false", "class": classes}
        if editor:
            attributes["data-editor"] = editor
        widget = UnfoldAdminTextareaWidget(attributes)
        super().__init__(**{"required": False, "strip": False, "initial": blank(), "widget": widget, **options})

    def prepare_value(self, value: Any) -> Any:
        # Input that was sent is a text already, and is shown again as it was typed.
        if isinstance(value, str):
            return value
        return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)

    def clean(self, value: Any) -> Any:
        if not (value or "").strip():
            return self.blank()
        try:
            body = decode(value.encode("utf-8", "surrogatepass"))
            # Checked under its name, as in a body, so that errors have the same paths.
            return check(Body({self.name: body.value}, body.is_suspect))[self.name]
        except DomainError as refusal:
            message = refusal.message.replace("The body", f"The field {self.name}", 1)
            raise forms.ValidationError([_text(detail) for detail in refusal.details] or message) from refusal


def _unquoted(line: str) -> str | None:
    """Return the string of a line of quoted JSON, or None for a plain line. A line may be in quotes and plain."""
    if not line.startswith('"'):
        return None
    try:
        text = json.loads(line)
    except ValueError:
        return None
    return text if _needs_quotes(text) else None


def _needs_quotes(text: str) -> bool:
    return "\n" in text or "\r" in text or bool(_blank.fullmatch(text)) or _unquoted(text) is not None


class LinesField(TextField):
    """A list of strings, one a line. Blank lines are ignored.

    A string that a plain line cannot show, such as one with a line break, is written as JSON in double quotes. So a
    form that is sent as it was loaded changes nothing. `lines.js` does the same.
    """

    def __init__(self, **options: Any) -> None:
        classes = " ".join([*TEXTAREA_CLASSES, "hy-lines"])
        attributes = {"rows": 10, "spellcheck": "false", "class": classes}
        super().__init__(**{"widget": UnfoldAdminTextareaWidget(attributes), **options})

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return "\n".join(json.dumps(text, ensure_ascii=False) if _needs_quotes(text) else text for text in value)

    def clean(self, value: Any) -> Any:
        lines = [line for line in self.to_python(value).split("\n") if not _blank.fullmatch(line)]
        return [line if (text := _unquoted(line)) is None else text for line in lines]


class WordsField(TextField):
    """A list of strings on one line, separated by commas."""

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> Any:
        return [word.strip() for word in self.to_python(value).split(",") if word.strip()]


class MomentInput(UnfoldAdminTextInputWidget):
    """A date and a time of day in UTC.

    Browsers edit no more than milliseconds, so a time with microseconds is text.
    """

    def format_value(self, value: Any) -> str | None:
        if not isinstance(value, datetime):
            return str(value) if value else None
        moment = value.astimezone(UTC).replace(tzinfo=None)
        whole = moment.isoformat(timespec="seconds")
        if not moment.microsecond:
            return whole
        fraction = f".{moment.microsecond:06}".rstrip("0")
        return (
            f"{whole}{fraction}" if _LOCAL.fullmatch(f"{whole}{fraction}") else f"{whole}{fraction}".replace("T", " ")
        )

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context(name, value, attrs)
        context["widget"]["attrs"]["data-moment"] = ""  # the local time stands beside it
        if _LOCAL.fullmatch(context["widget"]["value"] or ""):
            context["widget"]["type"] = "datetime-local"
            has_seconds = isinstance(value, datetime) and (value.second or value.microsecond)
            context["widget"]["attrs"]["step"] = "any" if has_seconds else 60
        return context


class MomentField(forms.CharField):
    """A point in time, in the formats of the API."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"required": False, "widget": MomentInput(), **options})

    def clean(self, value: Any) -> datetime | None:
        text = super().clean(value)
        try:
            return parse_timestamp(text) if text else None
        except ValueError as error:
            raise forms.ValidationError("Must be a date and time such as 2026-01-31T12:00:00Z.") from error


class StrictForm(forms.BaseForm):
    """A form that refuses the same strings as the API, in every field."""

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or self.cleaned_data
        texts = {_api_name(name): value for name, value in values.items() if isinstance(value, str | list)}
        try:
            check(Body(texts, is_suspect=True))
        except DomainError as refusal:
            self.add_refusal(refusal)
        return values

    def add_refusal(self, refusal: DomainError) -> None:
        """Show the errors of the domain at the fields that they name."""
        for detail in refusal.details[:_MAX_ERRORS]:
            name = _field_name(detail)
            self.add_error(name if name in self.fields else None, _text(detail))
        if (more := len(refusal.details) - _MAX_ERRORS) > 0:
            self.add_error(None, f"And {more:,} more invalid fields.")
        if not refusal.details:
            is_about_key = refusal.code is ErrorCode.ALREADY_EXISTS and "key" in self.fields
            self.add_error("key" if is_about_key else None, refusal.message)


class DomainForm(StrictForm, forms.ModelForm):  # type: ignore[type-arg]  # of any model
    """A form whose values a function of the domain validates.

    `refusal` is the error that this function raised for the values. `loaded` are the initial values. After a
    `conflict`, the form overwrites what somebody else has saved if it is sent again.
    """

    conflict: ClassVar[Conflict | None] = None
    version_field: ClassVar[str] = "version"
    refusal: ClassVar[DomainError | None] = None
    loaded: ClassVar[dict[str, Any]] = {}
    reason = ReasonField()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.initial = {**self.loaded, **self.initial}
        if self.conflict is not None and self.is_bound:
            data = cast(QueryDict, self.data).copy()
            data[self.version_field] = self.conflict.version
            self.data = data

    def clean(self) -> dict[str, Any]:
        values = super().clean()
        if self.refusal is not None:
            self.add_refusal(self.refusal)
        return values

    def _post_clean(self) -> None:
        """Skip Django's checks of the model, whose messages differ from the API's."""


def _api_name(field: str) -> str:
    """Return `expiresAt` for `expires_at`."""
    first, *more = field.split("_")
    return first + "".join(word.capitalize() for word in more)


def _field_name(detail: Detail) -> str:
    """Return `rules` for `rules[0].percentage`, `expires_at` for `expiresAt`."""
    head = _head.match(detail.field)
    return _capital.sub(lambda capital: f"_{capital[0].lower()}", head[0]) if head else ""


def _text(detail: Detail) -> str:
    # The message is shown below the field, so only a path inside the field needs to be named.
    return f"{detail.field}: {detail.message}" if re.search(r"[.\[]", detail.field) else detail.message


class EnvironmentalForm(DomainForm):
    """A form that writes in one environment, with a hidden field for the environment that it was opened in."""

    opened_in = forms.CharField(required=False, widget=forms.HiddenInput())
