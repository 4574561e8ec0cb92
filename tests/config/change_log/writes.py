"""The tables of every write: the request, page or command, and the rows that the change log then
has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BECAUSE = "because it is time"
FIRST_REVISION = 3
"""Of the flag `standing`, right after the two environments of a new database."""
REVISION_OF_CROWD = FIRST_REVISION + 2
"""Of the segment `crowd`, when it was created."""

FILE = """
version: 1
segments:
  - key: filed
flags:
  - key: filed
    environments:
      production:
        enabled: true
        rules:
          - type: segment
            segment: filed
  - key: "on"
    environments:
      production:
        enabled: false
      staging:
        enabled: true
"""

HISTORY = {
    "events": "event,userId,timestamp\nbuy,u,2026-02-01\n",
    "exposures": "userId,variant,exposedAt\nu,green,2026-02-01\n",
}

TWO = [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]
ASKING = [{"operator": "inSegment", "value": "audience"}]
DRIVEN = {"key": "driven", "serves": {"control": False, "green": True}}

# Method, address, body, and the new entries of the change log. Questions, events and unchanged
# values do not write configuration.
API: list[tuple[str, str, Any, list[str]]] = [
    ("POST", "/v1/flags", {"key": "new", "enabled": True}, ["created flag new"]),
    ("PATCH", "/v1/flags/standing", {"enabled": True}, ["changed flag standing in production"]),
    ("PATCH", "/v1/flags/standing", {"rules": []}, []),
    ("PATCH", "/v1/flags/standing", {"enabled": True, "tags": ["new"]}, ["changed flag standing"]),
    ("DELETE", "/v1/flags/standing", None, ["deleted flag standing"]),
    ("POST", "/v1/flags/standing/revert", {"revision": FIRST_REVISION}, ["changed flag standing"]),
    ("POST", "/v1/flags/standing/archive", None, ["changed flag standing"]),
    ("POST", "/v1/flags/archived/archive", None, []),
    ("POST", "/v1/flags/archived/restore", None, ["changed flag archived"]),
    ("POST", "/v1/flags/standing/restore", None, []),
    ("POST", "/v1/promote", {"from": "staging", "flags": ["on", "standing"]}, ["changed flag on in production"]),
    ("POST", "/v1/promote", {"from": "staging", "dryRun": True}, []),
    ("POST", "/v1/flags/standing/evaluate", {"userId": "u"}, []),
    ("POST", "/v1/flags/standing/explain", {"userId": "u"}, []),
    ("POST", "/v1/evaluate", {"userId": "u"}, []),
    ("POST", "/ofrep/v1/evaluate/flags", {"context": {"targetingKey": "u"}}, []),
    ("POST", "/ofrep/v1/evaluate/flags/standing", {"context": {"targetingKey": "u"}}, []),
    ("POST", "/v1/segments", {"key": "new", "userIds": ["u"]}, ["created segment new"]),
    ("PATCH", "/v1/segments/crowd", {"userIds": ["u"]}, ["changed segment crowd"]),
    ("PATCH", "/v1/segments/crowd", {"userIds": []}, []),
    (
        "PATCH",
        "/v1/segments/audience",
        {"userIds": ["u"]},
        ["changed segment audience", "changed experiment targeting in production"],
    ),
    ("PATCH", "/v1/segments/audience", {"description": "Other"}, ["changed segment audience"]),
    ("DELETE", "/v1/segments/crowd", None, ["deleted segment crowd"]),
    ("POST", "/v1/metrics", {"key": "new", "type": "count", "event": "view"}, ["created metric new"]),
    ("PATCH", "/v1/metrics/measured", {"windowHours": 24}, ["changed metric measured"]),
    ("PATCH", "/v1/metrics/measured", {"type": "count"}, []),
    ("DELETE", "/v1/metrics/unused", None, ["deleted metric unused"]),
    ("POST", "/v1/experiments", {"key": "new", "variants": TWO}, ["created experiment new in production"]),
    ("PATCH", "/v1/experiments/draft", {"variants": TWO}, ["changed experiment draft in production"]),
    ("DELETE", "/v1/experiments/draft", None, ["deleted experiment draft in production"]),
    ("POST", "/v1/experiments/draft/start", None, ["changed experiment draft in production"]),
    ("POST", "/v1/experiments/running/stop", None, ["changed experiment running in production"]),
    (
        "POST",
        "/v1/experiments/driving/stop",
        {"winner": "green", "reason": BECAUSE},
        ["changed experiment driving in production", "changed flag driven in production"],
    ),
    (
        "POST",
        "/v1/experiments/running/phases",
        {"percentage": 50, "reason": BECAUSE},
        ["changed experiment running in production"],
    ),
    (
        "POST",
        "/v1/experiments/driving/phases",
        {"percentage": 50, "reason": BECAUSE},
        ["changed experiment driving in production", "changed flag driven in production"],
    ),
    ("POST", "/v1/experiments/stopped/reopen", None, ["changed experiment stopped in production"]),
    ("POST", "/v1/experiments/stopped/archive", None, ["changed experiment stopped in production"]),
    ("POST", "/v1/experiments/stopped/unarchive", None, []),
    ("POST", "/v1/experiments/running/variant", {"userId": "u"}, []),
    ("POST", "/v1/variants", {"userId": "u", "record": True}, []),
    ("POST", "/v1/events", {"event": "buy", "userId": "u"}, []),
    ("POST", "/v1/events/batch", {"events": [{"event": "buy", "userId": "u"}]}, []),
    ("DELETE", "/v1/users/u", None, []),
    ("POST", "/v1/segments/crowd/revert", {"revision": REVISION_OF_CROWD}, ["changed segment crowd"]),
    ("POST", "/v1/segments/crowd/users", {"add": ["u", "v"], "remove": ["w"]}, ["changed segment crowd"]),
    ("POST", "/v1/segments/crowd/users", {"remove": ["w"]}, []),
    ("POST", "/v1/environments", {"key": "new", "name": "New"}, ["created environment new"]),
    ("PATCH", "/v1/environments/trial", {"name": "Other"}, ["changed environment trial"]),
    ("PATCH", "/v1/environments/trial", {"name": "Trial", "isDefault": False}, []),
    ("POST", "/v1/keys", {"name": "new", "scope": "client"}, ["created api_key new in production"]),
    ("PATCH", "/v1/keys/{spare}", {"expiresAt": "2099-01-31"}, ["changed api_key spare in production"]),
    ("PATCH", "/v1/keys/{spare}", {"name": "spare"}, []),
    ("POST", "/v1/keys/{spare}/revoke", None, ["changed api_key spare in production"]),
]

# Page, form data, and the expected rows of the change log. A name in braces stands for the object's
# id.
HERE = {"opened_in": "production"}
YES = {"reason": BECAUSE, **HERE}
ADMIN: list[tuple[str, dict[str, Any], list[str]]] = [
    ("/admin/flags/flag/add/", {"key": "new", "reason": BECAUSE}, ["created flag new"]),
    ("/admin/flags/flag/{standing}/change/", {"description": "Other", "reason": BECAUSE}, ["changed flag standing"]),
    ("/admin/flags/flag/{standing}/change/", {"reason": BECAUSE}, []),
    ("/admin/flags/flag/{standing}/delete/", YES, ["deleted flag standing"]),
    ("/admin/flags/flag/{standing}/toggle/", {"switch": "production:on"}, []),
    (
        "/admin/flags/flag/{standing}/toggle/",
        {"switch": "production:on", "agreed": "standing is on"},
        ["changed flag standing in production"],
    ),
    ("/admin/flags/flag/{standing}/toggle/", {"switch": "production:off"}, []),
    (f"/admin/flags/flag/{{standing}}/revert/{FIRST_REVISION}/", YES, ["changed flag standing"]),
    ("/admin/flags/flag/{standing}/archive/", YES, ["changed flag standing"]),
    ("/admin/flags/flag/{archived}/restore/", YES, ["changed flag archived"]),
    ("/admin/flags/flag/{on}/promote/", {"way": "staging:production"}, []),
    ("/admin/flags/flag/promote/", {"flags": "on,other", "way": "staging:production"}, []),
    ("/admin/flags/flag/", {"action": "production:promote", "_selected_action": ["{on}"]}, []),
    ("/admin/flags/flag/{standing}/try_it/", {"user_id": "u", "attributes": "{}", **HERE}, []),
    (
        "/admin/flags/flag/",
        {
            **{"action": "production:on", "_selected_action": ["{on}", "{other}", "{standing}"]},
            **{"agreed": ["other is on", "standing is on"], "typed_name": "Production"},
        },
        ["changed flag other in production", "changed flag standing in production"],
    ),
    (
        "/admin/flags/flag/",
        {"action": "production:off", "_selected_action": ["{on}", "{other}"], "agreed": "on is off"},
        ["changed flag on in production"],
    ),
    ("/admin/flags/flag/", {"action": "production:archive", "_selected_action": ["{on}"]}, []),
    (
        "/admin/flags/flag/",
        {
            **{"action": "production:archive", "_selected_action": ["{other}", "{standing}"], "reason": BECAUSE},
            **{"agreed": ["other is archived", "standing is archived"], "typed_name": "Production"},
        },
        ["changed flag other", "changed flag standing"],
    ),
    (
        "/admin/config/change/{regret}/undo/",
        {"reason": "Undo of change {regret}"},
        ["deleted flag regretted"],
    ),
    ("/admin/flags/segment/add/", {"key": "new", "reason": BECAUSE}, ["created segment new"]),
    ("/admin/flags/segment/{crowd}/change/", {"description": "Other", "reason": BECAUSE}, ["changed segment crowd"]),
    (f"/admin/flags/segment/{{crowd}}/revert/{REVISION_OF_CROWD}/", YES, ["changed segment crowd"]),
    ("/admin/flags/segment/{crowd}/delete/", YES, ["deleted segment crowd"]),
    (
        "/admin/experiments/metric/add/",
        {"key": "new", "type": "count", "event": "view", "reason": BECAUSE},
        ["created metric new"],
    ),
    (
        "/admin/experiments/metric/{measured}/change/",
        {"event": "seen", "new_version": "on", "reason": BECAUSE},
        ["changed metric measured"],
    ),
    ("/admin/experiments/metric/{measured}/change/", {"event": "seen", "reason": BECAUSE}, []),  # it asks first
    ("/admin/experiments/metric/{unused}/delete/", YES, ["deleted metric unused"]),
    ("/admin/experiments/experiment/add/?all=true", {"key": "new", **YES}, ["created experiment new in production"]),
    (
        "/admin/experiments/experiment/{draft}/steps/hypothesis/",
        {"hypothesis": "Green sells more.", **HERE},
        ["changed experiment draft in production"],
    ),
    (
        "/admin/experiments/experiment/{draft}/change/",
        {"description": "Other", **YES},
        ["changed experiment draft in production"],
    ),
    ("/admin/experiments/experiment/{draft}/delete/", YES, ["deleted experiment draft in production"]),
    ("/admin/experiments/experiment/{draft}/start/", YES, ["changed experiment draft in production"]),
    ("/admin/experiments/experiment/{running}/stop/", YES, ["changed experiment running in production"]),
    (
        "/admin/experiments/experiment/{driving}/ship/",
        {"winner": "green", **YES},
        ["changed experiment driving in production", "changed flag driven in production"],
    ),
    (
        "/admin/experiments/experiment/{driving}/new_phase/",
        {"weight_0": "50", "weight_1": "50", "percentage": "20", "conditions": "[]", **YES},
        ["changed experiment driving in production", "changed flag driven in production"],
    ),
    ("/admin/experiments/experiment/{stopped}/reopen/", YES, ["changed experiment stopped in production"]),
    ("/admin/experiments/experiment/{stopped}/archive/", YES, ["changed experiment stopped in production"]),
    ("/admin/experiments/experiment/{stopped}/unarchive/", YES, []),
    ("/admin/experiments/experiment/{running}/comments/", {"text": "Looks good.", **HERE}, []),
    ("/admin/experiments/experiment/user/?id=u", {"attributes": "{}", **HERE}, []),
    (
        "/admin/experiments/experiment/user/force/?id=u",
        {"forced": "draft:green", **YES},
        ["changed experiment draft in production"],
    ),
    ("/admin/experiments/experiment/user/erase/?id=u", HERE, []),
    ("/admin/config/environment/add/", {"key": "new", "name": "New", "reason": BECAUSE}, ["created environment new"]),
    (
        "/admin/config/environment/{trial}/change/",
        {"is_default": True, "reason": BECAUSE},
        ["changed environment production", "changed environment trial"],
    ),
    (
        "/admin/experiments/experiment/{draft}/use_plan/sequential/?baseline=0.1&mde=0.1",
        YES,
        ["changed experiment draft in production"],
    ),
    ("/admin/config/environment/switch/", {"environment": "staging"}, []),  # in this session
    ("/admin/config/apikey/add/", {"name": "new", "reason": BECAUSE}, ["created api_key new in production"]),
    ("/admin/config/apikey/{spare}/revoke/", YES, ["changed api_key spare in production"]),
    (
        "/admin/config/webhook/add/",
        {"name": "new", "url": "https://hooks.example.com", "reason": BECAUSE},
        ["created webhook new"],
    ),
    ("/admin/config/webhook/{hook}/change/", {"tags": "shop", "reason": BECAUSE}, ["changed webhook hook"]),
    ("/admin/config/webhook/{hook}/change/", {"reason": BECAUSE}, []),
    (
        "/admin/flags/killswitch/add/",
        {"name": "new", "flags": "on", "reason": BECAUSE},
        ["created kill_switch new in production"],
    ),
    (
        "/admin/flags/killswitch/{panic}/change/",
        {"flags": "on", "reason": BECAUSE},
        ["changed kill_switch panic in production"],
    ),
    ("/admin/flags/killswitch/{panic}/change/", {"reason": BECAUSE}, []),
    ("/admin/flags/killswitch/{panic}/revoke/", YES, ["changed kill_switch panic in production"]),
    ("/admin/config/webhook/{hook}/delete/", YES, ["deleted webhook hook"]),
    ("/admin/config/webhook/{hook}/pause/", YES, ["changed webhook hook"]),
    ("/admin/config/webhook/{hook}/resume/", YES, []),  # it is not paused
    ("/admin/config/webhook/{hook}/rotate/", YES, ["changed webhook hook"]),
    ("/admin/config/webhook/{hook}/send_test/", {}, []),
    ("/admin/config/delivery/{sent}/again/", {}, []),
]

COMMANDS: list[tuple[str, list[str], list[str]]] = [
    ("create_key", ["--name", "new", "--scope", "client"], ["created api_key new in production"]),
    (
        "rotate_key",
        ["{spare}"],
        ["created api_key spare in production", "changed api_key spare in production"],
    ),
    ("revoke_key", ["{spare}"], ["changed api_key spare in production"]),
    ("list_keys", [], []),
    ("create_kill_switch", ["on", "--name", "new"], ["created kill_switch new in production"]),
    ("revoke_kill_switch", ["{panic}"], ["changed kill_switch panic in production"]),
    ("list_kill_switches", [], []),
    ("maintain", [], []),
    ("export_events", [], []),
    ("export_flags", [], []),
    ("import_flags", ["{file}"], ["created flag filed", "changed flag on", "created segment filed"]),
    ("import_flags", ["{file}", "--dry-run"], []),
    (
        "import_flags",
        ["{file}", "--environment", "staging"],
        ["created flag filed", "changed flag on in staging", "created segment filed"],
    ),
    (
        "promote",
        ["--from", "staging", "--to", "production"],
        ["changed flag driven in production", "changed flag on in production"],
    ),
    ("promote", ["--from", "production", "--to", "staging", "on", "--dry-run"], []),
    ("stale_flags", [], []),
    ("erase_user", ["u", "--no-input"], []),
    ("purge_events", ["--before", "2026-01-31"], []),
    ("import_events", ["{events}"], []),
    ("import_exposures", ["running", "{exposures}"], []),
    ("start_experiment", ["draft", "--at", "2026-01-31"], ["changed experiment draft in production"]),
    ("stop_experiment", ["running", "--at", "2026-02-01"], ["changed experiment running in production"]),
    ("setup", [], []),  # of a database that holds something
]

NO_DOORS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("auth_user_add", "auth_user_change", "auth_user_delete", "auth_user_password_change"),
            *("auth_group_add", "auth_group_change", "auth_group_delete"),
            *("auth_user_changelist delete_selected", "auth_group_changelist delete_selected"),
        ),
        "people, and what they may do here: nothing that the service answers to its clients depends on them",
    ),
    **dict.fromkeys(
        (
            *("events_event_named", "events_event_tail", "experiments_experiment_results"),
            *("experiments_experiment_users", "experiments_experiment_portfolio"),
            *("experiments_experiment_report", "experiments_experiment_plot"),
            "experiments_experiment_plan_drawing",
            "experiments_experiment_comment_delete",
            *("doctor", "backup", "restore", "export_parquet", "flags_flag_audiences", "flags_flag_preview_new"),
            *("experiments_experiment_results_csv", "revision"),
            *("experiments_experiment_results_json", "experiments_experiment_explanation"),
            *(
                "experiments_experiment_planner",
                "simulate_aa",
                "check_results",
                "audit_assignments",
            ),
            *(
                "config_webhook_deliveries",
                "experiments_metric_event",
                "experiments_experiment_results_changed",
                "flags_flag_known",
                "flags_flag_seen",
                "revision",
            ),
        ),
        "only looks: at what came of experiments, and what may come of them",
    ),
    "flags_flag_preview": "compares: test_preview__of_an_edit__writes_nothing",
    "POST v1/flags/<str:flag_key>/preview": "compares: test_preview__any_change__writes_nothing",
    "POST v1/hooks/<str:hook_id>": "has callers of its own: tests/flags/api/test_kill_switches.py",
    "demo": "fills an empty database: test_demo__into_an_empty_database__leaves_a_row_for_each_write",
    "distribute": "moves tables, and changes no row of them",
    "serve": "does nothing but serve the other doors",
    "migrate": "changes tables, not the configuration in them",
}
