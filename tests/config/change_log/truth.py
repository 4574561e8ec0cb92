"""Compare the change log with the stored configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import Model

from config.access import api_keys, environments
from config.models import ApiKey, Change, Environment, Webhook
from config.webhooks import writes as webhooks
from experiments.lifecycle import changes as lifecycle
from experiments.metrics import changes as metrics
from experiments.models import Experiment, Metric
from flags.changes import flag_changes, kill_switches, segment_changes
from flags.models import Flag, KillSwitch, Segment

DOCUMENTS: Mapping[type[Model], tuple[str, Callable[[Any], Any]]] = {
    Environment: (environments.KIND, environments.environment_as_json),
    ApiKey: (api_keys.KIND, api_keys.key_as_json),
    Webhook: (webhooks.KIND, webhooks.webhook_as_json),
    Flag: (flag_changes.KIND, flag_changes.flag_as_json),
    KillSwitch: (kill_switches.KIND, kill_switches.kill_switch_as_json),
    Segment: (segment_changes.KIND, segment_changes.segment_as_json),
    Metric: (metrics.KIND, metrics.metric_as_json),
    Experiment: (lifecycle.KIND, lifecycle.experiment_as_json),
}
"""The models of configuration, and their documents in the change log."""

NO_CONFIGURATION: Mapping[str, str] = {
    "flags.FlagState": "part of a flag's document",
    "flags.FlagTag": "part of a flag's document",
    "flags.Usage": "what happened, not what is to happen",
    "flags.LastUse": "what happened, not what is to happen",
    "flags.RecentUser": "what happened, not what is to happen",
    "flags.RecentUserSampling": "worked out from what happened",
    "config.Change": "the change log itself",
    "config.IdempotencyKey": "what happened, not what is to happen",
    "events.Event": "what happened, not what is to happen",
    "events.EventCount": "what happened, not what is to happen",
    "config.Delivery": "what is to be told of a change that the log has",
    "config.Epoch": "part of the order in which things arrive",
    "experiments.Exposure": "what happened, not what is to happen",
    "experiments.ResultState": "worked out from what happened",
    "experiments.UserValue": "worked out from what happened",
    "experiments.DailySums": "worked out from what happened",
    "experiments.DayValue": "worked out from what happened",
    "experiments.Calibration": "worked out from what happened",
    "experiments.Comment": "words about what happened, not what is to happen",
    "experiments.StoredOutcome": "worked out from what happened",
    "experiments.VariantSums": "worked out from what happened",
    "auth.User": "people, and what they may do here",
    "auth.Group": "people, and what they may do here",
    "auth.Permission": "people, and what they may do here",
    "sessions.Session": "who is signed in",
    "axes.AccessAttempt": "what happened, not what is to happen",
    "axes.AccessAttemptExpiration": "what happened, not what is to happen",
    "axes.AccessFailureLog": "what happened, not what is to happen",
    "axes.AccessLog": "what happened, not what is to happen",
    "admin.LogEntry": "Django's own log, which is not kept",
    "contenttypes.ContentType": "a list of the models",
}


def in_words(change: Change) -> str:
    where = f" in {change.environment}" if change.environment else ""
    return f"{change.action} {change.object_kind} {change.key}{where}"


def check_that_the_log_is_the_whole_truth() -> None:
    """Assert that each row starts where the previous one ended, and that the last ones equal the
    stored objects.
    """
    logged: dict[tuple[str, str], Any] = {}
    for row in Change.objects.order_by("revision"):
        if row.kind == segment_changes.MEMBERS_KIND:
            segment = logged[segment_changes.KIND, row.object_id]
            assert set(row.before["userIds"]) <= set(segment["userIds"]), row
            assert not set(row.after["userIds"]) & set(segment["userIds"]), row
            user_ids = segment_changes.Members.of(row).applied_to(segment["userIds"])
            logged[segment_changes.KIND, row.object_id] = {**segment, "userIds": user_ids}
            continue
        assert row.before == logged.pop((row.kind, row.object_id), None), row
        assert row.before != row.after
        if row.after is not None:
            logged[row.kind, row.object_id] = row.after
    stored = {
        (kind, str(row.pk)): document(row)
        for model, (kind, document) in DOCUMENTS.items()
        for row in model._default_manager.all()
    }
    assert logged == stored
