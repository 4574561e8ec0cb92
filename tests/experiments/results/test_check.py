"""Comparing stored sums with sums computed again, and the report of differences."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from random import Random

import pytest
from django.core.management import CommandError, call_command

from config.models import Environment
from events.removal import erase_user
from experiments.exposures.recording import assign
from experiments.metrics.definition import Definition, Quantity
from experiments.models import EXPOSURE, DailySums, Experiment, ResultState, UserValue, VariantSums
from experiments.results import check as checking
from experiments.results.archive import freeze
from experiments.results.check import Difference, check_sums
from experiments.results.refresh import bring_series_up_to_date, refresh
from experiments.results.sums import step_number
from tests.conftest import NOON
from tests.experiments.results.histories import History, make_experiment
from tests.experiments.results.quantiles_by_hand import read_and_store
from tests.factories import EventFactory, ExperimentFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """A running experiment with one user in green who bought for 0.1 and for 0.2."""
    experiment = make_experiment(production, Definition("spent", 1, "sum", Quantity("buy", "amount")))
    assign(experiment.pk, "u", "green", NOON)
    for amount in (0.1, 0.2):
        EventFactory(user_id="u", name="buy", timestamp=NOON, properties={"amount": amount})
    refresh(experiment, NOON)
    return experiment


def check(*arguments: str) -> str:
    out = StringIO()
    call_command("check_results", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("seed", range(10))
def test_check_sums__any_history__finds_nothing(production: Environment, seed: int) -> None:
    experiment = make_experiment(production)
    history = History(experiment, Random(seed))
    for _ in range(40):
        history.happen()
        if history.chance.random() < 0.3:
            refresh(experiment, NOON)
        if history.chance.random() < 0.2:
            bring_series_up_to_date(experiment, NOON)

    assert check_sums(experiment, NOON) == []


@pytest.mark.django_db(transaction=True)
def test_check_sums__wrong_changes_by_day__are_found(experiment: Experiment) -> None:
    tomorrow = NOON + timedelta(days=1)
    bring_series_up_to_date(experiment, tomorrow)
    assert check_sums(experiment, tomorrow) == []
    DailySums.objects.update(value=7)

    assert check_sums(experiment, tomorrow) == [
        Difference("series", "spent", ("green", 1, NOON.date()), "value", 7, pytest.approx(0.3))
    ]


@pytest.mark.django_db(transaction=True)
def test_check_sums__wrong_sums__are_found(experiment: Experiment) -> None:
    VariantSums.objects.filter(metric=0).update(value=7)
    VariantSums.objects.filter(metric=-1).update(users=2)

    assert check_sums(experiment, NOON) == [
        Difference("sums", None, ("green", 1, NOON.date()), "users", 2, 1),
        Difference("sums", "spent", ("green", 1, NOON.date()), "value", 7, pytest.approx(0.3)),
    ]


@pytest.mark.distributed
@pytest.mark.parametrize(("found", "expected"), [([1, 0], 0), ([1, 1, 0], 0), ([1] * 5, 1)])
def test_check_sums__differences_on_several_servers__count_if_they_are_found_again(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch, found: list[int], expected: int
) -> None:
    looks = iter(found)
    difference = Difference("sums", None, None, "users", 1, 2)
    monkeypatch.setattr(checking, "_in_one_snapshot", lambda *_: [difference] * next(looks))
    assert check_sums(experiment, NOON) == [difference] * expected
    assert not [*looks]


def test_check_results__all_right__says_so_of_each_started_experiment(experiment: Experiment) -> None:
    ExperimentFactory(key="draft", environment=experiment.environment)
    EventFactory(user_id="u", name="buy", timestamp=NOON, properties={"amount": 5})

    assert check() == "e: the stored results match the events and exposures\n"
    assert check("draft") == "draft: not checked, because a draft has no results\n"


@pytest.mark.django_db(transaction=True)
def test_check_sums__wrong_values__are_found(experiment: Experiment) -> None:
    UserValue.objects.filter(metric=0).update(value=100)
    UserValue.objects.filter(metric=EXPOSURE).update(in_several_variants=True)

    assert [(difference.where, difference.name, difference.kept) for difference in check_sums(experiment, NOON)] == [
        ("values", "in_several_variants", 1),
        ("values", "value", 100),
        ("values", "value_squared", 10_000),
    ]


@pytest.mark.django_db(transaction=True)
def test_check_sums__wrong_cap__is_found(production: Environment) -> None:
    capped = Definition("spent", 1, "sum", Quantity("buy", "amount"), cap_percentile=60)
    experiment = make_experiment(production, capped)
    assign(experiment.pk, "u", "green", NOON)
    EventFactory(user_id="u", name="buy", timestamp=NOON, properties={"amount": 5})
    refresh(experiment, NOON)
    ResultState.objects.update(caps={"0": 6.0})

    assert check_sums(experiment, NOON) == [Difference("caps", "spent", None, "cap", 6, 5)]


@pytest.fixture
def typed(production: Environment) -> Experiment:
    """A running experiment with a funnel, retention and a median, and one user in green who meets all of them."""
    steps = (Quantity("look"), Quantity("buy"))
    experiment = make_experiment(
        production,
        Definition("funnel", 1, "funnel", steps[0], steps=steps),
        Definition("returned", 1, "retention", Quantity("buy"), window=timedelta(days=1)),
        Definition("median", 1, "quantile", Quantity("buy", "amount"), quantile=0.5),
    )
    assign(experiment.pk, "u", "green", NOON)
    EventFactory(user_id="u", name="look", timestamp=NOON)
    EventFactory(user_id="u", name="buy", timestamp=NOON + timedelta(seconds=1), properties={"amount": 7})
    refresh(experiment, NOON)
    return experiment


@pytest.mark.django_db(transaction=True)
def test_check_sums__wrong_steps_and_mature_users_and_quantiles__are_found(typed: Experiment) -> None:
    later = NOON + timedelta(days=2)
    read_and_store(typed, later)
    assert check_sums(typed, later) == []
    VariantSums.objects.filter(metric__in=[1, step_number(0, 2)]).update(users=5)
    state = ResultState.objects.get()
    assert state.quantiles is not None
    state.quantiles["sets"]["mature 1"]["metrics"]["2"]["green"][2] = 8
    state.save()

    assert check_sums(typed, later) == [
        Difference("sums", "returned", ("green", 1, NOON.date()), "users", 5, 1),
        Difference("sums", "step 2 of funnel", ("green", 1, NOON.date()), "users", 5, 1),
        Difference("mature", "returned", ("green", 1, None), "users", 5, 1),
        Difference("quantiles", "median", ("green", 1, None), "value", 8, 7),
    ]


@pytest.mark.django_db(transaction=True)
def test_check_sums__moved_exposure_of_the_last_day__is_found_among_mature_users(typed: Experiment) -> None:
    UserValue.objects.filter(metric=EXPOSURE).update(exposed_at=NOON + timedelta(hours=2))

    found = check_sums(typed, NOON + timedelta(days=1, hours=1))
    assert {(difference.where, difference.metric) for difference in found} == {
        ("mature", "users after 1 day, 0:00:00"),
        ("mature", "returned"),
    }


@pytest.mark.django_db(transaction=True)
def test_check_results__sums_of_no_metric__are_named_by_their_number(experiment: Experiment) -> None:
    VariantSums.objects.create(experiment=experiment, metric=3, variant="green", phase=1, day=NOON.date(), users=1)
    out = StringIO()

    with pytest.raises(CommandError):
        call_command("check_results", stdout=out)
    assert out.getvalue() == "e: sums: users of number 4, green, 2026-01-31: stored 1, computed 0\n"


@pytest.mark.django_db(transaction=True)
def test_check_results__wrong_sums__fails_and_names_them(experiment: Experiment) -> None:
    VariantSums.objects.filter(metric=0).update(value=7)
    out = StringIO()

    with pytest.raises(CommandError, match=r"^The stored results do not match the events and exposures: e\.$"):
        call_command("check_results", "e", stdout=out)
    assert out.getvalue() == "e: sums: value of spent, green, 2026-01-31: stored 7, computed 0.3\n"


@pytest.mark.django_db(transaction=True)
def test_check_results__sums_of_a_later_phase__are_named_with_it(experiment: Experiment) -> None:
    VariantSums.objects.create(experiment=experiment, metric=-1, variant="green", phase=2, day=NOON.date(), users=1)
    out = StringIO()

    with pytest.raises(CommandError):
        call_command("check_results", stdout=out)
    assert out.getvalue() == "e: sums: users of exposures, green, phase 2, 2026-01-31: stored 1, computed 0\n"


@pytest.mark.django_db(transaction=True)
def test_check_results__many_differences__tells_how_many_more(experiment: Experiment) -> None:
    for number in range(30):
        moved = {"variant": f"v{number:02}", "phase": 1, "day": NOON.date(), "users": 1}
        VariantSums.objects.create(experiment=experiment, metric=-1, **moved)
    out = StringIO()

    with pytest.raises(CommandError):
        call_command("check_results", stdout=out)
    assert out.getvalue().splitlines()[20:] == ["e: and 10 other differences"]


def test_check_results__frozen__is_not_checked(production: Environment) -> None:
    freeze(ExperimentFactory(key="e", stopped=True), NOON + timedelta(days=2))

    assert check() == "e: not checked, because it is frozen and its events may be gone\n"


@pytest.mark.parametrize("arguments", [("nothing",), ("e", "--environment", "nowhere")])
def test_check_results__unknown__is_refused(experiment: Experiment, arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        check(*arguments)


def test_sums__erased_amounts__change_nothing(experiment: Experiment) -> None:
    """Adding floats would lose the small amounts beside the large one, and erasing it would not restore them."""
    before = list(VariantSums.objects.order_by("pk").values())
    assign(experiment.pk, "rich", "green", NOON)
    EventFactory(user_id="rich", name="buy", timestamp=NOON, properties={"amount": 1e40})
    refresh(experiment, NOON)
    assert UserValue.objects.filter(metric=0).count() == 2
    erase_user("rich", experiment.environment)
    assert list(VariantSums.objects.order_by("pk").values()) == before


def test_check_sums__no_metrics__counts_the_exposed_users(production: Environment) -> None:
    experiment = ExperimentFactory(key="e", environment=production, running=True, metrics=[])
    assign(experiment.pk, "u", "green", NOON)
    EventFactory(user_id="u", name="buy", timestamp=NOON)

    assert check_sums(experiment, NOON) == []
    assert VariantSums.objects.values_list("metric", "users").get() == (-1, 1)
