"""A second `import_exposures`: which attributes an exposure has afterwards, and what it does not touch."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.recording import NewEvent, new_id, record
from experiments.exposures.recording import assign
from experiments.models import Experiment, Exposure
from tests.conftest import NOON
from tests.experiments.api.test_exposure_imports import HOUR, line, load, stored
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def experiment() -> Experiment:
    """Started at noon."""
    return ExperimentFactory(key="e", running=True)


def attributes() -> Any:
    return Exposure.objects.values_list("attributes", flat=True).get()


def of_country(country: str | None, **values: Any) -> str:
    return line(**values) if country is None else line(attributes={"country": country}, **values)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((None, 1), ("CH", 1), "CH"),
        ((None, 1), ("CH", 2), "CH"),
        ((None, 2), ("CH", 1), "CH"),
        (("CH", 1), (None, 1), "CH"),
        (("CH", 2), (None, 1), "CH"),
        (("CH", 1), ("US", 1), "CH"),
        (("CH", 1), ("US", 2), "CH"),
        (("CH", 2), ("US", 1), "US"),
    ],
)
@pytest.mark.parametrize("is_one_file", [False, True])
def test_second_import__attributes__fill_gaps_and_otherwise_those_of_the_earlier_exposure_win(
    tmp_path: Path,
    first: tuple[str | None, int],
    second: tuple[str | None, int],
    expected: str,
    is_one_file: bool,
) -> None:
    lines = [of_country(country, hours=hours) for country, hours in (first, second)]
    for file in [lines] if is_one_file else [[text] for text in lines]:
        load(tmp_path, *file)
    assert attributes() == {"country": expected}
    assert Exposure.objects.get().exposed_at == NOON + min(first[1], second[1]) * HOUR


@pytest.mark.parametrize("described", range(3))
@pytest.mark.parametrize("variants", ["control green green", "control green control", "control control green"])
@pytest.mark.parametrize("is_one_file", [False, True])
def test_imports__of_two_variants__keep_the_attributes_that_one_line_has_in_any_order(
    tmp_path: Path, variants: str, described: int, is_one_file: bool
) -> None:
    lines = [
        of_country("CH" if index == described else None, variant=variant, hours=index + 1)
        for index, variant in enumerate(variants.split())
    ]
    for ordered in permutations(lines):
        Exposure.objects.all().delete()
        for file in [ordered] if is_one_file else [[text] for text in ordered]:
            load(tmp_path, *file)
        assert stored() == [("u", "control", 1, "imported", True)]
        assert attributes() == {"country": "CH"}


@pytest.mark.parametrize("is_reversed", [False, True])
def test_imports__of_two_variants_with_attributes__have_those_of_the_earlier_one(
    tmp_path: Path, is_reversed: bool
) -> None:
    lines = [of_country("CH", variant="control", hours=1), of_country("US", variant="green", hours=2)]
    for text in reversed(lines) if is_reversed else lines:
        load(tmp_path, text)
    assert attributes() == {"country": "CH"}


def test_import__attributes_of_an_assigned_user__are_stored_if_there_are_none(
    experiment: Experiment, tmp_path: Path
) -> None:
    assign(experiment.pk, "u", "green", NOON + HOUR)
    assign(experiment.pk, "v", "green", NOON + HOUR, {"country": "US"})
    load(tmp_path, of_country("CH", hours=2), of_country("CH", user_id="v", hours=0.5))
    assert dict(Exposure.objects.values_list("user_id", "attributes")) == {
        "u": {"country": "CH"},
        "v": {"country": "US"},
    }
    assert stored() == [("u", "green", 1, "told", False), ("v", "green", 0.5, "told", False)]


def test_event__earlier_than_an_imported_exposure__brings_its_own_attributes(production: Any, tmp_path: Path) -> None:
    load(tmp_path, of_country("CH", hours=2))
    at = NOON + HOUR
    record([NewEvent(new_id(), "u", "seen", at, at, {"experimentId": "e", "variant": "green"})], production)
    assert attributes() is None


def test_second_import__with_attributes__changes_only_rows_that_lack_them(tmp_path: Path) -> None:
    load(tmp_path, of_country("CH", user_id="u"), of_country(None, user_id="v"))
    Exposure.objects.update(arrival=-1)
    load(tmp_path, of_country("CH", user_id="u"), of_country("CH", user_id="v"))
    assert set(Exposure.objects.filter(arrival=-1).values_list("user_id", flat=True)) == {"u"}
    assert list(Exposure.objects.values_list("attributes", flat=True)) == [{"country": "CH"}] * 2


def test_import__many_users_that_change__takes_as_many_statements_as_few(
    experiment: Experiment, tmp_path: Path
) -> None:
    """The time of an import does not depend on how many of its users have been exposed before."""

    def statements(users: int) -> int:
        for number in range(users):
            assign(experiment.pk, f"{users}-{number}", "green", NOON + 2 * HOUR)
        lines = [line(f"{users}-{number}", hours=1) for number in range(users)]
        with CaptureQueriesContext(
            connection,
        ) as queries:
            load(tmp_path, *lines)
        return len(queries)

    statements(3)  # from now on, the process expects users who were exposed before
    assert statements(50) == statements(2)
    assert {row[2] for row in stored()} == {1}
