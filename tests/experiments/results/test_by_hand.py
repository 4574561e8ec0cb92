"""The numbers of series and the tests of interaction, computed again from the events of single users.

Nothing here uses the code of the service: users are added up in plain Python, and the formulas are those of the
guide with NumPy and SciPy.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any

import numpy as np
import pytest
import time_machine
from scipy import stats

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.metrics.changes import create_metric
from tests.conftest import ACTOR, NOON
from tests.experiments.results import brute_force
from tests.experiments.results.asking import ask
from tests.experiments.results.brute_force import always_valid_p, always_valid_width
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOW = NOON + 10 * DAY
USERS, WINDOW = 400, 60 * HOUR
LOOKBACK = 28
METRICS: dict[str, dict[str, Any]] = {
    "bought": {"type": "conversion", "event": "buy"},
    "spent": {"type": "revenue", "event": "buy", "currency": "EUR"},
    "per-look": {"type": "ratio", "event": "buy", "denominator": {"event": "look"}, "role": "guardrail"},
    "soon": {"type": "count", "event": "look", "window_hours": 60, "role": "guardrail"},
}
"""Each family of tests has one goal, and guardrails are not corrected, so that all intervals have the level 95 %."""


@dataclass(frozen=True)
class User:
    name: str
    variant: str
    country: str
    exposed_at: datetime
    buys: Sequence[tuple[datetime, float]]
    looks: Sequence[datetime]

    def events(self) -> Iterator[NewEvent]:
        report = {"experimentId": "shop", "variant": self.variant, "country": self.country}
        yield NewEvent(new_id(), self.name, "exposed", self.exposed_at, self.exposed_at, report)
        for at, revenue in self.buys:
            yield NewEvent(new_id(), self.name, "buy", at, at, {"revenue": revenue, "currency": "EUR"})
        for at in self.looks:
            yield NewEvent(new_id(), self.name, "look", at, at, {})


def make_users() -> list[User]:
    """Return users who come on six days, and buy and look on the days before and after."""
    chance = random.Random(4)
    users = []
    for number in range(USERS):
        variant, country = chance.choice(["control", "green"]), chance.choice(["CH", "DE", "FR"])
        at, keen = NOON + chance.uniform(0, 6 * 24) * HOUR, chance.random()
        more = 0.5 if variant == "green" and country == "CH" else 0.0
        hours = [chance.uniform(-200, 120) for _ in range(chance.randrange(6)) if chance.random() < keen + more]
        buys = [(at + hour * HOUR, chance.randrange(100, 9000) / 100) for hour in hours]
        looks = [at + chance.uniform(-100, 100) * HOUR for _ in range(chance.randrange(9))]
        users.append(User(f"user-{number}", variant, country, at, buys, looks))
    return users


ALL_USERS = make_users()


@pytest.fixture(params=[0, LOOKBACK], ids=["plain", "CUPED"])
def answer(request: pytest.FixtureRequest, api: Any, production: Environment) -> Any:
    for key, values in METRICS.items():
        create_metric(key=key, actor=ACTOR, now=NOON, **values)
    design = {"metrics": [*METRICS], "minimum_days": 0, "lookback_days": request.param}
    ExperimentFactory(key="shop", environment=production, running=True, **design)
    record([event for user in ALL_USERS for event in user.events() if event.timestamp <= NOW], production)
    with time_machine.travel(NOW, tick=False):
        return ask(api, series="daily", breakdown="country")


# --- values of single users ------------------------------------------------------------------------------------------

Values = tuple[float, float, float, float]
"""y and d since the exposure, x and e before it, of one user."""


def values_of(key: str, user: User, until: datetime) -> Values | None:
    """Return the values of a user as of a moment; None for a user who does not count then."""
    begun = user.exposed_at.replace(microsecond=0)
    end = min(until, begun + WINDOW - timedelta(microseconds=1)) if key == "soon" else until
    if user.exposed_at > until or (key == "soon" and begun + WINDOW > until):
        return None

    def add_up(since: datetime, last: datetime) -> tuple[float, float]:
        bought = [revenue for at, revenue in user.buys if since <= at <= last]
        looked = sum(since <= at <= last for at in user.looks)
        of_metric = {"bought": min(len(bought), 1), "spent": sum(bought), "per-look": len(bought), "soon": looked}
        return float(of_metric[key]), float(looked)

    y, d = add_up(begun, end)
    x, e = add_up(begun - LOOKBACK * DAY, begun - timedelta(microseconds=1))
    return y, d, x, e


# --- statistics of many users ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arm:
    n: int
    mean: float
    error: float
    """The squared standard error."""


@dataclass(frozen=True)
class Pair:
    control: Arm
    green: Arm
    shared: float
    test: brute_force.Test


def compare(key: str, arms: dict[str, np.ndarray], *, is_adjusted: bool) -> Pair:
    everybody = np.concatenate([*arms.values()])
    means, linear, before = {}, {}, {}
    for name, users in arms.items():
        y, d, x, e = users.T
        if key == "per-look":
            means[name] = y.sum() / d.sum()
            linear[name] = (y - means[name] * d) / d.mean()
            total_x, total_e = everybody[:, 2].sum(), everybody[:, 3].sum()
            before[name] = (x - total_x / total_e * e) / everybody[:, 3].mean()
        else:
            means[name], linear[name], before[name] = y.mean(), y - y.mean(), x
    centred = {name: x - x.mean() for name, x in before.items()}
    theta = shared = 0.0
    if is_adjusted:
        xx = sum((x**2).sum() for x in centred.values())
        theta = sum((linear[name] * centred[name]).sum() for name in arms) / xx
        shared = theta**2 * xx / (len(everybody) - len(arms)) / len(everybody)
    mean_before = np.concatenate([*before.values()]).mean()
    found = {}
    for name, users in arms.items():
        mean = means[name] - theta * (before[name].mean() - mean_before)
        left = linear[name] - theta * centred[name]
        found[name] = Arm(len(users), mean, (left**2).sum() / (len(users) - 1) / len(users))
    green, control = found["green"], found["control"]
    if key == "bought" and not is_adjusted:
        test: brute_force.Test = brute_force.Shares.of(arms["green"][:, 0], arms["control"][:, 0])
    else:
        explained = theta * centred["green"], theta * centred["control"]
        value = linear["green"], linear["control"]
        test = brute_force.Means(green.mean, control.mean, value, explained, shared)
    return Pair(control, green, shared, test)


def interval_of(key: str, arm: Arm, shared: float, *, is_adjusted: bool) -> tuple[float, float]:
    error = math.sqrt(arm.error + shared)
    if key != "bought":
        return stats.t.interval(0.95, arm.n - 1, arm.mean, error)
    if not is_adjusted:
        found = stats.binomtest(round(arm.mean * arm.n), arm.n).proportion_ci(method="wilson")
        return found.low, found.high
    lower, upper = stats.norm.interval(0.95, arm.mean, error)
    return min(arm.mean, max(0.0, lower)), max(arm.mean, min(1.0, upper))


def close(value: Any) -> Any:
    return pytest.approx(value, rel=1e-6, abs=1e-9)


def arms_of(key: str, until: datetime, of_country: str | None = None) -> dict[str, np.ndarray]:
    found: dict[str, list[Values]] = {"control": [], "green": []}
    for user in ALL_USERS:
        values = values_of(key, user, until)
        if values is not None and of_country in (None, user.country):
            found[user.variant].append(values)
    return {variant: np.array(values).reshape(-1, 4) for variant, values in found.items()}


# --- comparisons -----------------------------------------------------------------------------------------------------


def is_adjusted(answer: Any) -> bool:
    return bool(answer["plan"]["lookbackDays"])


def moments(days: int) -> list[datetime]:
    """Return the ends of the days from the first exposure on; the last day ends now."""
    first = min(user.exposed_at for user in ALL_USERS).date()
    ends = [datetime.combine(first + number * DAY, time.max, UTC) for number in range(days)]
    return [*ends[:-1], NOW]


@pytest.mark.parametrize("index", range(len(METRICS)), ids=[*METRICS])
def test_series__of_every_metric__is_what_the_events_until_each_day_give(answer: Any, index: int) -> None:
    key, [control, green] = [*METRICS][index], answer["metrics"][index]["variants"]
    assert len(control["series"]) == len(green["series"]) == 11
    compared = 0
    for of_control, of_green, until in zip(control["series"], green["series"], moments(11), strict=True):
        arms = arms_of(key, until)
        for entry, variant in ((of_control, "control"), (of_green, "green")):
            assert entry["users"] == sum(u.variant == variant and u.exposed_at <= until for u in ALL_USERS)
            assert entry["countedUsers"] == len(arms[variant])
        if min(map(len, arms.values())) < 20:
            continue
        pair = compare(key, arms, is_adjusted=is_adjusted(answer))
        for entry, arm in ((of_control, pair.control), (of_green, pair.green)):
            assert entry["value"] == close(arm.mean)
            expected = interval_of(key, arm, pair.shared, is_adjusted=is_adjusted(answer))
            assert (entry["interval"]["lower"], entry["interval"]["upper"]) == close(expected)
        check_difference(pair, of_green)
        compared += 1
    assert compared >= 7


def check_difference(pair: Pair, entry: Any) -> None:
    users = pair.control.n + pair.green.n
    width, p = always_valid_width(users), always_valid_p(users, pair.test.z)
    difference, lift = entry["difference"], entry["lift"]
    amount, error = pair.green.mean - pair.control.mean, math.sqrt(pair.green.error + pair.control.error)
    assert (difference["estimate"], difference["standardError"]) == close((amount, error))
    test = difference["alwaysValid"]
    assert (test["lower"], test["upper"]) == close(pair.test.difference(width))
    assert test["pValue"] == close(p) == lift["alwaysValid"]["pValue"]
    assert lift["estimate"] == close(amount / pair.control.mean)
    lower, upper = pair.test.lift(width)
    expected = close(lower), None if upper is None else close(upper)
    assert (lift["alwaysValid"]["lower"], lift["alwaysValid"]["upper"]) == expected


def test_series__of_every_metric__ends_with_the_figures_of_now(answer: Any) -> None:
    for metric in answer["metrics"]:
        for figures in metric["variants"]:
            last = figures["series"][-1]
            assert (last["value"], last["interval"]) == (figures["value"], figures["interval"])


@pytest.mark.parametrize("index", range(len(METRICS)), ids=[*METRICS])
def test_interaction__of_every_metric__is_cochrans_q_over_the_differences(answer: Any, index: int) -> None:
    key = [*METRICS][index]
    differences, errors = [], []
    for part in answer["breakdown"]["values"]:
        arms = arms_of(key, NOW, of_country=part["value"])
        pair = compare(key, arms, is_adjusted=is_adjusted(answer))
        differences.append(pair.green.mean - pair.control.mean)
        errors.append(pair.green.error + pair.control.error)
        found = part["metrics"][index]["variants"][1]["comparison"]["difference"]
        assert (found["estimate"], found["standardError"]) == close((differences[-1], math.sqrt(errors[-1])))
    weights = 1 / np.array(errors)
    mean = np.average(differences, weights=weights)
    expected = stats.chi2.sf((weights * (np.array(differences) - mean) ** 2).sum(), len(differences) - 1)
    [interaction] = [one for one in answer["breakdown"]["interactions"] if one["metric"] == key]
    assert len(differences) == 3
    assert interaction["pValue"] == close(expected)
