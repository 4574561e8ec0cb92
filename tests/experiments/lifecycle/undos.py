"""Helpers for tests of undoing steps of experiments that were taken in the admin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from config.change_log.reversion import refusal_of_undo, undo_write
from config.change_log.writing import Actor
from config.errors import DomainError
from config.models import Change, Environment, Source
from events.recording import NewEvent, new_id
from experiments.admin import experiments as registering  # noqa: F401 (how experiments go back)
from experiments.lifecycle.changes import start_experiment
from experiments.models import Experiment
from tests.experiments.lifecycle.shipping import OWN, SERVES
from tests.factories import ExperimentFactory, FlagFactory

ADA = Actor("user ada", Source.ADMIN)
START = datetime(2100, 1, 31, 12, tzinfo=UTC)
"""A time after all changes that there are in a new database, so that the log takes it."""
LATER = START + timedelta(minutes=5)
DRIVING = {"flag": {"key": "button", "serves": SERVES}}


def start(environment: Environment) -> Experiment:
    """Start the draft in the admin."""
    return start_experiment(key="e", environment=environment, actor=ADA, now=START)


def begin(environment: Environment, **design: Any) -> Experiment:
    """Create a draft, and start it in the admin."""
    FlagFactory(key="button", enabled=True, rules=OWN, environment=environment)
    ExperimentFactory(key="e", environment=environment, **design)
    return start(environment)


def undo(revision: int | None = None, *, at: datetime = LATER) -> None:
    """Undo the write of a change, or the last one."""
    undo_write(revision or Change.objects.latest_revision(), actor=ADA, now=at)


def attempted(revision: int | None = None, *, at: datetime = LATER) -> str | None:
    """Return why the page of a write, or of the last one, offers no undo."""
    refusal = refusal_of_undo(revision or Change.objects.latest_revision(), actor=ADA, now=at)
    return refusal.message if refusal else None


def refused(revision: int | None = None, *, at: datetime = LATER) -> str:
    """Return the refusal of an undo, after checking that an attempt says the same, and that nothing was written."""
    before = Change.objects.latest_revision()
    with pytest.raises(DomainError) as error:
        undo(revision, at=at)
    assert attempted(revision, at=at) == error.value.message
    assert Change.objects.latest_revision() == before
    return error.value.message


def see(user: str, at: datetime = LATER, variant: str = "green") -> NewEvent:
    """Return an event by which a user saw a variant."""
    return NewEvent(new_id(), user, "seen", at, at, {"experimentId": "e", "variant": variant})


def buy(user: str, at: datetime = LATER) -> NewEvent:
    return NewEvent(new_id(), user, "purchase", at, at, {})
