"""Random histories of one experiment: events, exposures, erasures and a stop, in any order."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any
from unittest.mock import patch

from config.database.commit_order import CurrentArrival
from config.models import Environment
from events.recording import NewEvent, new_id, record
from events.removal import erase_user
from experiments.exposures.recording import assign
from experiments.lifecycle import decisions
from experiments.lifecycle.changes import stop_experiment
from experiments.metrics.definition import Condition, Definition, Quantity, definitions_of
from experiments.models import Experiment, Exposure
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory

ODD_NAME = 'it\'s "100 %s".of\\it'
EUROS = Quantity("buy", "revenue", "EUR")
IN_EUROS = (Condition("currency", "in", ("EUR", "eur")),)
STEPS = (
    Quantity("look"),
    Quantity("buy", where=(Condition(ODD_NAME, "notEquals", 1), Condition("currency", "exists"))),
    Quantity("look", where=(Condition(ODD_NAME, "in", (1, True, "5")),)),
)
DEFINITIONS = (
    Definition("bought", 1, "conversion", Quantity("buy")),
    Definition("soon", 1, "count", Quantity("buy"), window=timedelta(hours=30), cap_value=2),
    Definition("revenue", 1, "revenue", EUROS, delay=timedelta(hours=2), cap_percentile=60),
    Definition("sum", 1, "sum", Quantity("look", ODD_NAME)),
    Definition("mean", 1, "mean", Quantity("look", ODD_NAME), window=timedelta(days=3)),
    Definition("ratio", 1, "ratio", EUROS, Quantity("look"), window=timedelta(days=4)),
    Definition("rate", 1, "ratio", Quantity("look"), Quantity("look", ODD_NAME)),
    Definition("returned", 1, "retention", Quantity("look"), delay=timedelta(days=1), window=timedelta(days=2)),
    Definition("large", 1, "count", Quantity("buy", where=(Condition("revenue", "greaterThan", 5),))),
    Definition(
        "large for each", 1, "ratio", Quantity("buy", "revenue", "EUR", IN_EUROS), Quantity("look", where=IN_EUROS)
    ),
    Definition("values", 1, "distinct", Quantity("look", ODD_NAME), window=timedelta(days=3)),
    Definition("days", 1, "distinct", Quantity("look")),
    Definition("funnel", 1, "funnel", STEPS[0], window=timedelta(days=4), steps=STEPS),
    Definition("median", 1, "quantile", Quantity("look", ODD_NAME), window=timedelta(days=5), quantile=0.5),
    Definition("price", 1, "quantile", EUROS, quantile=0.9),
    Definition("no debts", 1, "sum", Quantity("look", ODD_NAME, where=(Condition(ODD_NAME, "greaterThanOrEqual", 0),))),
)
NUMBERS = tuple(metric for metric in DEFINITIONS if metric.type not in ("mean", "distinct", "funnel"))
"""Metrics that count events or add amounts."""
FEW = DEFINITIONS[1:3]
"""A metric with a window and one without, both with a cap."""
USERS = [f"user-{number}" for number in range(6)]
VARIANTS = ["control", "green"]


def make_experiment(production: Environment, *definitions: Definition) -> Experiment:
    """Create an experiment that has run since NOON, with these metrics, or with all DEFINITIONS."""
    experiment = ExperimentFactory(key="e", environment=production, running=True, metrics=[])
    assert experiment.registration is not None
    chosen = definitions or DEFINITIONS
    experiment.metrics = [definition.key for definition in chosen]
    experiment.definitions = [definition.as_json() for definition in chosen]
    experiment.registration = {**experiment.registration, "lookbackDays": 14}
    experiment.save(update_fields=["metrics", "definitions", "registration"])
    return experiment


class History:
    """Random changes of one experiment. Each call of `happen` makes one."""

    def __init__(self, experiment: Experiment, chance: Random) -> None:
        self.experiment, self.chance = experiment, chance
        self.recorded: list[NewEvent] = []

    def happen(self) -> None:
        steps = (self.record, self.record, self.record, self.report, self.report, self.assign, self.repeat, self.erase)
        self.chance.choice([*steps, self.move, self.stop, self.reopen])()

    def record(self) -> None:
        events = [self.event() for _ in range(self.chance.randrange(1, 5))]
        self.recorded += events
        record(events, self.experiment.environment)

    def report(self) -> None:
        reference = self.chance.choice(["e", str(self.experiment.pk)])
        properties = {"experimentId": reference, "variant": self.chance.choice(VARIANTS)}
        record([replace_event(self.event(), name="seen", properties=properties)], self.experiment.environment)

    def assign(self) -> None:
        moment = self.moment(earliest=0)
        if self.experiment.stopped_at is None:
            assign(self.experiment.pk, self.user(), self.chance.choice(VARIANTS), moment)

    def move(self) -> None:
        """Move an exposure to another phase, as a late report can do."""
        exposures = Exposure.objects.filter(experiment=self.experiment, user_id=self.user())
        exposures.update(phase=self.chance.randrange(1, 4), arrival=CurrentArrival())

    def repeat(self) -> None:
        if self.recorded:
            record([self.chance.choice(self.recorded)], self.experiment.environment)

    def erase(self) -> None:
        erase_user(self.user(), self.experiment.environment)

    def stop(self) -> None:
        if self.experiment.stopped_at is None and self.chance.random() < 0.3:
            arguments = {"key": "e", "environment": self.experiment.environment, "actor": ACTOR, "now": NOON}
            has_windows = any(definition.window for definition in definitions_of(self.experiment))
            keep_counting = has_windows and self.chance.random() < 0.5
            stop_experiment(**arguments, stopped_at=self.moment(earliest=0), keep_counting=keep_counting)
            self.experiment.refresh_from_db()

    def reopen(self) -> None:
        if self.experiment.stopped_at is not None:
            with patch.object(decisions, "REOPENABLE_FOR", timedelta(days=10_000)):  # the change log goes on today
                decisions.reopen_experiment(key="e", environment=self.experiment.environment, actor=ACTOR, now=NOON)
            self.experiment.refresh_from_db()

    def user(self) -> str:
        return self.chance.choice(USERS)

    def moment(self, earliest: int) -> datetime:
        """Return a moment within days of the start, often on the second, and often whole hours after it."""
        hours = self.chance.choice([self.chance.randrange(earliest, 200), self.chance.randrange(earliest, 4)])
        return NOON + timedelta(hours=hours, microseconds=self.chance.choice([0, 0, 1, 400_000, 999_999]))

    def event(self) -> NewEvent:
        moment = self.moment(earliest=-400)
        received = moment + self.chance.choice([timedelta(0), timedelta(hours=5), timedelta(days=-2)])
        properties = self.properties() | self.chance.choice([{}, {}, {"experimentId": "e"}, {"experimentId": "f"}])
        return NewEvent(new_id(), self.user(), self.chance.choice(["buy", "look"]), moment, received, properties)

    def properties(self) -> dict[str, Any]:
        value = self.chance.choice(
            [1, 1.0, 1, 2.5, -7, 0, True, "5", None, 2**63 - 1, 1e300, 1e-170, 2e-100, [3], {"a": 3}]
        )
        revenue = self.chance.choice([{}, {"revenue": 10}, {"revenue": 19.75}, {"revenue": 0.25}, {"revenue": -3.5}])
        return (
            {ODD_NAME: value, "100": 7}
            | revenue
            | self.chance.choice(
                [{}, {"currency": "EUR"}, {"currency": "eur"}, {"currency": "USD"}, {"currency": None}]
            )
        )


def replace_event(event: NewEvent, **values: Any) -> NewEvent:
    return NewEvent(**{name: values.get(name, getattr(event, name)) for name in NewEvent.__struct_fields__})
