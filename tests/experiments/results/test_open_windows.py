"""After a stop with `keep_counting`, windows that were open go on counting; nothing else does."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.models import Environment
from config.timestamps import format_timestamp
from events.models import Event
from events.recording import NewEvent, new_id, record
from events.removal import erase_user
from experiments.lifecycle import decisions
from experiments.lifecycle.changes import get_experiment, reopen_experiment, stop_experiment
from experiments.metrics.definition import definitions_of
from experiments.models import Experiment, Exposure
from experiments.results.analyse import analyse_experiment, explain_metric
from experiments.results.archive import freeze, is_due, refresh_results
from experiments.results.check import check_sums
from experiments.results.maturity import read_mature
from experiments.results.outcomes import outcomes_of, stored_outcomes
from experiments.results.refresh import bring_series_up_to_date, bring_up_to_date
from experiments.results.sums import read_caps
from tests.conftest import ACTOR, NOON
from tests.experiments.results.histories import DEFINITIONS, NUMBERS, History, make_experiment
from tests.experiments.results.test_maturity import by_key, mature_by_hand, near
from tests.selection import histories
from tests.transactions import undone

pytestmark = pytest.mark.django_db

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SOON, BOUGHT = DEFINITIONS[1], DEFINITIONS[0]
STOP = NOON + DAY
END = STOP + 30 * HOUR
"""When the window of SOON is over for a user who was exposed at the stop."""


def write(experiment: Experiment, now: datetime = STOP) -> dict[str, Any]:
    return {"key": experiment.key, "environment": experiment.environment, "actor": ACTOR, "now": now}


def stop(experiment: Experiment, at: datetime = STOP, *, keep_counting: bool = True, **values: Any) -> Experiment:
    return stop_experiment(**write(experiment, at), stopped_at=at, keep_counting=keep_counting, **values)


def reopen(experiment: Experiment) -> Experiment:
    with patch.object(decisions, "REOPENABLE_FOR", 10_000 * DAY):  # the change log goes on today
        return reopen_experiment(**write(experiment, STOP + 2 * HOUR))


def windowed(experiment: Experiment, at: datetime) -> Any:
    """Return the sums of the metrics with a window over the users who count, as the service reads them."""
    bring_up_to_date(experiment, at)
    return of_windows(experiment, by_key(read_mature(experiment, at, read_caps(experiment)).sums.by_phase))


def of_windows(experiment: Experiment, sums: dict[tuple[int, int, str], Any]) -> Any:
    spans = [definition.span for definition in definitions_of(experiment)]
    return near({key: of_key for key, of_key in sums.items() if 0 <= key[0] < len(spans) and spans[key[0]]})


@histories(30)
@given(chance=st.randoms(use_true_random=False))
def test_windows__after_any_history__count_as_if_there_had_been_no_stop(
    production: Environment, chance: Random
) -> None:
    """The reference is an experiment that runs, to which nobody was exposed after the moment of the stop."""
    with undone():
        experiment = make_experiment(production, *chance.choice([DEFINITIONS, NUMBERS]))
        history = History(experiment, chance)
        for _ in range(30):
            chance.choice([history.record, history.record, history.report, history.assign, history.move])()
        stopped_at, at = sorted(history.moment(earliest=0) for _ in range(2))
        Event.objects.filter(timestamp__gt=at, received_at__gt=at).delete()
        with undone():
            Exposure.objects.filter(exposed_at__gt=stopped_at).delete()
            expected = of_windows(experiment, mature_by_hand(experiment, at))
        if chance.random() < 0.5:
            bring_series_up_to_date(experiment, stopped_at)
        stopped = stop(experiment, stopped_at)
        assert stopped.counts_until == stopped_at + 5 * DAY
        if at <= stopped.counts_until:
            assert windowed(stopped, at) == expected
        assert list(check_sums(stopped, at)) == []


# one user of each kind


def event(user: str, name: str, at: datetime, **properties: Any) -> NewEvent:
    return NewEvent(new_id(), user, name, at, at, properties)


def seen(user: str, at: datetime, variant: str = "green") -> NewEvent:
    return event(user, "seen", at, experimentId="e", variant=variant)


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """An experiment of a metric with a window of 30 hours and one without; its user came an hour before the stop."""
    made = make_experiment(production, SOON, BOUGHT)
    record([seen("early", STOP - HOUR)], production)
    return made


def values(experiment: Experiment, at: datetime) -> list[tuple[int, int, float | None, int]]:
    """Return by metric the users of green, those who count, their value, and those who were cut off."""
    results = analyse_experiment(get_experiment("e", experiment.environment), at)
    found = [metric.variants[1] for metric in results.metrics]
    return [(each.users, each.counted_users, each.value, each.cut_off_users) for each in found]


def test_windows__after_the_stop__count_for_users_of_before_it_alone(experiment: Experiment) -> None:
    stop(experiment)
    after = [event("early", "buy", STOP + HOUR), seen("late", STOP + HOUR), event("late", "buy", STOP + 2 * HOUR)]
    record(after, experiment.environment)

    assert values(experiment, STOP + 3 * HOUR) == [(1, 0, None, 0), (1, 1, 0, 0)]
    assert values(experiment, END) == [(1, 1, 1, 0), (1, 1, 0, 0)]


def test_windows__cut_off_at_the_stop__never_count(experiment: Experiment) -> None:
    stop(experiment, keep_counting=False)
    record([event("early", "buy", STOP + HOUR)], experiment.environment)

    assert values(experiment, END) == [(1, 0, None, 1), (1, 1, 0, 0)]


def test_windows__while_they_are_open__say_when_half_of_the_users_will_count(experiment: Experiment) -> None:
    stop(experiment)
    [soon, bought] = analyse_experiment(get_experiment("e", experiment.environment), STOP + HOUR).metrics

    assert soon.variants[1].waiting is not None
    assert soon.variants[1].waiting.users == 1
    assert soon.variants[1].waiting.half_mature_at <= END
    assert bought.variants[1].waiting is None


def test_explanation__while_windows_count__names_the_end_of_each_metric(experiment: Experiment) -> None:
    stopped = stop(experiment)
    record([event("early", "buy", STOP + HOUR)], experiment.environment)

    ends = {
        metric: [
            step for step in explain_metric(stopped, metric, "green", now=END)["steps"] if "before" in step["name"]
        ]
        for metric in ("soon", "bought")
    }
    assert [(step["description"], step["rows"]) for step in ends["soon"]] == [
        (f"Events not after the end of counting at {format_timestamp(END)}.", 1)
    ]
    assert [(step["description"], step["rows"]) for step in ends["bought"]] == [
        (f"Events not after the stop at {format_timestamp(STOP)}.", 0)
    ]


# freezing, reopening, erasure


def test_freeze__while_windows_count__waits_until_a_day_after_the_last_one(experiment: Experiment) -> None:
    stopped = stop(experiment)
    assert (stopped.counts_until, is_due(stopped, END + DAY - HOUR), is_due(stopped, END + DAY)) == (END, False, True)

    record([event("early", "buy", STOP + HOUR)], experiment.environment)
    refresh_results(END)
    assert get_experiment("e", experiment.environment).frozen_at is None
    refresh_results(END + DAY)
    assert get_experiment("e", experiment.environment).frozen_at == END + DAY
    Event.objects.all().delete()
    assert values(experiment, END + 9 * DAY) == [(1, 1, 1, 0), (1, 1, 0, 0)]


def test_outcome__while_windows_count__is_not_final(experiment: Experiment) -> None:
    stopped = stop(experiment)
    assert outcomes_of([stopped], STOP, most=1)[stopped.pk].users == 1
    freeze(stopped, END + DAY)
    frozen = get_experiment("e", experiment.environment)
    assert outcomes_of([frozen], END + DAY, most=1) == stored_outcomes([frozen])


def test_reopening__while_windows_count__goes_on_as_if_there_had_been_no_stop(experiment: Experiment) -> None:
    stop(experiment)
    values(experiment, STOP + HOUR)
    record([event("early", "buy", STOP + HOUR), seen("late", STOP + HOUR)], experiment.environment)
    reopened = reopen(experiment)

    assert (reopened.status, reopened.counts_until, reopened.counting_ends_at) == ("running", None, None)
    assert values(experiment, STOP + 2 * HOUR) == [(2, 0, None, 0), (2, 2, 0.5, 0)]


def test_stop__after_a_reopening__computes_everything_for_the_new_end(experiment: Experiment) -> None:
    stop(experiment)
    record([event("early", "buy", STOP + HOUR)], experiment.environment)
    assert values(experiment, END) == [(1, 1, 1, 0), (1, 1, 0, 0)]
    reopen(experiment)
    stop(experiment, keep_counting=False)

    assert values(experiment, END) == [(1, 0, None, 1), (1, 1, 0, 0)]


def test_erasure__while_windows_count__forgets_the_user(experiment: Experiment) -> None:
    stopped = stop(experiment)
    record([event("early", "buy", STOP + HOUR)], experiment.environment)
    values(experiment, END)
    erase_user("early", experiment.environment)

    assert values(experiment, END) == [(0, 0, None, 0), (0, 0, None, 0)]
    assert list(check_sums(stopped, END)) == []


def test_series__while_windows_count__goes_on_until_the_day_of_the_end(experiment: Experiment) -> None:
    stop(experiment)
    record([event("early", "buy", STOP + HOUR)], experiment.environment)
    experiment = get_experiment("e", experiment.environment)
    results = analyse_experiment(experiment, END + 3 * DAY, daily=["soon", "bought"])

    for metric, last in zip(results.metrics, ((1, 1.0), (1, 0.0)), strict=True):
        days = metric.variants[1].series
        assert (days[-1].day, (days[-1].counted_users, days[-1].value)) == (END.date(), last)
