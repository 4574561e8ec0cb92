"""Values by their ranks, compared with sorting: as each database finds them, and by counting on any PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from sys import float_info

import pytest
from django.db import connection
from experiments.aggregates import ranks
from experiments.aggregates.dialects import Parameters, dialect

from config.models import Environment
from experiments.models import UserValue
from experiments.results.caps import find_by_rank
from tests.conftest import NOON
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

CHANCE = Random(1)
VALUES = {
    "none": [],
    "one": [7.25],
    "equal": [2.0] * 9,
    "ties": [*[3.0] * 5, *[1.0] * 7, 2.0, 2.0, *[-1.0] * 3, 0.0],
    "negative": [-1.0, -2.5, -1e100, -2.5, -1e-100],
    "neighbours": [1.0, 1.0 + float_info.epsilon, 1.0 - float_info.epsilon, 1.0],
    "huge and tiny": [1e100, 1e-100, -1e100, -1e-100, 5e-324, 0.0, 1e99, 1.5e-100, 1e100],
    "of any size": [CHANCE.choice([-1, 1]) * 10 ** CHANCE.uniform(-100, 100) for _ in range(60)],
    "amounts": [round(CHANCE.lognormvariate(3, 1), 2) for _ in range(60)],
}


# SQLite has no servers that count.
WAYS = ["as usual", *(["counting", "counting to the end"] if connection.vendor == "postgresql" else [])]


@pytest.fixture(params=WAYS)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count also on one server, and until a part has one value, as where each has more users than are fetched."""
    if request.param != "as usual":
        monkeypatch.setattr(ranks, "is_distributed", lambda: True)
    if request.param == "counting to the end":
        monkeypatch.setattr(ranks, "MOST_FETCHED", 0)
        monkeypatch.setattr(ranks, "PARTS", 4)


def rows_of(environment: Environment, values: Sequence[float], parameters: Parameters) -> str:
    experiment = ExperimentFactory(environment=environment, running=True)
    UserValue.objects.bulk_create(
        UserValue(
            experiment=experiment,
            user_id=f"u{at}",
            variant="green",
            exposed_at=NOON,
            is_in_several_variants=False,
            figures=[value],
        )
        for at, value in enumerate(values)
    )
    return f"{UserValue._meta.db_table} WHERE experiment_id = {parameters.put(experiment.pk)}"


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_find_by_rank__any_values__is_the_same_as_sorting(production: Environment, values: Sequence[float]) -> None:
    parameters, value = Parameters(), dialect().figure.format("figures", 0)
    rows = rows_of(production, values, parameters)
    found = [find_by_rank(value, rows, parameters, rank) for rank in range(len(values) + 2)]
    assert found == [*sorted(values, reverse=True), None, None]


def test_thresholds__of_all_floats__separate_any_two_of_them_in_eight_splits() -> None:
    for value in (0.0, 5e-324, -1e-100, 1.0, 1e100, float_info.max):
        least, greatest, splits = -float_info.max, float_info.max, 0
        while least < greatest:
            bounds = [least, *ranks._thresholds(least, greatest)]
            assert bounds == sorted({*bounds})
            assert bounds[-1] == greatest
            at = max(at for at, bound in enumerate(bounds) if bound <= value)
            # The greatest value of a part is the float before the next part.
            least, greatest = bounds[at], greatest if at + 1 == len(bounds) else before(bounds[at + 1])
            splits += 1
        assert least == value
        assert splits <= 8


def before(value: float) -> float:
    return ranks._float_at(ranks._place_of(value) - 1)
