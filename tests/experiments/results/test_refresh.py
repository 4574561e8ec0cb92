"""Values and sums after random histories, compared with a plain computation from all events."""

from __future__ import annotations

import math
from dataclasses import astuple
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from config.database.commit_order import is_watermark_of_this_database
from config.models import Environment
from experiments.exposures.recording import assign
from experiments.lifecycle.changes import stop_experiment
from experiments.metrics.definition import Definition, Quantity
from experiments.models import EXPOSURE, Experiment, ResultState, UserValue, VariantSums
from experiments.models.design_checks import MAX_METRICS
from experiments.results import update
from experiments.results.refresh import refresh
from experiments.results.sums import KEY, NAMES, ExactSums, MetricSums, read_sums
from experiments.results.update import Update
from experiments.results.values import exposed_users
from tests.conftest import ACTOR, NOON
from tests.experiments.results.by_hand import FIGURES, Row, Sums, is_in_several, sums_by_hand, values_by_hand
from tests.experiments.results.histories import History, make_experiment
from tests.factories import EventFactory, ExperimentFactory
from tests.selection import histories
from tests.transactions import undone

pytestmark = pytest.mark.django_db

LATER = NOON + timedelta(days=30)


@pytest.fixture(params=[0, 1, 1e6], ids=["by user", "either", "in one pass"])
def _plan_of_statements(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look up the events of each user by an index, scan all events, or choose between both by their number."""
    monkeypatch.setattr(update, "_EVENTS_A_USER", request.param)
    monkeypatch.setattr(update, "USERS_AT_ONCE", 2)


def stored_values(experiment: Experiment) -> dict[tuple[int, str], Row]:
    """Return the stored values by metric and user."""
    return {
        (row.metric, row.user_id): (
            experiment.variant_keys[row.variant_number],
            row.phase,
            row.day,
            *(getattr(row, name) or 0 for name in FIGURES),
        )
        for row in UserValue.objects.filter(state__experiment=experiment).exclude(metric=EXPOSURE)
    }


def check_exposures(experiment: Experiment) -> None:
    """Check that each exposed user has a row with the exposure."""
    rows = UserValue.objects.filter(state__experiment=experiment, metric=EXPOSURE)
    columns = ("user_id", "variant_number", "phase", "exposed_at", "day", "in_several_variants")
    keys = experiment.variant_keys
    expected = {
        (
            exposure.user_id,
            keys.index(exposure.variant),
            exposure.phase,
            exposure.exposed_at,
            exposure.exposed_at.date(),
            is_in_several(exposure, experiment) or None,
        )
        for exposure in exposed_users(experiment)
    }
    assert set(rows.values_list(*columns)) == expected


def stored_sums(experiment: Experiment) -> Sums:
    rows = VariantSums.objects.filter(experiment=experiment).values_list(*KEY, *NAMES)
    return {tuple(key): ExactSums(*values) for *key, values in ((*row[:4], row[4:]) for row in rows)}


def check(experiment: Experiment) -> None:
    """Check that the stored values and sums are those that counting by hand gives."""
    check_exposures(experiment)
    assert near(stored_values(experiment)) == near(values_by_hand(experiment))
    assert near(without_zeros(stored_sums(experiment))) == near(without_zeros(sums_by_hand(experiment)))


def without_zeros(sums: Sums) -> dict[Any, tuple[float, ...]]:
    return {key: astuple(totals) for key, totals in sums.items() if any(astuple(totals))}


def near(figures: dict[Any, Any]) -> dict[Any, list[Any]]:
    """Round figures to the digits that do not depend on the order of additions."""
    return {key: [as_near(value) for value in values] for key, values in figures.items()}


def as_near(value: Any) -> Any:
    return f"{float(value) + 0.0:.9e}" if isinstance(value, (int, float, Decimal)) else value  # + 0.0 makes 0 of -0


def refresh_and_check(experiment: Experiment) -> None:
    refresh(experiment, LATER)
    check(experiment)


def refresh_from_scratch(experiment: Experiment) -> None:
    ResultState.objects.filter(experiment=experiment).update(watermark="")
    refresh(experiment, LATER)


@pytest.mark.usefixtures("_plan_of_statements")
@histories(20)
@given(chance=st.randoms(use_true_random=False))
def test_refresh__any_history__is_what_counting_by_hand_gives(production: Environment, chance: Random) -> None:
    with undone():
        check_random_history(production, chance, steps=20)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_plan_of_statements")
@pytest.mark.parametrize("seed", range(8))
def test_refresh__any_history_of_short_transactions__is_what_counting_by_hand_gives(
    production: Environment, seed: int
) -> None:
    check_random_history(production, Random(seed), steps=60)


def check_random_history(production: Environment, chance: Random, steps: int) -> None:
    experiment = make_experiment(production)
    history = History(experiment, chance)
    for _ in range(steps):
        history.happen()
        if chance.random() < 0.4:
            refresh_and_check(experiment)
    refresh_and_check(experiment)
    kept = near(stored_values(experiment)), near(without_zeros(stored_sums(experiment)))
    refresh_from_scratch(experiment)
    assert (near(stored_values(experiment)), near(without_zeros(stored_sums(experiment)))) == kept


def test_refresh__after_every_step_of_a_history__has_the_sums_of_its_values_to_the_last_digit(
    production: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "_EVENTS_A_USER", 0)  # so that changed users alone are computed again
    for seed in range(6):
        with undone():
            history = History(make_experiment(production), Random(seed))
            for _ in range(30):
                history.happen()
                state = refresh(history.experiment, NOON)
                assert stored_sums(history.experiment) == Update(state, history.experiment).sums_of_values()


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """A running experiment with one user in green since half a second after NOON, refreshed."""
    experiment: Experiment = ExperimentFactory(key="e", running=True)
    assign(experiment.pk, "u", "green", NOON + timedelta(seconds=0.5))
    refresh(experiment, NOON)
    return experiment


def measure(experiment: Experiment, definition: Definition) -> None:
    """Make this the only metric of the experiment, with a look-back of 14 days, before the first refresh."""
    ResultState.objects.filter(experiment=experiment).update(watermark="")
    experiment.metrics, experiment.definitions = [definition.key], [definition.as_json()]
    experiment.registration = {**(experiment.registration or {}), "lookbackDays": 14}
    experiment.save(update_fields=["metrics", "definitions", "registration"])


def value(experiment: Experiment) -> tuple[float, ...]:
    """Refresh, and return value, denominator, value before, events and other currencies of the only user with any."""
    refresh(experiment, NOON)
    rows = UserValue.objects.exclude(metric=EXPOSURE)
    columns = ("value", "denominator", "value_before", "events", "other_currency")
    [figures] = rows.values_list(*columns) or [(0,) * len(columns)]
    return tuple(figure or 0 for figure in figures)


@pytest.mark.django_db(transaction=True)
def test_refresh__nothing_new__writes_nothing(experiment: Experiment) -> None:
    with CaptureQueriesContext(connection) as captured:
        refresh(experiment, NOON + timedelta(minutes=1))

    assert {query["sql"].split()[0] for query in captured} == {"SELECT"}
    assert len(captured) <= 4


def test_refresh__watermark_older_than_a_minute__is_replaced(experiment: Experiment) -> None:
    at = NOON + timedelta(seconds=61)
    refresh(experiment, at)

    assert ResultState.objects.get().refreshed_at == at


@pytest.mark.django_db(transaction=True)
def test_refresh__events_of_its_own_transaction__are_counted_once(experiment: Experiment) -> None:
    with transaction.atomic():
        for number in (1, 2, 3):
            EventFactory(user_id="u", name="purchase", timestamp=NOON)
            assert value(experiment) == (1, 0, 0, number, 0)
    EventFactory(user_id="u", name="purchase", timestamp=NOON)

    assert [value(experiment) for _ in range(2)] == [(1, 0, 0, 4, 0)] * 2
    check(experiment)


def test_refresh__amounts_one_after_the_other__add_up_as_all_at_once(experiment: Experiment) -> None:
    measure(experiment, Definition("m", 1, "sum", Quantity("purchase", "amount")))
    for amounts in ([0.1, 0.2], [1e17, 1, -1e17], [25, -19.99, -5.01], [-5, 12, -7], [1e100, -1e100, 3], [0.1] * 30):
        with undone():
            for amount in amounts:
                EventFactory(user_id="u", name="purchase", timestamp=NOON, properties={"amount": amount})
                refresh(experiment, NOON)
            stored = value(experiment)
            refresh_from_scratch(experiment)
            assert stored == pytest.approx(value(experiment), rel=1e-14, abs=0)


@pytest.mark.parametrize("watermark", ["1 100:100: 0", ""])
def test_refresh__watermark_of_another_database__computes_everything_again(
    experiment: Experiment, watermark: str
) -> None:
    EventFactory(user_id="u", name="purchase", timestamp=NOON)
    refresh(experiment, NOON)
    wrong = [*UserValue.objects.all()]
    UserValue.objects.all().delete()
    for row in wrong:
        row.user_id, row.value = "nobody", 7
    UserValue.objects.bulk_create(wrong)
    VariantSums.objects.update(value=7)
    ResultState.objects.update(watermark=watermark)
    refresh(experiment, NOON)

    check(experiment)
    assert set(UserValue.objects.values_list("user_id", flat=True)) == {"u"}


def test_refresh__values_of_the_version_before__computes_everything_again(experiment: Experiment) -> None:
    """That version updates values and sums without the columns that it does not know."""
    measure(experiment, Definition("m", 1, "sum", Quantity("purchase", "sales")))
    EventFactory(user_id="u", name="purchase", timestamp=NOON, properties={"sales": "337,300.00"})
    [taken] = {refresh(experiment, NOON).watermark.removeprefix("2/")}
    UserValue.objects.update(without_number=None)
    VariantSums.objects.update(without_number=0)
    ResultState.objects.update(watermark=taken)
    refresh(experiment, NOON)

    check(experiment)
    assert [*VariantSums.objects.filter(metric=0).values_list("without_number", flat=True)] == [1]
    assert not is_watermark_of_this_database(f"2/{taken}"), "the version before would take over the values"


@pytest.mark.parametrize(
    ("seconds", "y", "x", "events"),
    [
        (-14 * 86400 - 0.1, 0, 0, 0),
        (-14 * 86400, 0, 1, 0),
        (-0.1, 0, 1, 0),
        (0, 0, 0, 1),  # the second of the exposure, an hour before the window
        (3599.9, 0, 0, 1),
        (3600, 1, 0, 1),
        (7199.9, 1, 0, 1),
        (7200, 0, 0, 1),
        (86400, 0, 0, 1),  # at the stop
        (86400.1, 0, 0, 0),
    ],
)
def test_refresh__event_at_a_moment__counts_in_the_window_since_the_exposure_or_before_it(
    experiment: Experiment, seconds: float, y: int, x: int, events: int
) -> None:
    hour = timedelta(hours=1)
    measure(experiment, Definition("m", 1, "count", Quantity("purchase"), delay=hour, window=hour))
    EventFactory(user_id="u", name="purchase", timestamp=NOON + timedelta(seconds=seconds))
    arguments = {"key": "e", "environment": experiment.environment, "actor": ACTOR, "now": NOON}
    stopped = stop_experiment(**arguments, stopped_at=NOON + timedelta(days=1))

    assert value(stopped) == (y, 0, x, events, 0)


def test_refresh__ratio_of_a_user_with_denominators_alone__has_a_value(experiment: Experiment) -> None:
    measure(experiment, Definition("m", 1, "ratio", Quantity("purchase"), Quantity("page_viewed")))
    for second in (-1, 1, 2):
        EventFactory(user_id="u", timestamp=NOON + timedelta(seconds=second))

    assert value(experiment) == (0, 2, 0, 0, 0)
    check(experiment)


@pytest.mark.parametrize(
    ("amount", "y"), [("1e400", 1e100), ("-1e400", -1e100), ("12345678901234567890123", 1.2345678901234568e22)]
)
def test_refresh__number_beyond_the_range__counts_as_the_largest(experiment: Experiment, amount: str, y: float) -> None:
    measure(experiment, Definition("m", 1, "sum", Quantity("purchase", "amount")))
    EventFactory(user_id="u", name="purchase", timestamp=NOON)
    with connection.cursor() as cursor:  # because the API refuses such numbers
        cursor.execute(f"UPDATE events_event SET properties = '{{\"amount\": {amount}}}'")

    assert value(experiment) == (pytest.approx(y), 0, 0, 1, 0)
    check_is_finite()


@pytest.mark.parametrize(
    ("amount", "cap", "y"), [(1e-170, None, 0), (2e-100, None, 2e-100), (-1e-170, None, 0), (5, 1e-170, 5)]
)
def test_refresh__numbers_close_to_0__add_up(
    experiment: Experiment, amount: float, cap: float | None, y: float
) -> None:
    measure(experiment, Definition("m", 1, "sum", Quantity("purchase", "amount"), cap_value=cap))
    for second in (-1, 1):
        moment = NOON + timedelta(seconds=second)
        EventFactory(user_id="u", name="purchase", timestamp=moment, properties={"amount": amount})

    assert value(experiment) == (y, 0, y, 1, 0)
    check(experiment)


def test_refresh__the_maximum_number_of_metrics__has_the_figures_of_each(production: Environment) -> None:
    definitions = [
        Definition(f"m{number}", 1, "ratio", Quantity("buy", f"p{number}"), Quantity("buy"), cap_percentile=90)
        for number in range(MAX_METRICS)
    ]
    experiment = make_experiment(production, *definitions)
    assign(experiment.pk, "u", "green", NOON)
    EventFactory(user_id="u", name="buy", timestamp=NOON, properties={f"p{MAX_METRICS - 1}": 2.5})

    refresh(experiment, NOON)
    check(experiment)
    assert read_sums(experiment)[MAX_METRICS - 1]["green"].value == Decimal("2.5")


def check_is_finite() -> None:
    [sums] = VariantSums.objects.filter(metric=0)
    assert all(math.isfinite(getattr(sums, name)) for name in NAMES)


@pytest.mark.parametrize(
    ("properties", "y", "other_currency"),
    [
        ({"revenue": 5, "currency": "EUR"}, 5, 0),
        ({"revenue": 5, "currency": "USD"}, 0, 1),
        ({"revenue": 5}, 0, 1),
        ({"currency": "USD"}, 0, 0),
        ({"revenue": 0, "currency": "EUR"}, 0, 0),
    ],
)
def test_refresh__revenue__adds_one_currency_and_counts_amounts_in_others(
    experiment: Experiment, properties: dict[str, Any], y: float, other_currency: int
) -> None:
    measure(experiment, Definition("m", 1, "revenue", Quantity("purchase", "revenue", "EUR")))
    EventFactory(user_id="u", name="purchase", timestamp=NOON, properties=properties)

    assert value(experiment) == (y, 0, 0, 1, other_currency)


def test_refresh__percentile_cap_among_more_refunds_than_purchases__is_none(experiment: Experiment) -> None:
    euros = Quantity("purchase", "revenue", "EUR")
    measure(experiment, Definition("m", 1, "revenue", euros, cap_percentile=60))
    for user, revenue in (("u", 5), ("v", -5), ("w", -5)):
        assign(experiment.pk, user, "green", NOON)
        EventFactory(user_id=user, name="purchase", properties={"revenue": revenue, "currency": "EUR"})

    assert refresh(experiment, NOON).caps == {}
    assert VariantSums.objects.get(metric=0).value == -5


def test_refresh__key_that_is_the_id_of_another__counts_only_events_that_mean_it(production: Environment) -> None:
    first = ExperimentFactory(running=True)
    second = ExperimentFactory(key=str(first.pk), running=True)
    for experiment in (first, second):
        assign(experiment.pk, "u", "green", NOON)
    EventFactory(user_id="u", name="purchase", properties={"experimentId": str(first.pk)})

    assert [sums.get(0, {}) != {} for sums in (read(first), read(second))] == [True, False]


def read(experiment: Experiment) -> MetricSums:
    refresh(experiment, NOON)
    return read_sums(experiment)
