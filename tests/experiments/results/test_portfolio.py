"""All finished experiments together: which effects count, on which metric, and what the page shows of them."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.urls import reverse

from config.models import Environment
from experiments.models import Experiment, StoredOutcome
from experiments.results.outcomes import Effect, Outcome
from experiments.results.portfolio import MOST_COMPUTED, FinishedExperiments
from experiments.stats.lifts import MeasuredEffect
from experiments.stats.winners_curse import Portfolio
from tests.admin import sign_in, text_of
from tests.conftest import NOON
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db
PAGE = "admin:experiments_experiment_portfolio"
DAY = timedelta(days=1)
EFFECT = Effect("purchase", 1, "green", True, False, False, "unclear", 0.04, -0.01, 0.09, 0.95, 0.02)


def finished(key: str, *effects: Effect, decision: str = "inconclusive", day: int = 1, **values: Any) -> Experiment:
    """A stopped experiment with this outcome; with `winner`, a shipped one."""
    winner, log_e_values = values.pop("winner", ""), values.pop("log_e_values", {})
    experiment: Experiment = ExperimentFactory(key=key, started_at=NOON, stopped_at=NOON + day * DAY, **values)
    Experiment.objects.filter(pk=experiment.pk).update(winner=winner)
    outcome = Outcome(1000, "control", decision, "", "user ada", effects, log_e_values)
    StoredOutcome.objects.create(
        pk=experiment.pk,
        stopped_at=NOON + day * DAY,
        computed_at=NOON,
        is_final=True,
        document=msgspec.to_builtins(outcome),
    )
    return experiment


def of_lift(lift: float, **other: Any) -> Effect:
    return replace(EFFECT, lift=lift, **other)


def test_portfolio__of_several_experiments__averages_each_goal_and_what_was_shipped(production: Environment) -> None:
    lifts = [0.10, 0.02, -0.03, 0.01]
    for number, lift in enumerate(lifts):
        finished(f"e-{number}", of_lift(lift), winner="green" if lift > 0.05 else "", day=number)
    finished("other", of_lift(0.2, metric="sign_up", log_error=0.1))
    found = FinishedExperiments(production, NOON + 9 * DAY)
    purchase, sign_up = found.averages()
    pure = Portfolio([MeasuredEffect(lift, 0.02) for lift in reversed(lifts)])  # newest first
    assert (purchase.metric, purchase.all.number) == ("purchase", 4)
    assert purchase.all.measured == pure.measured([0, 1, 2, 3])
    assert purchase.all.corrected is None  # all were counted, so none was chosen
    assert purchase.shipped is not None
    assert (purchase.shipped.number, purchase.shipped.measured) == (1, pure.measured([3]))
    assert purchase.shipped.corrected is not None
    assert purchase.shipped.corrected.estimate < 0.10
    shipped = Experiment.objects.get(key="e-0")
    assert found.corrected(shipped, of_lift(0.10)) == purchase.shipped.corrected
    assert (sign_up.metric, sign_up.shipped, sign_up.all.corrected) == ("sign_up", None, None)


def test_portfolio__of_effects_that_cannot_be_trusted__leaves_them_out(production: Environment) -> None:
    finished("doubtful", of_lift(0.9), decision="check_data")
    finished("guardrail", of_lift(0.1, is_guardrail=True))
    finished("open", of_lift(0.1, log_error=None))
    finished("version", of_lift(0.1, version=2))
    finished("good", of_lift(0.04), of_lift(0.05, variant="red"))
    found = FinishedExperiments(production, NOON + 9 * DAY)
    counted = {(average.metric, average.version): average.all.number for average in found.averages()}
    assert counted == {("purchase", 1): 2, ("purchase", 2): 1}
    assert found.doubtful == 1
    assert found.corrected(Experiment.objects.get(key="doubtful"), of_lift(0.9)) is None


def test_programme__of_all_started_experiments__marks_the_winners_that_hold(production: Environment) -> None:
    """Of 10 experiments, the best needs an e-value of 200, each of the best two 100, and each of the best three 67."""
    finished("strong", of_lift(0.1, label="better"), log_e_values={"green": math.log(5000), "red": math.log(60)})
    finished("weak", of_lift(0.1, label="better"), log_e_values={"green": math.log(60)})
    running = ExperimentFactory(key="running", running=True)
    StoredOutcome.objects.create(
        pk=running.pk,
        stopped_at=None,
        computed_at=NOON,
        is_final=False,
        document=msgspec.to_builtins(Outcome(1000, "control", "ship", "green", "", [], {"green": math.log(101)})),
    )
    for number in range(7):
        finished(f"e-{number}", EFFECT)
    ExperimentFactory(key="draft")
    found = FinishedExperiments(production, NOON + 9 * DAY)
    programme = found.programme
    assert (programme.experiments, programme.without_outcome) == (10, 0)
    assert [experiment.key for experiment in programme.winners] == ["running", "weak", "strong"]
    assert [(experiment.key, found.holding(experiment)) for experiment in programme.holding] == [
        ("running", ["green"]),
        ("strong", ["green"]),
    ]
    page = text_of(sign_in().get(reverse(PAGE)))
    words = "3 of 10 started experiments have a variant that is better. 2 of them hold at a false discovery rate of 5 %"
    assert f"{words} over all 10." in page
    assert "running is running, and holds so far: green" in page
    assert "strong Stopped on 1 Feb 2026 with 1,000 users green purchase +10.00 % better, holds" in page
    assert "weak Stopped on 1 Feb 2026 with 1,000 users green purchase +10.00 % better, does not hold" in page


def test_programme__with_experiments_without_outcome__counts_them_as_without_a_winner(production: Environment) -> None:
    finished("strong", EFFECT, log_e_values={"green": math.log(60)})  # enough for 3 experiments, but not for 8
    for number in range(MOST_COMPUTED + 2):
        ExperimentFactory(key=f"e-{number}", running=True)
    programme = FinishedExperiments(production, NOON + DAY).programme
    assert (programme.experiments, len(programme.winners), len(programme.holding)) == (8, 1, 0)
    assert programme.without_outcome == 2


def test_portfolio__of_another_environment_and_of_others_that_run__does_not_count(
    production: Environment, staging: Environment
) -> None:
    finished("elsewhere", EFFECT, environment=staging)
    ExperimentFactory(running=True)
    ExperimentFactory()
    assert FinishedExperiments(production, NOON).experiments == []
    assert "No experiment is finished in Production yet" in text_of(sign_in().get(reverse(PAGE)))


def test_portfolio__without_stored_outcomes__computes_a_few_at_a_time(production: Environment) -> None:
    for number in range(MOST_COMPUTED + 2):
        ExperimentFactory(key=f"e-{number}", stopped=True)
    assert FinishedExperiments(production, NOON + DAY).missing == 2
    page = text_of(sign_in().get(reverse(PAGE)))
    assert "are not computed yet" not in page  # the second look computes the other two
    assert FinishedExperiments(production, NOON + DAY).missing == 0


def test_page__of_finished_experiments__says_in_words_what_is_left(production: Environment) -> None:
    for number, lift in enumerate([0.10, 0.02, -0.03]):
        finished(f"e-{number}", of_lift(lift), winner="green" if lift > 0.05 else "", day=number)
    finished("doubtful", of_lift(0.5), decision="check_data", day=5)
    ExperimentFactory(key="empty", started_at=NOON, stopped_at=NOON + 4 * DAY)
    page = text_of(sign_in().get(reverse(PAGE)))
    assert "The one variant that was shipped changed purchase by +10.0 % on average as measured." in page
    assert "The true average is more likely +" in page
    assert "The 3 variants that were tried changed purchase by +2.9 % on average as measured." in page
    assert "+2.9 % on average as measured. Nothing was chosen here, so nothing is corrected." in page
    assert "1 experiment whose data needed a check does not count." in page
    assert "doubtful Stopped on 5 Feb 2026 with 1,000 users The data needed a check, so no average counts it." in page
    assert "empty Stopped on 4 Feb 2026 with 0 users There is no lift of a primary metric." in page
    assert "e-0 Shipped green on 31 Jan 2026 with 1,000 users green purchase +10.00 % unclear" in page


@pytest.mark.parametrize(
    ("effects", "words"),
    [
        ([(0.02, 0.01), (0.03, 0.01)], "%)."),
        ([(-0.03, 0.01), (-0.02, 0.01)], "%). This is not a winner's curse: a good result here was not the reason"),
        ([(0.10, 0.2), (-0.06, 0.001)], "%), because the less certain effects shrink further than those in the other"),
        ([(0.10, 0.001), (-0.06, 0.2)], "%), because the less certain effects shrink further than those in the other"),
    ],
)
def test_page__of_what_was_shipped_for_other_reasons__does_not_call_it_too_good(
    production: Environment, effects: list[tuple[float, float]], words: str
) -> None:
    for number, (lift, error) in enumerate([*effects, (0.0, 0.01)]):
        finished(f"e-{number}", of_lift(lift, log_error=error), winner="green" if lift else "")
    page = text_of(sign_in().get(reverse(PAGE)))
    sentence = page.split("The 2 variants that were shipped")[1].split("The true average is more likely")[1]
    assert sentence[sentence.index("%)") :].startswith(words)


def test_page__of_few_experiments__says_from_how_many_it_corrects(production: Environment) -> None:
    finished("only", of_lift(0.1), winner="green")
    page = text_of(sign_in().get(reverse(PAGE)))
    assert "changed purchase by +10.0 % on average as measured. There are too few experiments to correct it." in page
    assert "from 3 effects on" in page


@pytest.mark.parametrize("count", [1, 30])
def test_page__any_number__takes_the_same_queries_and_has_pages(django_assert_num_queries: Any, count: int) -> None:
    for number in range(count):
        finished(f"e-{number}", of_lift(0.001 * number), day=number)
    client = sign_in()
    with django_assert_num_queries(5):  # session, user, environments, experiments, outcomes
        page = client.get(reverse(PAGE))
    assert len(page.context["rows"]) == min(count, 25)
    assert ("Page 1 of 2" in text_of(page)) == (count == 30)
    assert len(client.get(reverse(PAGE) + "?p=2").context["rows"]) == (5 if count == 30 else 1)


def test_page__without_the_right__is_refused() -> None:
    assert sign_in("flags.view_flag").get(reverse(PAGE)).status_code == 403
