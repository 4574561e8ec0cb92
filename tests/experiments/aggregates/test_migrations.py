"""Migrations keep the figures of totals and sums, forwards and backwards."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from experiments.metrics.definition import Definition, Quantity
from experiments.models.fields import EXACT
from tests.conftest import NOON

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.one_server("tables are spread once all migrations are applied"),
]

LONG = ("experiments", "0004_fold_afresh")
SHORT = ("experiments", "0005_shorter_totals")
WITHOUT_PHASES = ("experiments", "0008_first_phases")
BY_PHASE = ("experiments", "0009_sums_by_phase")
IMPORTED = ("experiments", "0011_imported_exposures")
ID = UUID(int=7)
DEFINITIONS = [
    Definition("bought", 1, "conversion", Quantity("buy")),
    Definition("rate", 1, "ratio", Quantity("buy"), denominator=Quantity("view")),
    Definition("revenue", 1, "revenue", Quantity("buy", "revenue", "EUR")),
]
LONGER = [*map(float, (1, 0, 1, 2, 0, 2, 3, 0, 2, 0, 0.1, 0, 9.75, 2, 1))]


def migrate_to(target: tuple[str, str]) -> Any:
    """Migrate to a migration, and return the models of its state."""
    executor = MigrationExecutor(connection)
    executor.migrate([target])
    return executor.loader.project_state([target]).apps


@pytest.fixture
def _restored() -> Iterator[None]:
    yield
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def figures(models: Any) -> list[float]:
    [stored] = models.get_model("experiments", "UserTotal").objects.values_list("figures", flat=True)
    return list(stored)


def make_experiment(models: Any) -> Any:
    return models.get_model("experiments", "Experiment").objects.create(
        id=ID,
        environment=models.get_model("config", "Environment").objects.get(key="production"),
        key="e",
        status="running",
        started_at=NOON,
        created_at=NOON,
        definitions=[definition.document() for definition in DEFINITIONS],
    )


@pytest.mark.usefixtures("_restored")
def test_migrations__longer_totals__keep_the_figures_that_each_metric_has() -> None:
    models = migrate_to(LONG)
    models.get_model("experiments", "UserTotal").objects.create(
        experiment=make_experiment(models),
        user_id="u",
        variant="a",
        exposed_at=NOON,
        is_in_several_variants=False,
        figures=LONGER,
    )

    assert figures(migrate_to(SHORT)) == [1, 1, 2, 2, 3, 2, 0.1, 9.75, 2, 1]
    assert figures(migrate_to(LONG)) == LONGER


FIGURES = {"users": 3, "several": 1, "positive": 2, "measured": 1, "events": 2**40, "foreign": 5}
EXACTLY = Decimal("1000000000000000000000000000000000000000.30000000000000004")


def sums_of(models: Any) -> list[dict[str, Any]]:
    return list(models.get_model("experiments", "VariantSums").objects.order_by("metric", "day").values())


@pytest.mark.usefixtures("_restored")
def test_migrations__sums_without_phases__become_those_of_phase_1_to_the_last_digit() -> None:
    models = migrate_to(WITHOUT_PHASES)
    sums, experiment = models.get_model("experiments", "VariantSums"), make_experiment(models)
    for metric in (-1, 0):
        values = {"variant": "a", "day": NOON.date(), "y": EXACTLY, "yd": -EXACTLY, **FIGURES}
        sums.objects.create(experiment_id=experiment.pk, metric=metric, **values)
    before = sums_of(models)

    models = migrate_to(BY_PHASE)
    after = sums_of(models)
    assert [row.pop("phase") for row in after] == [1, 1]
    assert after == before
    later = {"variant": "a", "phase": 2, "day": NOON.date(), "y": Decimal(1), **FIGURES}
    models.get_model("experiments", "VariantSums").objects.create(experiment_id=experiment.pk, metric=0, **later)

    exposed, measured = sums_of(migrate_to(WITHOUT_PHASES))
    assert exposed == before[0]
    assert measured == before[1] | {"y": EXACT.add(EXACTLY, 1)} | {name: 2 * value for name, value in FIGURES.items()}


@pytest.mark.usefixtures("_restored")
def test_migrations__totals_without_phases__become_those_of_phase_1() -> None:
    models = migrate_to(WITHOUT_PHASES)
    user = {"user_id": "u", "variant": "a", "exposed_at": NOON, "is_in_several_variants": True, "figures": [1.0, 0.5]}
    models.get_model("experiments", "UserTotal").objects.create(experiment_id=make_experiment(models).pk, **user)

    models = migrate_to(BY_PHASE)
    [migrated] = models.get_model("experiments", "UserTotal").objects.values("phase", *user)
    assert migrated == {"phase": 1, **user}
    [back] = migrate_to(WITHOUT_PHASES).get_model("experiments", "UserTotal").objects.values(*user)
    assert back == user


@pytest.mark.parametrize("origin", ["imported", "told"])
@pytest.mark.usefixtures("_restored")
def test_migrations__imported_exposures__are_reported_ones_in_older_versions(origin: str) -> None:
    models = migrate_to(IMPORTED)
    exposure = {"user_id": "u", "variant": "a", "exposed_at": NOON, "origin": origin}
    models.get_model("experiments", "Exposure").objects.create(experiment_id=make_experiment(models).pk, **exposure)

    [reverted] = migrate_to(LONG).get_model("experiments", "Exposure").objects.values(*exposure)
    assert reverted == exposure | {"origin": "reported"}
