"""Transactions take their locks in one order; the tests refuse any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from config.change_log.writing import writing
from config.database.locks import Rank, WrongLockOrder, check_order, lock_change_log, lock_environment
from config.models import Environment
from experiments.models.locks import lock_experiment, lock_results
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.django_db


def test_locks__in_their_order__are_taken(production: Environment) -> None:
    experiment = ExperimentFactory(running=True)
    with writing(actor=ACTOR, now=NOON):
        lock_environment(production)
        lock_results([experiment.pk])
        lock_experiment(experiment)


def test_locks__in_another_order__are_refused(production: Environment) -> None:
    experiment = ExperimentFactory(running=True)
    with transaction.atomic():
        lock_results([experiment.pk])
        with pytest.raises(WrongLockOrder, match="ENVIRONMENT is taken after RESULTS"):
            lock_environment(production)


@pytest.mark.parametrize("later", Rank)
@pytest.mark.parametrize("earlier", Rank)
def test_locks__of_any_two_ranks__are_refused_where_they_descend(earlier: Rank, later: Rank) -> None:
    with transaction.atomic():
        check_order(earlier)
        if later >= earlier:
            check_order(later)
        else:
            with pytest.raises(WrongLockOrder):
                check_order(later)


def test_locks__held_already__are_taken_again(production: Environment) -> None:
    with transaction.atomic():
        lock_environment(production)
        check_order(Rank.EXPOSURES)
        lock_environment(production)


def test_locks__of_a_transaction_that_ended__are_forgotten(production: Environment) -> None:
    with transaction.atomic():
        check_order(Rank.EXPOSURES)
    with transaction.atomic():
        lock_environment(production)


def test_locks__of_an_inner_block__are_held_until_the_transaction_ends(production: Environment) -> None:
    with transaction.atomic():
        with transaction.atomic():
            check_order(Rank.EXPOSURES)
        with pytest.raises(WrongLockOrder):
            lock_environment(production)


def test_locks__where_the_order_is_not_checked__are_taken_in_any(production: Environment, settings: Any) -> None:
    settings.CHECK_LOCK_ORDER = False
    with transaction.atomic():
        check_order(Rank.EXPOSURES)
        lock_change_log()


def test_row_locks__of_the_whole_code__are_taken_through_the_modules_of_locks() -> None:
    sources = [file for app in ("config", "events", "flags", "experiments") for file in (ROOT / app).rglob("*.py")]
    words = ("select_for_update(", " FOR UPDATE", "delete_returning(")
    taking = {file.relative_to(ROOT).as_posix() for file in sources if any(word in file.read_text() for word in words)}
    assert taking == {
        "config/database/locks.py",
        "config/database/selects.py",
        # These three never wait, or lock rows that no other transaction locks together with others.
        "config/webhooks/outbox.py",
        "events/counts/storage.py",
        "events/removal.py",
    }
