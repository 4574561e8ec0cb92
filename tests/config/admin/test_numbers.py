"""Numbers and percentages as people type them: what is read, what is refused and why, and what is shown again."""

from __future__ import annotations

import pytest
from django import forms

from config.admin.numbers import FractionField, NumberField, PercentageField, PercentField, WholeNumberField


def refusal(field: NumberField, text: str) -> str:
    with pytest.raises(forms.ValidationError) as raised:
        field.clean(text)
    return str(raised.value.messages[0])


NUMBERS = [
    ("5", 5),
    (" 24 ", 24),
    ("-3", -3),
    ("\N{MINUS SIGN}3", -3),
    ("+3", 3),
    ("12.5", 12.5),
    ("12,5", 12.5),
    ("-12,5", -12.5),
    ("0,125", 0.125),
    ("1,2345", 1.2345),
    ("1234,567", 1234.567),
    ("1.234", 1.234),
    (".5", 0.5),
    (",5", 0.5),
    ("007", 7),
    ("0", 0),
    ("10 000", 10_000),
    ("10\N{NO-BREAK SPACE}000", 10_000),
    ("10'000", 10_000),
    ("1\N{RIGHT SINGLE QUOTATION MARK}234,5", 1234.5),
    ("1 234.5", 1234.5),
    ("1e-3", 0.001),
]


def test_number__as_people_type_it__is_read() -> None:
    for text, number in NUMBERS:
        read = NumberField().clean(text)
        assert read == number, (text, number)
        assert type(read) is type(number), (text, number)


def test_whole_number__with_marks_between_thousands__is_read() -> None:
    for text, number in [
        ("10,000", 10_000),
        ("10.000", 10_000),
        ("-1,234,567", -1_234_567),
        ("1.234.567", 1_234_567),
        ("12", 12),
    ]:
        assert WholeNumberField().clean(text) == number, (text, number)


def test_whole_number__with_a_fraction__is_refused() -> None:
    for text, words in [
        ("2.5", "Must be a whole number such as 2."),
        ("1,23", "Must be a whole number such as 2."),
        ("0,123", "Must be a whole number such as 2."),
        ("1,234.567", "Write 1234.567, without a mark between thousands."),
        ("many", "Must be a number such as 24 or 99.5."),
    ]:
        assert refusal(WholeNumberField(), text) == words, text


def test_number__of_two_meanings_or_none__is_refused_in_words() -> None:
    for text, words in [
        ("1,234", "Could mean 1.234 or 1234. Write one of them."),
        ("-1,000", "Could mean -1.000 or -1000. Write one of them."),
        ("1,234.5", "Write 1234.5, without a mark between thousands."),
        ("1.234,5", "Write 1234.5, without a mark between thousands."),
        ("-1,234,567", "Write -1234567, without a mark between thousands."),
        ("1.234.567", "Write 1234567, without a mark between thousands."),
        ("5 %", "Must be a number without a percent sign."),
        ("many", "Must be a number such as 24 or 99.5."),
        ("1 2", "Must be a number such as 24 or 99.5."),
        ("1 0000", "Must be a number such as 24 or 99.5."),
        ("5.", "Must be a number such as 24 or 99.5."),
        ("--5", "Must be a number such as 24 or 99.5."),
        ("true", "Must be a number such as 24 or 99.5."),
        ('"5"', "Must be a number such as 24 or 99.5."),
        ("NaN", "Must be a number such as 24 or 99.5."),
        ("1e999", "Must be a number such as 24 or 99.5."),
        ("1,2" * 30, "Must be a number such as 24 or 99.5."),
        ("٣", "Must be a number such as 24 or 99.5."),
        ("\ud800", "Must be a number such as 24 or 99.5."),
    ]:
        assert refusal(NumberField(), text) == words, text


@pytest.mark.parametrize("field", [NumberField(), PercentageField(), PercentField(), FractionField()])
def test_number__left_empty__is_nothing(field: NumberField) -> None:
    assert field.clean("") is None
    assert field.clean("  ") is None
    assert field.prepare_value(None) is None


def test_percentage__with_or_without_its_sign__is_the_same() -> None:
    for text, percentage, share in [
        ("5", 5, 0.05),
        ("5 %", 5, 0.05),
        ("5%", 5, 0.05),
        ("5\N{NO-BREAK SPACE}%", 5, 0.05),
        ("12,5", 12.5, 0.125),
        ("12.5%", 12.5, 0.125),
        ("0.05 %", 0.05, 0.0005),
        ("-5 %", -5, -0.05),
        ("1 000 %", 1000, 10.0),
        ("7", 7, 0.07),
        ("0", 0, 0.0),
    ]:
        assert PercentageField().clean(text) == percentage, (text, percentage)
        assert PercentField().clean(text) == share, (text, percentage)


@pytest.mark.parametrize("field", [PercentageField(), PercentField()])
def test_percentage__of_two_meanings_or_none__is_refused_in_words(field: NumberField) -> None:
    assert refusal(field, "1,234.5 %") == "Write 1234.5, without a mark between thousands."
    assert refusal(field, "1,000%") == "Could mean 1.000 or 1000. Write one of them."
    for text in ("%", "5 % %", "5 percent", "a tenth"):
        assert refusal(field, text) == "Must be a percentage such as 5 % or 12.5 %."


@pytest.mark.parametrize(
    ("text", "meanings"), [("0.05", "0.05 % or 5 %"), ("-0,5", "-0.5 % or -50 %"), (".999", "0.999 % or 99.9 %")]
)
def test_share__that_looks_like_one_of_the_api__is_refused_without_a_sign(text: str, meanings: str) -> None:
    assert refusal(PercentField(), text) == f"Could mean {meanings}. Write one of them, with the percent sign."


def test_share__stored__is_shown_in_percent_and_read_again() -> None:
    for stored, shown in [
        (0.05, "5 %"),
        (0.07, "7 %"),
        (0.125, "12.5 %"),
        (0.995, "99.5 %"),
        (0.0005, "0.05 %"),
        (10.0, "1000 %"),
        (1, "100 %"),
    ]:
        assert PercentField().prepare_value(stored) == shown, stored
        assert PercentField().clean(shown) == stored, stored
        assert PercentageField().prepare_value(100 * stored) == shown, stored


def test_share__typed__is_shown_again_as_it_was_typed() -> None:
    assert PercentField().prepare_value("a tenth") == "a tenth"


def test_fraction__is_a_number_unless_it_has_a_percent_sign() -> None:
    for text, number in [("0.05", 0.05), ("5 %", 0.05), ("12,5%", 0.125), ("20", 20), *NUMBERS]:
        assert FractionField().clean(text) == number, (text, number)
