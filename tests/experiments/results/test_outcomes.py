"""What came of stopped experiments: what is stored of it, when it is computed again, and who is named."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from config.models import Environment
from events.recording import NewEvent, new_id, record
from events.removal import erase_user
from experiments.lifecycle.changes import reopen_experiment, stop_experiment
from experiments.models import Experiment, StoredOutcome
from experiments.results.analyse import analyse_experiment
from experiments.results.archive import refresh_results
from experiments.results.outcomes import (
    compute_outcome,
    effects_on,
    outcome_of,
    outcomes_of,
    outcomes_so_far,
    refresh_outcomes,
    stored_outcomes,
)
from experiments.stats.types import Reason
from tests.conftest import ACTOR, NOON
from tests.experiments.admin.results.made import CONVERSION, TOO_FEW, compared, estimate, metric, variant, with_bounds
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def tracked(experiment: Experiment, *, buyers: int, users: int) -> None:
    """Half of the users in each variant, of whom so many of the treatment and half as many of the control buy."""
    events = []
    for name, bought in (("control", buyers // 2), ("green", buyers)):
        for number in range(users // 2):
            user, at = f"{name}-{number}", NOON + timedelta(minutes=1)
            seen = {"experimentId": experiment.key, "variant": name}
            events.append(NewEvent(new_id(), user, "seen", at, at, seen))
            if number < bought:
                events.append(NewEvent(new_id(), user, "purchase", at + HOUR, at + HOUR, {}))
    record(events, experiment.environment)


def stopped(key: str = "button", **values: Any) -> Experiment:
    experiment: Experiment = ExperimentFactory(key=key, running=True)
    tracked(experiment, buyers=240, users=800)
    return stop(experiment, **values)


def stop(experiment: Experiment, **values: Any) -> Experiment:
    """It stops on 9 February, unless `values` say when."""
    at = NOON + 9 * DAY
    common = {"key": experiment.key, "environment": experiment.environment, "actor": ACTOR, "now": at}
    return stop_experiment(**{**common, "stopped_at": at, **values})


def later(experiment: Experiment) -> Experiment:
    return Experiment.objects.select_related("environment").get(pk=experiment.pk)


def test_outcome__of_a_stop__has_the_effects_of_the_results_and_the_actor() -> None:
    experiment = stopped()
    results = analyse_experiment(experiment, NOON + 9 * DAY)
    outcome = outcome_of(results)
    assert outcome is not None
    assert (outcome.users, outcome.control, outcome.decision, outcome.recommended) == (800, "control", "ship", "green")
    assert outcome.stopped_by == ACTOR.name
    [effect] = outcome.effects
    primary = results.primary_metric
    assert primary is not None
    comparison = primary.variants[1].comparison
    assert comparison is not None
    assert not isinstance(comparison.lift, Reason)
    assert effect.lift == pytest.approx(1.0)  # 240 buyers instead of 120
    test = comparison.lift.always_valid
    assert (effect.metric, effect.variant, effect.lower, effect.upper) == ("purchase", "green", test.lower, test.upper)
    assert effect.is_primary
    # The delta method: the relative errors of both shares, 30 % and 60 % of 400 users.
    assert effect.log_error == pytest.approx((0.7 / 0.3 / 400 + 0.4 / 0.6 / 400) ** 0.5, rel=0.02)


def test_outcome__with_a_better_treatment__has_its_e_value() -> None:
    """The mixture's e-value is 1/p before the correction. Of two treatments, half of it counts."""
    outcome = compute_outcome(stopped(), NOON + 9 * DAY)
    primary = analyse_experiment(later(Experiment.objects.get(key="button")), NOON + 9 * DAY).primary_metric
    assert primary is not None
    comparison = primary.variants[1].comparison
    assert comparison is not None
    assert comparison.unadjusted_p is not None
    assert outcome.log_e_values == {"green": pytest.approx(-math.log(comparison.unadjusted_p), rel=1e-9)}
    variants = [{"key": key, "weight": weight} for key, weight in {"control": 1, "green": 1, "red": 0}.items()]
    three: Experiment = ExperimentFactory(key="three", variants=variants, running=True)
    tracked(three, buyers=240, users=800)
    halved = compute_outcome(stop(three), NOON + 9 * DAY).log_e_values
    assert halved == {"green": pytest.approx(outcome.log_e_values["green"] - math.log(2))}


def test_outcome__whose_data_need_a_check__has_no_e_value() -> None:
    variants = [{"key": "control", "weight": 9}, {"key": "green", "weight": 1}]
    experiment: Experiment = ExperimentFactory(variants=variants, running=True)
    tracked(experiment, buyers=240, users=800)
    outcome = compute_outcome(stop(experiment), NOON + 9 * DAY)
    assert (outcome.decision, outcome.log_e_values) == ("check_data", {})


def test_outcome__without_a_better_treatment__has_no_e_value() -> None:
    experiment: Experiment = ExperimentFactory(running=True)
    tracked(experiment, buyers=0, users=800)
    assert compute_outcome(stop(experiment), NOON + 9 * DAY).log_e_values == {}


def test_outcome_so_far__of_a_running_experiment__is_stored_until_the_stop() -> None:
    experiment: Experiment = ExperimentFactory(key="button", running=True)
    tracked(experiment, buyers=240, users=800)
    now = NOON + 8 * DAY
    so_far = outcomes_so_far([experiment], now, most=1)
    assert so_far[experiment.pk].log_e_values is not None
    assert {*so_far[experiment.pk].log_e_values} == {"green"}
    assert outcomes_so_far([experiment], now + DAY, most=0) == so_far
    assert outcomes_of([experiment], now, most=1) == {}
    assert refresh_outcomes(now) == refresh_outcomes(now) == "computed 1 outcome"  # it may change until the end
    stopped_now = stop(experiment)
    assert outcomes_so_far([stopped_now], now, most=0) == {}


