"""Fields for numbers as people type them: `12.5`, `12,5`, `10 000`, `5 %`. Ambiguous input is refused."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from django import forms
from unfold.widgets import UnfoldAdminTextInputWidget

from config.admin.forms import TextField
from config.api.bodies import check, decode
from config.errors import DomainError

_MAX_LENGTH = 40
_SPACES = " \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}"
_BETWEEN_THOUSANDS = f"[{_SPACES}'\N{RIGHT SINGLE QUOTATION MARK}]"
_WITH_SPACES = re.compile(rf"\d{{1,3}}(?:{_BETWEEN_THOUSANDS}\d{{3}})+(?:[.,]\d+)?", re.ASCII)
_DECIMAL = re.compile(r"\d*[.,]\d+|\d+", re.ASCII)
_SEVERAL_MARKS = re.compile(r"\d[\d.,]*[.,][\d.,]*\d", re.ASCII)
_IN_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}([.,])\d{3}(?:\1\d{3})*", re.ASCII)
_COMMA_OR_THOUSANDS = re.compile(r"[1-9]\d{0,2},\d{3}", re.ASCII)


class NumberField(TextField):
    """A JSON number, or None for an empty input. The domain checks its range."""

    example: ClassVar[str] = "a number such as 24 or 99.5"
    takes_percent: ClassVar[bool] = False

    def __init__(self, **options: Any) -> None:
        widget = UnfoldAdminTextInputWidget({"inputmode": "decimal", "autocomplete": "off"})
        super().__init__(**{"widget": widget, **options})

    def prepare_value(self, value: Any) -> Any:
        return int(value) if isinstance(value, float) and value.is_integer() else value

    def clean(self, value: Any) -> Any:
        text = self.to_python(value).strip()
        if not text:
            return None
        bare = text.removesuffix("%").rstrip(_SPACES)
        if bare != text and not self.takes_percent:
            raise forms.ValidationError("Must be a number without a percent sign.")
        return self.to_value(self._read(bare), has_sign=bare != text)

    def to_value(self, number: int | float, *, has_sign: bool) -> int | float:
        """Return the value for a number. `has_sign`: the input has a percent sign."""
        return number

    def _read(self, text: str) -> int | float:
        try:
            number = check(decode(_as_json(text).encode("utf-8", "surrogatepass")))
        except DomainError as refusal:
            raise forms.ValidationError(f"Must be {self.example}.") from refusal
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise forms.ValidationError(f"Must be {self.example}.")
        return number


class WholeNumberField(NumberField):
    """A whole number, so `10,000` and `10.000` can only mean ten thousand."""

    def clean(self, value: Any) -> int | None:
        text = self.to_python(value).strip()
        digits = re.sub("[.,]", "", text) if _IN_THOUSANDS.fullmatch(text) else text
        number: int | float | None = super().clean(digits)
        if isinstance(number, float):
            raise forms.ValidationError("Must be a whole number such as 2.")
        return number


class PercentageField(NumberField):
    """A number of percent, with or without the sign: `5` and `5 %` are 5."""

    example = "a percentage such as 5 % or 12.5 %"
    takes_percent = True

    def prepare_value(self, value: Any) -> Any:
        return f"{value:.15g} %" if isinstance(value, (int, float)) else value


class PercentField(PercentageField):
    """A share that people see and type in percent: `5` and `5 %` are 0.05.

    `0.05` without the sign is refused, because those who know the API mean 5 %.
    """

    def prepare_value(self, value: Any) -> Any:
        return super().prepare_value(100 * value if isinstance(value, (int, float)) else value)

    def to_value(self, number: int | float, *, has_sign: bool) -> float:
        if not has_sign and 0 < abs(number) < 1:
            meanings = f"{number:.15g} % or {100 * number:.15g} %"
            raise forms.ValidationError(f"Could mean {meanings}. Write one of them, with the percent sign.")
        return float(f"{number / 100:.15g}")


class FractionField(NumberField):
    """A number of any unit, which may also be given in percent: `0.05` and `5 %` are 0.05."""

    example = "a number such as 0.05, or a percentage such as 5 %"
    takes_percent = True

    def to_value(self, number: int | float, *, has_sign: bool) -> int | float:
        return float(f"{number / 100:.15g}") if has_sign else number


def _as_json(text: str) -> str:
    """Return the number in JSON. Raises ValidationError if it is ambiguous. Other text is returned unchanged."""
    sign, digits = ("-", text[1:]) if text[:1] in ("-", "\N{MINUS SIGN}") else ("", text.removeprefix("+"))
    if _COMMA_OR_THOUSANDS.fullmatch(digits):
        meanings = f"{sign}{digits.replace(',', '.')} or {sign}{digits.replace(',', '')}"
        raise forms.ValidationError(f"Could mean {meanings}. Write one of them.")
    if _WITH_SPACES.fullmatch(digits):
        digits = re.sub(_BETWEEN_THOUSANDS, "", digits)
    if not _DECIMAL.fullmatch(digits):
        if _SEVERAL_MARKS.fullmatch(digits) and len(digits) <= _MAX_LENGTH:
            raise forms.ValidationError(f"Write {sign}{_without_thousands(digits)}, without a mark between thousands.")
        return text
    whole, mark, decimals = digits.replace(",", ".").partition(".")
    return f"{sign}{whole.lstrip('0') or '0'}{mark}{decimals}"


def _without_thousands(digits: str) -> str:
    """Return the likely meaning: the last mark is the decimal one, unless it appears more than once."""
    last = max(digits.rfind("."), digits.rfind(","))
    whole, decimals = re.sub("[.,]", "", digits[:last]), digits[last + 1 :]
    return f"{whole}.{decimals}" if digits.count(digits[last]) == 1 else f"{whole}{decimals}"
