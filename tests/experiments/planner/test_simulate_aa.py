"""The output of `manage.py simulate_aa`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
import time_machine
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django import DjangoDbBlocker

from config.models import Environment
from experiments.exposures.recording import assign
from experiments.management.commands import simulate_aa
from experiments.metrics.changes import create_metric
from experiments.models import Calibration, Experiment
from experiments.planner.calibration import DrawnUsers
from tests.conftest import ACTOR, NOON
from tests.factories import EventFactory, ExperimentFactory
from tests.transactions import rolled_back

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def experiment_of_the_module(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Experiment]:
    with rolled_back(django_db_blocker):
        yield _make_experiment()


@pytest.fixture
def experiment(experiment_of_the_module: Experiment) -> Experiment:
    return Experiment.objects.select_related("environment").get(pk=experiment_of_the_module.pk)


def _make_experiment() -> Experiment:
    experiment = ExperimentFactory(key="e", running=True)
    for number in range(200):
        assign(experiment.pk, f"user-{number}", "control", NOON + number * MINUTE)
        if number % 3 == 0:
            EventFactory(purchase=True, user_id=f"user-{number}", timestamp=NOON + (number + 1) * MINUTE)
    return experiment


def run(*arguments: str) -> str:
    out = StringIO()
    with time_machine.travel(NOON + timedelta(days=1), tick=False):
        call_command("simulate_aa", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


@pytest.mark.usefixtures("experiment")
def test_simulate_aa__plain__reports_every_look_and_a_verdict() -> None:
    lines = run("e", "--rounds", "200", "--looks", "4").splitlines()
    assert lines[0].startswith("e: 200 exposed users, split at random 200 times (seed 1), with 4 looks each.")
    assert lines[2] == "purchase, green against control"
    columns = ["ALWAYS-VALID", "FIXED-HORIZON"]
    assert lines[3].split() == ["USERS", *columns, "LIFT:", *columns]
    assert [line.split()[0] for line in lines[4:9]] == ["50", "100", "150", "200", "COVERAGE"]
    assert [line.split()[2] for line in lines[4:9]] == ["%"] * 5
    assert lines[10] == "Labels of goals, after the correction, and verdicts"
    assert lines[11].split() == ["USERS", "PRIMARY", "OTHERS", "SHIPPED", "REJECTED"]
    assert [line.split()[0] for line in lines[12:16]] == ["50", "100", "150", "200"]
    assert lines[17] == "Verdicts, by the rule that decided, without an effect"
    assert lines[18].split() == ["NO", "EFFECT", "VERDICT"]
    assert lines[19].endswith(" %  keep running, by the rule wait_for_users")
    assert "Users by variant (sample ratio), at p < 0.001" in lines
    assert lines[-1].startswith("As promised: over 4 looks, always-valid tests err in ")


def test_simulate_aa__many_users__says_that_a_part_is_drawn(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate_aa, "MIN_USERS_DRAWN", 150)
    first = run("e", "--rounds", "2", "--looks", "1", "--users", "150").splitlines()[0]
    number = len([*DrawnUsers(experiment, 150).read(0)])
    assert f"e: {number} of 200 exposed users, drawn by their ids, split at random 2 times" in first


@pytest.mark.usefixtures("experiment")
def test_simulate_aa__json__is_what_the_report_says(tmp_path: Path) -> None:
    file = tmp_path / "aa.json"
    assert run("e", "--rounds", "50", "--looks", "2", "--seed", "7", "--json", str(file)) == ""
    found = json.loads(file.read_text())
    assert json.loads(run("e", "--rounds", "50", "--looks", "2", "--seed", "7", "--json", "-")) == found
    assert list(found) == [
        *(
            "experiment",
            "users",
            "exposedUsers",
            "rounds",
            "looks",
            "seed",
            "alpha",
            "isAsPromised",
            "metrics",
            "untested",
            "labels",
            "guardrails",
            "verdicts",
            "minimumEffect",
            "verdictsWithMinimumEffect",
            "sampleRatio",
        )
    ]
    assert (found["users"], found["rounds"], found["looks"], found["seed"]) == (200, 50, 2, 7)
    [metric] = found["metrics"]
    assert (metric["metric"], metric["variant"], metric["isCuped"]) == ("purchase", "green", False)
    assert metric["splits"] == 50
    assert [look["users"] for look in metric["looks"]] == [100, 200]
    assert all(0 <= look[test] <= 1 for look in metric["looks"] for test in ("alwaysValid", "fixedHorizon"))
    assert metric["coverage"]["fixedHorizon"] > 0.8
    assert [look["users"] for look in metric["lifts"]] == [100, 200]
    report = run("e", "--rounds", "50", "--looks", "2", "--seed", "7")
    assert f"{100 * metric['looks'][1]['fixedHorizon']:.1f} %" in report


@pytest.mark.usefixtures("experiment")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody",), "No experiment has the key 'nobody'"),
        (("e", "--environment", "staging"), "No experiment has the key 'e'"),
        (("e", "--environment", "moon"), "Unknown environment 'moon'"),
        (("e", "--metric", "signup"), "metric: Must be a metric of the experiment: purchase."),
        (("e", "--rounds", "0"), "--rounds must be 1 to 100,000."),
        (("e", "--looks", "101"), "--looks must be 1 to 100."),
        (("e", "--users", "999"), "--users must be 1,000 to 10,000,000."),
        (("e", "--rounds", "1", "--json", "/nowhere/aa.json"), "Cannot write /nowhere/aa.json: No such file"),
    ],
)
def test_simulate_aa__unacceptable__is_refused_in_one_line(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError) as refusal:
        run(*arguments)
    assert str(refusal.value).startswith(message)
    assert "\n" not in str(refusal.value)


@pytest.mark.usefixtures("experiment")
def test_simulate_aa__file_that_cannot_be_written__is_refused_before_the_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simulate_aa, "calibrate", lambda *_, **__: pytest.fail("it has begun"))
    with pytest.raises(CommandError, match=r"^Cannot write /no/dir/x: No such file or directory\.$"):
        run("e", "--json", "/no/dir/x")


@pytest.mark.usefixtures("experiment")
def test_simulate_aa__refused_after_all__leaves_no_file_but_one_that_was_there(tmp_path: Path) -> None:
    ExperimentFactory(key="nobody", running=True)
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    old.write_text("kept")
    for file in (new, old):
        with pytest.raises(CommandError, match="Has 0 exposed users so far"):
            run("nobody", "--json", str(file))
    assert not new.exists()
    assert old.read_text() == "kept"
    assert not Calibration.objects.exists()


@pytest.mark.usefixtures("experiment")
def test_simulate_aa__too_few_splits__are_reported_and_not_kept() -> None:
    kept = "Not stored for the checklist, which requires at least 200 splits: purchase."
    assert run("e", "--rounds", "199", "--looks", "1").splitlines()[-1] == kept
    assert not Calibration.objects.exists()
    assert "Not kept" not in run("e", "--rounds", "200", "--looks", "1")
    assert Calibration.objects.count() == 1


def test_simulate_aa__metrics_that_were_tested__are_kept_as_calibrated(experiment: Experiment) -> None:
    both = ExperimentFactory(key="both", metrics=["purchase", "nobody"], running=True)
    for number in range(120):
        assign(both.pk, f"user-{number}", "control", NOON)
    run("both", "--rounds", "200", "--looks", "2")
    report = json.loads(run("both", "--rounds", "210", "--looks", "2", "--json", "-"))

    kept = list(Calibration.objects.order_by("rounds"))
    assert [(calibration.metric, calibration.rounds, calibration.is_as_promised) for calibration in kept] == [
        ("purchase", 200, True),
        ("purchase", 210, True),
    ]
    assert kept[1].false_positives == max(metric["looks"][-1]["alwaysValid"] for metric in report["metrics"])
    assert kept[1].definition == both.definitions[0]
    assert kept[1].at == NOON + timedelta(days=1)


@pytest.mark.usefixtures("experiment")
def test_simulate_aa__metric_without_a_test__is_said_not_to_be_tested() -> None:
    both = ExperimentFactory(key="both", metrics=["purchase", "nobody"], running=True)
    for number in range(120):
        assign(both.pk, f"user-{number}", "control", NOON)
    report = run("both", "--rounds", "3", "--looks", "2")
    assert "nobody, green against control: NOT TESTED, because no split has enough different values." in report


def test_simulate_aa__hardly_anybody_gets_a_variant__says_how_many_splits_were_tested(experiment: Experiment) -> None:
    variants = [{"key": "a", "weight": 98.5}, {"key": "b", "weight": 1.5}]
    rare = ExperimentFactory(key="rare", variants=variants, running=True)
    for number in range(120):
        assign(rare.pk, f"user-{number}", "a", experiment.started_at)
    report = run("rare", "--rounds", "40", "--looks", "1")
    assert "The others have too few users or events, or no differences between users." in report


def test_simulate_aa__environment__finds_its_own_experiment(staging: Environment) -> None:
    ExperimentFactory(key="e", environment=staging)
    with pytest.raises(CommandError, match="Is a draft"):
        run("e", "--environment", "staging")


def test_simulate_aa__smallest_effect__is_simulated_and_reported_by_rule() -> None:
    planned = ExperimentFactory(key="planned", minimum_effect=0.8, running=True)
    for number in range(400):
        assign(planned.pk, f"user-{number}", "control", NOON + number * MINUTE)
        if number % 3 == 0:
            EventFactory(purchase=True, user_id=f"user-{number}", timestamp=NOON + (number + 1) * MINUTE)
    report = run("planned", "--rounds", "100", "--looks", "2")
    lines = report.splitlines()
    title = "Verdicts, by the rule that decided, without an effect, and with the smallest effect of interest (80 %)"
    assert lines[lines.index(title) + 1].split() == ["NO", "EFFECT", "SMALLEST", "VERDICT"]
    assert ", verdicts in " in lines[-2]
    found = json.loads(run("planned", "--rounds", "100", "--looks", "2", "--json", "-"))
    assert found["minimumEffect"] == 0.8
    without, smallest = (
        {(rate["rule"], rate["decision"]): rate["share"] for rate in found[name]}
        for name in ("verdicts", "verdictsWithMinimumEffect")
    )
    assert sum(without.values()) == pytest.approx(1.0)
    assert sum(smallest.values()) == pytest.approx(1.0)
    assert without["end_without_difference", "no_difference"] > 0.5
    assert smallest["ship_the_best", "ship"] > 0.5
    assert smallest.get(("end_without_difference", "no_difference"), 0.0) <= 0.05
    for (rule, decision), share in smallest.items():
        line = next(line for line in lines if line.endswith(f"{decision.replace('_', ' ')}, by the rule {rule}"))
        assert f"{100 * share:.1f} %" in line


@pytest.mark.usefixtures("experiment")
def test_simulate_aa__guardrail__is_reported_and_stored() -> None:
    create_metric(key="refund", type="conversion", event="purchase", role="guardrail", margin=1, actor=ACTOR, now=NOON)
    guarded = ExperimentFactory(key="guarded", metrics=["purchase", "refund"], running=True)
    for number in range(200):
        assign(guarded.pk, f"user-{number}", "control", NOON + number * MINUTE)
    lines = run("guarded", "--rounds", "200", "--looks", "2").splitlines()
    at = lines.index("Guardrails, at any look")
    assert lines[at + 1].split() == ["HARMED", "SAFE", "SAFE", "AT", "MARGIN"]
    assert lines[at + 2].endswith("refund, green against control")
    assert ", guardrails in " in lines[-1]
    stored = Calibration.objects.get(metric="refund").outcomes
    assert stored is not None
    assert stored["guardrail"]["harmed"] <= 0.1
    assert stored["guardrail"]["safeAtMargin"] == 0  # nobody converts at a margin of 100 %
    assert {*stored["difference"]} == {*stored["lift"]} == {"alwaysValid", "fixedHorizon"}
    assert stored["labels"] is None