def test_outcome__stored_without_e_values__is_shown_and_computed_again() -> None:
    experiment = stopped()
    outcome = compute_outcome(experiment, NOON + 9 * DAY)
    row = StoredOutcome.objects.get()
    del row.document["log_e_values"]
    row.is_final = True
    row.save()
    assert stored_outcomes([experiment]) == {experiment.pk: replace(outcome, log_e_values=None)}
    assert outcomes_of([experiment], NOON + 9 * DAY, most=1) == {experiment.pk: outcome}
    StoredOutcome.objects.update(document=row.document, is_final=True)
    assert refresh_outcomes(NOON + 9 * DAY) == "computed 1 outcome"
    assert stored_outcomes([experiment]) == {experiment.pk: outcome}
    StoredOutcome.objects.update(is_final=True)
    assert refresh_outcomes(NOON + 9 * DAY) == "computed 0 outcomes"


def test_outcome__of_a_running_experiment__is_none() -> None:
    experiment = ExperimentFactory(running=True)
    assert outcome_of(analyse_experiment(experiment, NOON)) is None
    assert outcomes_of([experiment], NOON, most=9) == stored_outcomes([experiment]) == {}
    assert not StoredOutcome.objects.exists()


def test_outcome__that_is_not_final__is_computed_again_and_then_frozen(django_assert_num_queries: Any) -> None:
    experiment = stopped()
    first = outcomes_of([experiment], NOON + 9 * DAY, most=1)[experiment.pk]
    late = NOON + 2 * HOUR
    record([NewEvent(new_id(), "control-399", "purchase", late, late, {})], experiment.environment)
    soon = outcomes_of([experiment], NOON + 9 * DAY + timedelta(minutes=9), most=1)
    assert soon[experiment.pk] == first
    second = outcomes_of([experiment], NOON + 9 * DAY + timedelta(minutes=10), most=1)[experiment.pk]
    assert second.effects[0].lift == pytest.approx(240 / 121 - 1)
    refresh_results(NOON + 11 * DAY)
    assert refresh_outcomes(NOON + 11 * DAY) == "computed 1 outcome"
    record([NewEvent(new_id(), "control-398", "purchase", late, late, {})], experiment.environment)
    assert refresh_outcomes(NOON + 12 * DAY) == "computed 0 outcomes"
    experiment = later(experiment)
    with django_assert_num_queries(1):
        assert outcomes_of([experiment], NOON + 30 * DAY, most=1) == {experiment.pk: second}
    assert outcome_of(analyse_experiment(experiment, NOON + 30 * DAY)) == second


def test_outcomes__more_than_a_page_computes__come_from_what_is_stored() -> None:
    both = [stopped("first"), stopped("second")]
    assert len(outcomes_of(both, NOON + 9 * DAY, most=1)) == 1
    assert len(stored_outcomes(both)) == 1
    assert len(outcomes_of(both, NOON + 9 * DAY, most=1)) == 2


def test_outcome__of_an_earlier_stop__does_not_count(production: Environment) -> None:
    experiment = stopped()
    compute_outcome(experiment, NOON + 9 * DAY)
    Experiment.objects.update(stopped_at=timezone.now())  # so that it can be reopened
    experiment = reopen_experiment(key="button", environment=production, actor=ACTOR, now=NOON)
    assert stored_outcomes([experiment]) == {}
    assert stored_outcomes([stop(experiment, stopped_at=NOON + 12 * DAY)]) == {}


def test_outcome__stored_by_another_version__is_computed_again() -> None:
    experiment = stopped()
    outcome = compute_outcome(experiment, NOON + 9 * DAY)
    StoredOutcome.objects.update(document={"users": 1})
    assert stored_outcomes([experiment]) == {}
    assert outcomes_of([experiment], NOON + 9 * DAY, most=1) == {experiment.pk: outcome}


def test_outcome__after_an_erasure__is_computed_again() -> None:
    experiment = stopped(winner="green")
    other = ExperimentFactory(key="other", running=True)
    other = stop(other)
    for each in (experiment, other):
        compute_outcome(each, NOON + 9 * DAY)
    erase_user("green-0", experiment.environment)
    assert set(stored_outcomes([experiment, other])) == {other.pk}
    again = outcomes_of([experiment], NOON + 9 * DAY, most=1)[experiment.pk]
    assert again.users == 799
    assert again.effects[0].lift == pytest.approx(239 / 399 / 0.3 - 1)


def test_effects__without_a_lift_or_without_bounds__are_left_out_or_have_no_error() -> None:
    difference = estimate(0.1, 0.05)
    figures = metric(
        CONVERSION,
        variant("blue", 0.1),
        variant("none", 0.1, compared(TOO_FEW, difference)),
        variant("open", 0.1, compared(with_bounds(0.3, -1.2, None), difference)),
        variant("deep", 0.1, compared(with_bounds(0.3, -1.0, 2.0), difference)),
        variant("known", 0.1, compared(with_bounds(0.1, 0.0, 0.21), difference)),
    )
    errors = {effect.variant: effect.log_error for effect in effects_on(figures)}
    assert errors == {"open": None, "deep": None, "known": pytest.approx(0.190620 / 2 / 1.959964, rel=1e-5)}
