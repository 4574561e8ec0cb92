"""A client that a machine writes from the served schema: it compiles, and its calls work, one for each operation."""

from __future__ import annotations

import compileall
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest

from tests.system.server import PROXY_HEADERS, Server

pytestmark = [pytest.mark.system, pytest.mark.once]

PACKAGE = "generated_halyard_client"
EVENT_ID = UUID("01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59")
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def generated(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a client that was generated without a single warning."""
    folder = tmp_path_factory.mktemp("client")
    schema, configuration = folder / "schema.yaml", folder / "configuration.yaml"
    schema.write_bytes(server.ask("GET", "/v1/schema").content)
    configuration.write_text("post_hooks: []\n")
    package = folder / PACKAGE
    command = ["generate", "--meta", "none", "--fail-on-warning", "--path", schema, "--config", configuration]
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *map(str, command), "--output-path", str(package)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    yield package
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def models(generated: Path) -> ModuleType:
    return importlib.import_module(f"{PACKAGE}.models")


@pytest.fixture(scope="module")
def call(generated: Path, server: Server) -> Iterator[Call]:
    """Call an operation by its tag and id; returns status and what the answer was parsed to."""
    client = importlib.import_module(f"{PACKAGE}.client").AuthenticatedClient(
        base_url=server.url, token=server.keys["production"]["manage"], headers=dict(PROXY_HEADERS)
    )

    def make(operation: str, *arguments: Any, **options: Any) -> tuple[int, Any]:
        module = importlib.import_module(f"{PACKAGE}.api.{operation}")
        response = module.sync_detailed(*arguments, client=client, **options)
        return response.status_code.value, response.parsed

    with client:
        yield make


def test_client__generated__compiles_and_has_every_operation(generated: Path) -> None:
    assert compileall.compile_dir(generated, quiet=1, force=True)
    operations = {path.stem for path in generated.glob("api/*/*.py")} - {"__init__"}
    flags = {"list_flags", "create_flag", "get_flag", "update_flag", "delete_flag", "evaluate_flag", "evaluate_flags"}
    flags |= {"explain_flag", "list_flag_history", "revert_flag", "archive_flag", "restore_flag"}
    segments = {"list_segments", "create_segment", "get_segment", "update_segment", "delete_segment", "list_changes"}
    metrics = {"list_metrics", "create_metric", "get_metric", "update_metric", "delete_metric"}
    experiments = {"list_experiments", "create_experiment", "get_experiment", "update_experiment", "delete_experiment"}
    transitions = {"start_experiment", "stop_experiment", "get_variant", "get_results", "explain_results"}
    transitions |= {"get_variants", "open_phase", "reopen_experiment", "plan_experiment", "check_experiment"}
    transitions |= {"archive_experiment", "unarchive_experiment"}
    events = {"track_event", "batch_events", "query_events", "count_events"}
    segments |= {"change_segment_users", "revert_segment"}
    environments = {"list_environments", "create_environment", "get_environment", "update_environment"}
    keys = {"list_keys", "create_key", "get_key", "update_key", "revoke_key"}
    others = {"erase_user", "get_ruleset", "get_flag_usage", "preview_flag", "promote_flags", "switch_off"}
    clients = {"ofrep_evaluate_flag", "ofrep_evaluate_flags"}
    configuration = flags | segments | metrics | environments | keys
    assert operations == configuration | experiments | transitions | events | others | clients


def test_client__of_flags__works(call: Call, models: ModuleType) -> None:
    condition = models.ListCondition(attribute="plan", operator=models.ListConditionOperator.IN, value=["pro", 7, True])
    rules = [
        models.AttributeRule(models.AttributeRuleType.ATTRIBUTE, conditions=[condition]),
        models.UsersRule(models.UsersRuleType.USERS, user_ids=["ann"], percentage=100),
        models.PercentageRule(models.PercentageRuleType.PERCENTAGE, percentage=0.125),
    ]
    request = models.FlagRequest(key="client.flag", description="made by a machine", enabled=True, rules=rules)
    status, created = call("flags.create_flag", body=request)
    assert status == 201
    assert created.data.rules == rules
    assert isinstance(created.data.id, UUID)
    assert created.data.created_at.tzinfo is not None

    assert call("flags.get_flag", "client.flag") == (200, models.GetFlagResponse200(data=created.data))
    _, evaluated = call("flags.evaluate_flag", "client.flag", body=models.EvaluationRequest(user_id="ann"))
    assert evaluated.data == models.Evaluation(enabled=True, reason=models.EvaluationReason.RULE_MATCH)

    status, listed = call("flags.list_flags", enabled=True, search="CLIENT", limit=1)
    assert (status, [flag.key for flag in listed.data]) == (200, ["client.flag"])

    status, updated = call("flags.update_flag", "client.flag", body=models.FlagUpdateRequest(enabled=False))
    assert (status, updated.data.enabled, updated.data.description) == (200, False, "made by a machine")
    status, refused = call("flags.update_flag", "client.flag", body=models.FlagUpdateRequest(), if_match='"0"')
    assert (status, refused.error.code.value) == (412, "precondition_failed")

    assert call("flags.delete_flag", "client.flag") == (204, None)
    status, missing = call("flags.get_flag", "client.flag")
    assert (status, missing.error.code.value) == (404, "flag_not_found")


def test_client__of_metrics__works(call: Call, models: ModuleType) -> None:
    below = models.Quantity(event="view")
    request = models.MetricRequest(
        key="client.metric", type_=models.MetricRequestType.RATIO, event="buy", denominator=below
    )
    status, metric = call("metrics.create_metric", body=request)
    assert (status, metric.data.denominator.event, metric.data.version) == (201, "view", 1)
    change = models.MetricUpdateRequest(window_hours=24)
    assert call("metrics.update_metric", "client.metric", body=change)[1].data.window_hours == 24
    assert call("metrics.get_metric", "client.metric")[1].data.used_by == []
    assert [metric.key for metric in call("metrics.list_metrics", search="client")[1].data] == ["client.metric"]
    assert call("metrics.delete_metric", "client.metric") == (204, None)


def test_client__of_values_segments_and_history__works(call: Call, models: ModuleType) -> None:
    condition = models.TextCondition("email", models.TextConditionOperator.ENDSWITH, "@example.com", ignore_case=True)
    request = models.SegmentRequest(key="client.segment", conditions=[condition], user_ids=["ann"])
    status, segment = call("segments.create_segment", body=request, x_change_reason="made by a machine")
    assert (status, segment.data.conditions, segment.data.user_ids) == (201, [condition], ["ann"])
    change = models.SegmentUpdateRequest(description="d")
    assert call("segments.update_segment", "client.segment", body=change)[1].data.description == "d"
    assert call("segments.get_segment", "client.segment")[1].data.id == segment.data.id
    assert [segment.key for segment in call("segments.list_segments", search="client")[1].data] == ["client.segment"]

    rule = models.SegmentRule(models.SegmentRuleType.SEGMENT, segment="client.segment", variant="large")
    variants = [models.FlagVariant("small", {"size": 1}), models.FlagVariant("large", {"size": 2})]
    request = models.FlagRequest(
        key="client.values", enabled=True, type_=models.FlagRequestTypeType1.OBJECT, variants=variants, rules=[rule]
    )
    status, created = call("flags.create_flag", body=request)
    assert (status, created.data.default_variant, created.data.rules) == (201, "small", [rule])
    user = models.EvaluationsRequest(user_id="ann", flags=["client.values", "client.nothing"])
    status, evaluated = call("flags.evaluate_flags", body=user)
    assert status == 200
    assert evaluated.data["client.values"].value == {"size": 2}
    assert evaluated.data["client.nothing"].error.code.value == "flag_not_found"
    status, explained = call("flags.explain_flag", "client.values", body=models.ExplanationRequest(user_id="ann"))
    assert (status, explained.data.rules[0].is_served, explained.data.rules[0].steps[0].is_member) == (200, True, True)

    status, archived = call("flags.archive_flag", "client.values")
    assert (status, archived.data.archived_at.tzinfo is not None) == (200, True)
    assert not call("flags.restore_flag", "client.values")[1].data.archived_at
    status, history = call("flags.list_flag_history", "client.values")
    assert (status, [entry.action.value for entry in history.data]) == (200, ["changed", "changed", "created"])
    first = models.RevertRequest(revision=history.data[-1].revision)
    assert call("flags.revert_flag", "client.values", body=first)[1].data.variants == variants
    status, audited = call("audit.list_changes", object_="segment/client.segment")
    assert (status, audited.data[-1].reason) == (200, "made by a machine")
    created = models.RevertRequest(revision=audited.data[-1].revision)
    assert call("segments.revert_segment", "client.segment", body=created)[1].data.description == ""

    status, refused = call("segments.delete_segment", "client.segment")
    assert (status, refused.error.code.value) == (409, "in_use")
    assert call("flags.delete_flag", "client.values") == (204, None)
    assert call("segments.delete_segment", "client.segment") == (204, None)


def test_client__of_rulesets_usage_and_promotion__works(call: Call, models: ModuleType) -> None:
    call("flags.create_flag", body=models.FlagRequest(key="client.promoted", enabled=True))
    status, ruleset = call("flags.get_ruleset")
    assert (status, ruleset.data.environment) == (200, "production")
    assert "client.promoted" in [flag.key for flag in ruleset.data.flags]

    status, usage = call("flags.get_flag_usage", "client.promoted", interval=models.GetFlagUsageInterval.DAY)
    assert (status, usage.data.total, usage.data.outcomes) == (200, 0, [])

    status, preview = call("flags.preview_flag", "client.promoted", body=models.PreviewRequest(enabled=False))
    assert (status, preview.data.status.value in ("ok", "empty")) == (200, True)  # other tests evaluate flags, too

    request = models.PromotionRequest(from_="staging", flags=["client.promoted"], dry_run=True)
    status, promotion = call("flags.promote_flags", body=request)
    assert (status, promotion.data.dry_run, promotion.data.flags[0].changes[0].after) == (200, True, False)


def test_client__of_openfeature__works(call: Call, models: ModuleType) -> None:
    call("flags.create_flag", body=models.FlagRequest(key="client.ofrep", enabled=True))
    share = models.PercentageRule(models.PercentageRuleType.PERCENTAGE, percentage=50)
    call("flags.create_flag", body=models.FlagRequest(key="client.share", enabled=True, rules=[share]))
    user = models.OfrepRequest(context=models.OfrepContext(targeting_key="ann"))
    status, evaluated = call("open_feature.ofrep_evaluate_flag", "client.ofrep", body=user)
    assert (status, evaluated.value, evaluated.reason) == (200, True, models.OfrepEvaluationReason.STATIC)

    status, missing = call("open_feature.ofrep_evaluate_flag", "client.nothing", body=user)
    assert (status, missing.error_code) == (404, models.OfrepFlagNotFoundErrorCode.FLAG_NOT_FOUND)

    stranger = models.OfrepRequest(context=models.OfrepContext())
    status, answered = call("open_feature.ofrep_evaluate_flags", body=stranger)
    flags = {flag.key: flag for flag in answered.flags}
    assert (status, flags["client.ofrep"].variant) == (200, "on")
    assert flags["client.share"].error_code == models.OfrepFlagFailureErrorCode.TARGETING_KEY_MISSING
    assert answered.event_streams[0].type_ == models.OfrepEventStreamType.SSE


def test_client__sending_back_what_it_read__changes_nothing(call: Call, models: ModuleType) -> None:
    _, created = call("flags.create_flag", body=models.FlagRequest(key="round-trip", enabled=True))
    whole = models.FlagUpdateRequest.from_dict(created.data.to_dict())
    status, updated = call("flags.update_flag", "round-trip", body=whole)
    assert (status, updated.data) == (200, created.data)


def test_client__refused__gets_the_fields_to_blame(call: Call, models: ModuleType) -> None:
    status, refused = call("flags.create_flag", body=models.FlagRequest(key="no key!"))
    assert status == 400
    [detail] = refused.error.details
    assert (detail.field, detail.code) == ("key", models.ErrorDetailCode.INVALID_VALUE)


def test_client__of_experiments__works(call: Call, models: ModuleType) -> None:
    variants = [models.Variant(key="control", weight=1), models.Variant(key="green", weight=2.5)]
    request = models.ExperimentRequest(key="client-experiment", variants=variants, metrics=["buy"])
    status, created = call("experiments.create_experiment", body=request)
    assert (status, created.data.status) == (201, models.ExperimentStatus.DRAFT)
    assert created.data.variants == variants

    change = models.ExperimentUpdateRequest(description="Green or not?")
    status, updated = call("experiments.update_experiment", "client-experiment", body=change)
    assert (status, updated.data.description) == (200, "Green or not?")

    status, started = call("experiments.start_experiment", "client-experiment", body=models.NoBodyRequest())
    assert (status, started.data.status) == (200, models.ExperimentStatus.RUNNING)
    assert started.data.started_at >= started.data.created_at
    attributes = models.AssignmentRequestAttributes.from_dict({"country": "CH"})
    user = models.AssignmentRequest(user_id="ann", attributes=attributes)
    status, assigned = call("experiments.get_variant", "client-experiment", body=user)
    assert (status, assigned.data.experiment_id) == (200, created.data.id)
    status, all_of_them = call("experiments.get_variants", body=models.AssignmentsRequest(user_id="ann"))
    variant_of = {
        assignment.experiment: (assignment.variant, assignment.in_experiment) for assignment in all_of_them.data
    }
    assert (status, variant_of["client-experiment"]) == (200, (assigned.data.variant, True))

    more = models.PhaseRequest(percentage=50, reason="It broke nothing.")
    status, ramped = call("experiments.open_phase", "client-experiment", body=more)
    assert (status, [phase.percentage for phase in ramped.data.phases]) == (201, [100, 50])

    status, read = call("experiments.get_experiment", "client-experiment")
    assert (status, read.data.results[assigned.data.variant].sample_size) == (200, 1)
    status, results = call("experiments.get_results", "client-experiment", series=models.GetResultsSeries.DAILY)
    assert (status, results.data.users, len(results.data.metrics[0].variants)) == (200, 1, 2)
    status, explained = call("experiments.explain_results", "client-experiment", metric="buy", variant="green")
    assert (status, explained.data.definition.key, explained.data.steps[0].rows) == (200, "buy", 0)
    planned_for = {"mde": 0.5, "baseline": 0.1, "type_": models.PlanExperimentType.RATE}
    status, planned = call("experiments.plan_experiment", experiment="client-experiment", **planned_for)
    assert (status, planned.data.fixed_horizon.users_per_variant) == (200, 443)
    assert [day.users for day in planned.data.detectable if not day.is_forecast] == [1]
    status, checked = call("experiments.check_experiment", "client-experiment")
    assert (status, checked.data[0].check, checked.data[0].status) == (
        200,
        models.FindingCheck.PRIMARY_METRIC,
        models.FindingStatus.OK,
    )
    status, listed = call("experiments.list_experiments", status=models.ListExperimentsStatus.RUNNING)
    assert (status, [entry.variants for entry in listed.data]) == (200, [["control", "green"]])

    status, stopped = call("experiments.stop_experiment", "client-experiment")
    assert (status, stopped.data.status) == (200, models.ExperimentStatus.STOPPED)
    status, reopened = call("experiments.reopen_experiment", "client-experiment", body=models.NoBodyRequest())
    assert (status, reopened.data.status) == (200, models.ExperimentStatus.RUNNING)
    decision = models.StopRequest(winner="green", reason="We like it.")
    status, decided = call("experiments.stop_experiment", "client-experiment", body=decision)
    assert (status, decided.data.winner) == (200, "green")
    status, refused = call("experiments.delete_experiment", "client-experiment")
    assert (status, refused.error.code.value) == (409, "experiment_locked")
    call("experiments.create_experiment", body=models.ExperimentRequest(key="client-draft", variants=variants))
    assert call("experiments.delete_experiment", "client-draft") == (204, None)


def test_client__of_events__works(call: Call, models: ModuleType) -> None:
    properties = models.EventRequestProperties(revenue=19.99, currency="EUR")
    properties["colour"] = "green"
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    event = models.EventRequest(event="client-buy", user_id="ann", id=EVENT_ID, timestamp=at, properties=properties)
    status, tracked = call("events.track_event", body=event)
    assert (status, tracked.data.id, tracked.data.status.value) == (202, EVENT_ID, "accepted")

    batch = models.BatchRequest(events=[event, models.EventRequest(event="client-see", user_id="ann")])
    status, acknowledged = call("events.batch_events", body=batch)
    assert (status, [entry.status.value for entry in acknowledged.data]) == (202, ["duplicate", "accepted"])

    status, events = call("events.query_events", user_id="ann", event="client-buy", from_=at, to=at.date(), limit=10)
    assert (status, [record.id for record in events.data]) == (200, [EVENT_ID])
    assert events.data[0].properties.to_dict() == {"revenue": 19.99, "currency": "EUR", "colour": "green"}

    status, counted = call("events.count_events", event="client-buy", from_=at, to=at.date(), time_zone="Europe/Zurich")
    [day] = counted.data.series
    assert (status, counted.data.total, day.counts.to_dict()) == (200, 1, {"client-buy": 1})

    user = "client/with a slash, a ? and an é"
    call("events.track_event", body=models.EventRequest(event="client-see", user_id=user))
    status, erased = call("users.erase_user", user)
    assert (status, erased.data.user_id, erased.data.events, erased.data.experiments) == (200, user, 1, [])
