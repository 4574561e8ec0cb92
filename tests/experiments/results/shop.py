"""An experiment in a shop with known users, so that tests can compute its results themselves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.metrics.changes import create_metric
from experiments.models import Experiment
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory

METRICS: dict[str, dict[str, Any]] = {
    "bought": {"type": "conversion", "event": "purchase"},
    "revenue": {"type": "revenue", "event": "purchase", "currency": "EUR"},
    "per-look": {"type": "ratio", "event": "purchase", "denominator": {"event": "look"}},
    "complaints": {"type": "count", "event": "complaint", "direction": "decrease", "role": "guardrail"},
}
COUNTRIES = ("CH", "DE", None)


@dataclass(frozen=True, slots=True)
class Shopper:
    """One user: the day of the exposure, amounts spent before and after it, and numbers of other events."""

    name: str
    variant: str
    day: int
    country: str | None
    before: tuple[float, ...]
    spent: tuple[float, ...]
    looks: int
    complaints: int

    @property
    def exposed_at(self) -> datetime:
        return NOON + timedelta(days=self.day, minutes=1)

    def events(self) -> Iterator[NewEvent]:
        country = {"country": self.country} if self.country else {}
        yield self._event("exposed", 0, experimentId="shop", variant=self.variant, **country)
        for amount in self.before:
            yield self._event("purchase", -50, revenue=amount, currency="EUR")
        for amount in self.spent:
            yield self._event("purchase", 5, revenue=amount, currency="EUR")
        for name, number in (("look", self.looks), ("complaint", self.complaints)):
            yield from (self._event(name, 3 + hours) for hours in range(number))

    def _event(self, name: str, hours: float, **properties: Any) -> NewEvent:
        at = self.exposed_at + timedelta(hours=hours)
        return NewEvent(new_id(), self.name, name, at, at, properties)


def make_shoppers(number: int = 600) -> list[Shopper]:
    """Return the same users on every call. Those in green buy more often."""
    chance = random.Random(2026)
    return [_make_shopper(chance, index) for index in range(number)]


def _make_shopper(chance: random.Random, index: int) -> Shopper:
    variant = chance.choice(["control", "green"])
    keenness = chance.random()
    return Shopper(
        name=f"shopper-{index}",
        variant=variant,
        day=chance.randrange(4),
        country=chance.choice(COUNTRIES),
        before=_amounts(chance, 0.4 * keenness),
        spent=_amounts(chance, 0.5 * keenness + (0.15 if variant == "green" else 0)),
        looks=chance.randrange(1, 5),
        complaints=int(chance.random() < 0.1),
    )


def _amounts(chance: random.Random, share: float) -> tuple[float, ...]:
    return tuple(chance.randrange(100, 9000) / 100 for _ in range(2) if chance.random() < share)


def open_shop(
    environment: Environment,
    shoppers: list[Shopper],
    *,
    metrics: tuple[str, ...] = tuple(METRICS),
    **design: Any,
) -> Experiment:
    """Create a running experiment with these metrics, and record the events of the users.

    By default, CUPED is off and there is no shortest run.
    """
    for key in metrics:
        create_metric(key=key, actor=ACTOR, now=NOON, **METRICS[key])
    experiment = ExperimentFactory(
        key="shop",
        environment=environment,
        running=True,
        metrics=list(metrics),
        **{"lookback_days": 0, "minimum_days": 0, **design},
    )
    record([event for shopper in shoppers for event in shopper.events()], environment)
    return experiment
