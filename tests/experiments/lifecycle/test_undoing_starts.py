"""Undoing the start of an experiment: the draft is as it was, unless users have been exposed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config import snapshot
from config.errors import DomainError
from config.models import Change, Environment
from events.recording import record
from experiments.exposures.assignment import get_variant, get_variants
from experiments.exposures.recording import assign
from experiments.lifecycle.changes import delete_experiment, get_experiment, update_experiment
from experiments.lifecycle.new_phase import open_phase
from experiments.models import DailySums, DayValue, Experiment, Exposure, ResultState, UserValue, VariantSums
from experiments.models.documents import experiment_as_json
from experiments.results.analyse import VariantResult, compute_results
from flags.changes.flag_changes import get_flag, update_flag
from flags.changes.flag_rows import flag_as_json as flag_document
from tests.conftest import ACTOR
from tests.experiments.lifecycle.shipping import OWN, flag_rules
from tests.experiments.lifecycle.undos import DRIVING, LATER, START, attempted, begin, buy, refused, see, start, undo
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db

DESIGNS: list[dict[str, Any]] = [
    {},
    DRIVING,
    {"flag": {**DRIVING["flag"], "position": 1}, "percentage": 50, "group": {"key": "g", "from": 0, "to": 50}},
    {**DRIVING, "forced_variants": {"qa": "green"}, "conditions": [{"operator": "exists", "attribute": "plan"}]},
    {"analysis": "fixed", "planned_size": 1000, "minimum_effect": 0.1, "minimum_days": 9, "lookback_days": 3},
    {"given_tuning_size": 700, "owner": "Ada", "hypothesis": "More", "description": "Less"},
]


def columns(experiment: Experiment) -> dict[str, Any]:
    return {field.attname: getattr(experiment, field.attname) for field in Experiment._meta.concrete_fields}


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("is_read", [True, False])
def test_start__undone__leaves_the_draft_and_its_flag_as_they_were(
    production: Environment, design: dict[str, Any], is_read: bool
) -> None:
    FlagFactory(key="button", enabled=True, rules=OWN, environment=production)
    ExperimentFactory(key="e", environment=production, **design)
    draft, flag = get_experiment("e", production), flag_document(get_flag("button", production))
    started = start(production)
    assert ("flag" in design) == (len(flag_rules(production)) > len(OWN))
    if is_read:
        compute_results(started, START)
    assert attempted() is None
    assert get_experiment("e", production).status == "running"
    undo()

    now = get_experiment("e", production)
    assert columns(now) == columns(draft)
    assert experiment_as_json(now) == experiment_as_json(draft)
    assert flag_document(get_flag("button", production)) == flag
    logged = Change.objects.of("experiment", draft.pk)
    assert logged[0].after == logged[1].before == experiment_as_json(draft)


def test_start__undone__has_no_results_and_can_be_deleted(production: Environment) -> None:
    begin(production, forced_variants={"qa": "green"})
    compute_results(get_experiment("e", production), START)
    undo()
    for model in (UserValue, VariantSums, DayValue, DailySums):
        assert not model.objects.exists()
    state = ResultState.objects.get()
    fresh = ResultState(pk=state.pk, experiment_id=state.experiment_id)
    assert all(getattr(state, field.attname) == getattr(fresh, field.attname) for field in state._meta.fields)
    delete_experiment(key="e", environment=production, actor=ACTOR, now=LATER)
    assert not ResultState.objects.exists()


def test_start__undone_and_repeated__counts_from_then_on(production: Environment) -> None:
    begin(production, **DRIVING)
    compute_results(get_experiment("e", production), START)
    undo()
    update_experiment(
        key="e", environment=production, changes={"metrics": ["purchase", "refund"]}, actor=ACTOR, now=LATER
    )
    started = start(production)
    assert started.started_at == LATER  # the log has no earlier change than its last one
    record([see("old", START), see("new", LATER), buy("new", LATER + timedelta(seconds=1))], production)
    assert compute_results(started, LATER)["green"] == VariantResult(1, 1)
    assert flag_rules(production)[1:] == OWN


def test_start__of_a_tester_whose_exposure_was_late__is_undone(production: Environment) -> None:
    experiment = begin(production, forced_variants={"qa": "green"})
    assign(experiment.pk, "qa", "green", START)  # by a process that did not know
    assert attempted() is None
    undo()
    assert (get_experiment("e", production).status, Exposure.objects.count()) == ("draft", 0)


@pytest.mark.parametrize("how", ["assigned", "reported"])
@pytest.mark.parametrize(("number", "users"), [(1, "1 user has"), (1234, "1,234 users have")])
def test_start__after_which_users_were_exposed__is_not_undone(
    production: Environment, how: str, number: int, users: str
) -> None:
    experiment = begin(production, **DRIVING)
    made = Change.objects.latest_revision()
    if how == "assigned":
        exposures = [
            Exposure(experiment=experiment, user_id=f"{index}", variant="green", exposed_at=START, origin="assigned")
            for index in range(number)
        ]
        Exposure.objects.bulk_create(exposures)
    else:
        record([see(f"{index}") for index in range(number)], production)
    message = f"{users} been exposed since, so the start cannot be undone. Stop the experiment instead."
    assert refused(made) == message
    assert get_experiment("e", production).status == "running"
    assert flag_rules(production)[1:] == OWN


def test_start__of_which_the_draft_was_edited_since__keeps_the_edit(production: Environment) -> None:
    begin(production, **DRIVING)
    made = Change.objects.latest_revision()
    changes = {"description": "New", "forced_variants": {"qa": "green"}}
    update_experiment(key="e", environment=production, changes=changes, actor=ACTOR, now=START)
    undo(made)
    now = get_experiment("e", production)
    assert (now.status, now.description, now.forced_variants) == ("draft", "New", {"qa": "green"})
    assert flag_rules(production) == OWN


def test_start__of_which_the_flag_was_edited_since__takes_its_own_rule_away_alone(production: Environment) -> None:
    begin(production, **DRIVING)
    made, new = Change.objects.latest_revision(), {"type": "users", "userIds": ["u"]}
    rules = [*flag_rules(production), new]
    update_flag(key="button", environment=production, changes={"rules": rules}, actor=ACTOR, now=START)
    undo(made)
    assert flag_rules(production) == [*OWN, new]


@pytest.mark.parametrize("change", ["metric", "phase", "end"])
def test_start__that_others_built_on__is_not_undone(production: Environment, change: str) -> None:
    begin(production)
    made, which = (
        Change.objects.latest_revision(),
        {"key": "e", "environment": production, "actor": ACTOR, "now": START},
    )
    if change == "metric":
        update_experiment(**which, changes={"metrics": ["purchase", "refund"]})
    elif change == "phase":
        open_phase(**which, changes={"percentage": 50}, reason="Slower")
    else:
        undo(made)
        start(production)
    assert refused(made) == "The experiment e has changed since, so this cannot be undone. See the history."


def test_undo_of_a_start__is_not_undone(production: Environment) -> None:
    begin(production)
    undo()
    assert refused() == "To take this back, start e again."


def test_user__assigned_by_a_process_that_has_not_heard_of_the_undo__is_not_exposed(production: Environment) -> None:
    experiment = begin(production)
    snapshot.refresh()
    undo()
    which = {"environment": production, "user_id": "u", "now": LATER}
    with pytest.raises(DomainError, match="or its start undone") as error:
        get_variant(key="e", **which)
    assert error.value.code == "experiment_not_running"
    assert get_variants(**which, attributes={}, record=True) == {}
    assert not Exposure.objects.exists()
    with pytest.raises(DomainError):
        assign(experiment.pk, "u", "green", LATER)
    record([see("u")], production)
    assert not Exposure.objects.exists()
