"""The order in which data, a stop and testers arrive changes nothing of the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.lifecycle.backdating import stop_at
from experiments.lifecycle.changes import get_experiment, reopen_experiment, update_experiment
from experiments.lifecycle.new_phase import open_phase
from experiments.models import Experiment
from experiments.results.analyse import analyse_experiment
from experiments.results.types import Results
from tests.conftest import ACTOR
from tests.events.imports.importing import run, write
from tests.factories import ExperimentFactory
from tests.selection import histories
from tests.transactions import undone

pytestmark = pytest.mark.django_db

START = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(days=3)
"""Writes have the present time, and an experiment can be reopened for 30 days only."""
STOP = START + timedelta(minutes=60)
NOW = START + timedelta(days=2)
WRITE: dict[str, Any] = {"key": "e", "actor": ACTOR, "now": NOW}
OUTSIDER = "user-3"
"""A user whom the hash leaves out of the first 60 percent."""
USERS = ["user-0", "user-1", OUTSIDER]


def event(user: str, name: str, minute: float, **properties: str) -> NewEvent:
    return NewEvent(new_id(), user, name, START + timedelta(minutes=minute), NOW, properties)


def seen(user: str, variant: str, minute: float) -> NewEvent:
    return event(user, "seen", minute, experimentId="e", variant=variant)


@dataclass(frozen=True)
class Step:
    """One thing that happens to the experiment: its name, and what it does."""

    name: str
    act: Callable[[Environment, Path], object]

    def __repr__(self) -> str:
        return self.name


def reported(user: str, variant: str, minute: int) -> Step:
    return Step(f"{user} sees {variant} at {minute}", lambda where, _: record([seen(user, variant, minute)], where))


def bought(user: str, minute: int) -> Step:
    return Step(f"{user} buys at {minute}", lambda where, _: record([event(user, "purchase", minute)], where))


def imported(user: str, variant: str, minute: int) -> Step:
    def act(_: Environment, folder: Path) -> None:
        row = f"{user},{variant},{(START + timedelta(minutes=minute)).isoformat()}"
        file = write(folder, "exposures.csv", "userId,variant,exposedAt", row)
        run("import_exposures", "e", file, "--skip-invalid", at=NOW)

    return Step(f"import {user} in {variant} at {minute}", act)


def read() -> Step:
    return Step("read", lambda where, _: analyse_experiment(get_experiment("e", where), NOW))


def stopped() -> Step:
    return Step("stop", lambda where, _: stop_at(environment=where, stopped_at=STOP, **WRITE))


def reopened() -> Step:
    """Stop, reopen and leave it running, if it runs; a stop that comes later counts."""

    def act(where: Environment, _: Path) -> None:
        if get_experiment("e", where).status == "running":
            stop_at(environment=where, stopped_at=STOP, **WRITE)
            reopen_experiment(environment=where, **WRITE)

    return Step("stop and reopen", act)


def forced(user: str) -> Step:
    changes = {"forced_variants": {user: "green"}}
    return Step(f"force {user}", lambda where, _: update_experiment(environment=where, changes=changes, **WRITE))


user = st.sampled_from(USERS)
variant = st.sampled_from(["control", "green"])
minute = st.integers(-3, 90)
before_the_stop = st.integers(0, 60)  # a stopped experiment takes no other imports
data = st.lists(
    st.one_of(
        st.builds(reported, user, variant, minute),
        st.builds(reported, user, variant, minute),
        st.builds(reported, user, st.just("purple"), minute),
        st.builds(bought, user, minute),
        st.builds(imported, user, variant, before_the_stop),
    ),
    min_size=3,
    max_size=12,
)


@st.composite
def two_orders(draw: Any) -> tuple[list[Step], list[Step]]:
    steps = [*draw(data), stopped(), *draw(st.lists(st.builds(forced, user), max_size=1))]
    disturbed = [*steps, *draw(st.lists(st.sampled_from([read(), reopened()]), max_size=3))]
    return draw(st.permutations(steps)), draw(st.permutations(disturbed))


def start(where: Environment, percentages: Sequence[int]) -> Experiment:
    """Start an experiment at START, and open a phase for each further percentage 20 minutes later."""
    experiment: Experiment = ExperimentFactory(key="e", percentage=percentages[0], started_at=START)
    for number, percentage in enumerate(percentages[1:], start=1):
        at = START + timedelta(minutes=20 * number)
        changes = {"percentage": percentage}
        open_phase(environment=where, changes=changes, opened_at=at, reason="More.", **WRITE)
    return experiment


def results_of(where: Environment, percentages: Sequence[int], steps: Sequence[Step], folder: Path) -> Any:
    """Return what the results say after these steps, and undo them."""
    with undone():
        start(where, percentages)
        for step in steps:
            step.act(where, folder)
        facts = facts_of(analyse_experiment(get_experiment("e", where), NOW, has_assignment_audit=True))
    return facts


def facts_of(results: Results) -> Any:
    audit = results.guards.assignments
    assert audit is not None
    return {
        "verdict": results.verdict,
        "variants": results.variants,
        "metrics": results.metrics,
        "sample ratio": results.guards.sample_ratio,
        "several": (results.guards.users_in_several_variants, audit.in_several_variants),
        "unknown": results.guards.events_of_unknown_variants,
        "before exposure": results.guards.audit and results.guards.audit.events_before_exposure,
        "phases": [(phase.number, phase.variants) for phase in results.phases],
    }


@pytest.mark.parametrize("percentages", [[100], [100, 40], [40, 100, 60]], ids=str)
@settings(histories(12), phases=[Phase.explicit, Phase.generate])
@given(orders=two_orders())
def test_results__same_data_in_another_order__are_the_same(
    production: Environment, tmp_path_factory: Any, percentages: list[int], orders: tuple[list[Step], list[Step]]
) -> None:
    first, second = (results_of(production, percentages, steps, tmp_path_factory.mktemp("order")) for steps in orders)

    assert first == second


def test_verdict__other_variants_after_a_stop_dated_back__do_not_depend_on_what_came_first(
    production: Environment, tmp_path: Path
) -> None:
    exposures = [seen(f"{arm}-{number}", arm, 1) for arm in ("control", "green") for number in range(200)]
    purchases = [
        event(f"{arm}-{number}", "purchase", 2)
        for arm, buyers in (("control", 20), ("green", 90))
        for number in range(buyers)
    ]
    late = [seen(f"control-{number}", "green", 61) for number in range(30)]
    unknown = [seen(f"control-{number}", "purple", minute) for number, minute in enumerate((-2, 5, 61))]
    come = Step("events", lambda where, _: record([*exposures, *purchases, *late, *unknown], where))
    facts = [
        results_of(production, [100], steps, tmp_path)
        for steps in ([come, stopped()], [stopped(), come], [come, read(), stopped()], [come, reopened(), stopped()])
    ]

    assert facts[0]["several"] == (0, 0)
    assert facts[0]["unknown"] == 1
    assert facts[0]["verdict"].decision != "check_data"
    assert facts == [facts[0]] * 4


def test_verdict__other_variants_before_the_stop__count_in_any_order(production: Environment, tmp_path: Path) -> None:
    first, second = reported("u", "control", 5), reported("u", "green", 59)
    orders = ([first, second, stopped()], [stopped(), second, first], [second, read(), stopped(), first])

    assert [results_of(production, [100], steps, tmp_path)["several"] for steps in orders] == [(1, 1)] * 3


def test_several__another_variant_seen_while_outside__counts_in_any_order(
    production: Environment, tmp_path: Path
) -> None:
    """The second phase leaves the user out, whose client then shows the control."""
    inside, outside = reported(OUTSIDER, "green", 5), reported(OUTSIDER, "control", 25)
    before, late = reported(OUTSIDER, "green", 2), imported(OUTSIDER, "green", 3)
    orders = (
        [inside, outside, before, late, stopped()],
        [outside, inside, late, stopped(), before],
        [outside, late, before, inside, read(), stopped()],
        [stopped(), outside, before, inside, late],
    )

    facts = [results_of(production, [100, 40], steps, tmp_path) for steps in orders]
    assert facts[0]["several"] == (1, 1)
    assert facts == [facts[0]] * 4


def moments(experiment: Experiment) -> list[tuple[str, str, datetime, datetime | None]]:
    """Return the users, variants, exposures, and when they were first seen in another variant."""
    rows = experiment.exposures.order_by("user_id")
    return list(rows.values_list("user_id", "variant", "exposed_at", "in_several_since"))


def test_in_several_since__three_variants_in_any_order__is_the_second_earliest(production: Environment) -> None:
    variants = [{"key": key, "weight": 1} for key in ("control", "green", "red")]
    for number, order in enumerate([(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]):
        experiment = ExperimentFactory(key=f"e{number}", variants=variants, started_at=START)
        for at in order:
            shown = {"experimentId": f"e{number}", "variant": ("control", "green", "red")[at]}
            record([event("u", "seen", at + 1, **shown)], production)

        assert moments(experiment) == [
            ("u", "control", START + timedelta(minutes=1), START + timedelta(minutes=2)),
        ]
