"""What imports say at their end about data that is valid, but looks wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from events.imports.inspection import Inspection, fold
from events.models import Event
from tests.events.imports.importing import run, write

pytestmark = pytest.mark.django_db

ODD = ["337,300.00", ".5", "+3", " 5", "NaN", "5 ", "1.", "-inf", "1'000", "1\u00a0000,50", "12,5", "1.234.567", "1e5 "]
"""Texts that are hardly meant as texts."""
PLAIN = ["5", "0123", "-2.5", "1e5"]
"""Texts that may be texts on purpose."""
OTHERS = ["", "abc", "2026-01-31", "10:30", "1.2.3", "12 Main Street", "nano", "1,2,3", "-", "0x10", "5" * 50]


def warnings(*values: Any) -> list[str]:
    with Inspection() as inspection:
        inspection.add((line, "u", {"sales": value}) for line, value in enumerate(values, 2))
        return list(inspection.warnings("property"))


def test_inspection__texts__are_named_where_they_look_like_numbers() -> None:
    assert [value for value in [*ODD, *PLAIN, *OTHERS] if warnings(value)] == ODD
    assert [value for value in [*ODD, *PLAIN, *OTHERS] if warnings(7, value)] == [*ODD, *PLAIN]
    assert warnings(7, 2.5, True, None, ["+3"], {"a": "+3"}) == []


def test_inspection__several_texts__are_counted_with_the_oddest_as_an_example() -> None:
    assert warnings(1, "5", "6", "337,300.00", "+3", "many") == [
        'property sales: 4 texts in place of numbers, such as "337,300.00" in line 5. A text is never added up, and '
        "meets no comparison with a number."
    ]


def test_inspection__many_properties__lists_the_first() -> None:
    with Inspection() as inspection:
        inspection.add([(1, "u", {f"p{number}": "+3" for number in range(22)})])
        listed = list(inspection.warnings("property"))
    assert len(listed) == 21
    assert listed[-1] == "and 2 more"


def test_inspection__similar_ids_in_several_parts__are_counted() -> None:
    with Inspection() as inspection:
        for part in (["ada", "bob", "Straße"], ["Ada ", "bob", "STRASSE"], ["ADA", "b\u200bob", "c"]):
            inspection.add((1, user_id, {}) for user_id in part)
        assert list(inspection.warnings("property")) == [
            '3 user ids differ from another one in blanks or case alone, such as "ada" and "Ada ". They count as '
            "different users."
        ]
    assert fold("\u00a0A\tb\ufeff ") == "ab"


def test_import__odd_file__is_stored_and_says_so(tmp_path: Path) -> None:
    rows = ["buy,ada,2026-01-01,5", 'buy,Ada,2026-01-01,"337,300.00"', "buy,bob,2026-01-01,NaN"]
    file = write(tmp_path, "events.csv", "event,userId,timestamp,properties.sales", *rows)
    assert run("import_events", file)[0] == (
        "Imported 3 events; 0 were already stored.\n"
        "This looks wrong:\n"
        '- property sales: 2 texts in place of numbers, such as "337,300.00" in line 3. A text is never added up, and '
        "meets no comparison with a number.\n"
        '- 1 user id differs from another one in blanks or case alone, such as "ada" and "Ada". They count as '
        "different users.\n"
    )


def test_import__second_export_with_other_fractions__stores_nothing_twice(tmp_path: Path) -> None:
    values = [5, -0.0, 1e15, 2.5, 1e300, [1.0, {"a": 2.0}], 2**63]
    others = [5.0, 0, 10**15, 2.5, 1e300, [1, {"a": 2}], 2**63]
    for part in (values, others):
        event = {"event": "buy", "userId": "u", "timestamp": "2026-01-01T00:00:00Z"}
        lines = [json.dumps({**event, "properties": {"sales": value}}) for value in part]
        run("import_events", write(tmp_path, "events.ndjson", *lines))
    assert Event.objects.count() == len(values)
