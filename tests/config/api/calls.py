"""Every operation of the API with a request that it accepts, and who may send that."""

from __future__ import annotations

from typing import Any, NamedTuple

from config.models import Scope


class Call(NamedTuple):
    """An operation, its request, the scope that it needs and the permission of a user."""

    method: str
    path: str
    body: dict[str, Any] | None
    scope: Scope
    permission: str
    status: int = 200


_DESIGN = {"key": "new", "variants": [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]}
_METRIC = {"key": "new", "type": "count", "event": "view"}
_PHASE = {"percentage": 50, "reason": "so"}
_EVENT = {"event": "view", "userId": "u"}
_EXPLAIN = "/v1/experiments/draft/results/explain?metric=purchase&variant=green"
REVISION = 3  # the first after those of the environments of a new database: what `things` creates first
KEY_ID = "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59"  # of the key that `things` creates
CALLS = (
    Call("GET", "/v1/flags", None, Scope.SERVER, "flags.view_flag"),
    Call("GET", "/v1/flags/known", None, Scope.SERVER, "flags.view_flag"),
    Call("POST", "/v1/flags", {"key": "new"}, Scope.MANAGE, "flags.add_flag", 201),
    Call("PATCH", "/v1/flags/known", {"enabled": True}, Scope.MANAGE, "flags.change_flag"),
    Call("DELETE", "/v1/flags/known", None, Scope.MANAGE, "flags.delete_flag", 204),
    Call("POST", "/v1/flags/known/evaluate", {"userId": "u"}, Scope.CLIENT, "flags.view_flag"),
    Call("POST", "/v1/evaluate", {"userId": "u"}, Scope.CLIENT, "flags.view_flag"),
    Call("POST", "/ofrep/v1/evaluate/flags/known", {"context": {}}, Scope.CLIENT, "flags.view_flag"),
    Call("POST", "/ofrep/v1/evaluate/flags", {"context": {}}, Scope.CLIENT, "flags.view_flag"),
    Call("POST", "/v1/flags/known/explain", {"userId": "u"}, Scope.SERVER, "flags.view_flag"),
    Call("GET", "/v1/flags/known/history", None, Scope.SERVER, "flags.view_flag"),
    Call("POST", "/v1/flags/known/preview", {"enabled": True}, Scope.SERVER, "flags.view_flag"),
    Call("GET", "/v1/flags/known/usage", None, Scope.SERVER, "flags.view_flag"),
    Call("POST", "/v1/flags/known/archive", None, Scope.MANAGE, "flags.change_flag"),
    Call("POST", "/v1/flags/known/restore", None, Scope.MANAGE, "flags.change_flag"),
    Call("POST", "/v1/flags/known/revert", {"revision": REVISION}, Scope.MANAGE, "flags.change_flag"),
    Call("POST", "/v1/promote", {"from": "staging"}, Scope.MANAGE, "flags.change_flag"),
    Call("GET", "/v1/ruleset", None, Scope.SERVER, "flags.view_flag"),
    Call("GET", "/v1/segments", None, Scope.SERVER, "flags.view_segment"),
    Call("GET", "/v1/segments/known", None, Scope.SERVER, "flags.view_segment"),
    Call("POST", "/v1/segments", {"key": "new"}, Scope.MANAGE, "flags.add_segment", 201),
    Call("PATCH", "/v1/segments/known", {"userIds": ["u"]}, Scope.MANAGE, "flags.change_segment"),
    Call("POST", "/v1/segments/known/users", {"add": ["u"]}, Scope.MANAGE, "flags.change_segment"),
    Call("POST", "/v1/segments/known/revert", {"revision": REVISION + 1}, Scope.MANAGE, "flags.change_segment"),
    Call("DELETE", "/v1/segments/known", None, Scope.MANAGE, "flags.delete_segment", 204),
    Call("GET", "/v1/metrics", None, Scope.SERVER, "experiments.view_metric"),
    Call("GET", "/v1/metrics/known", None, Scope.SERVER, "experiments.view_metric"),
    Call("POST", "/v1/metrics", _METRIC, Scope.MANAGE, "experiments.add_metric", 201),
    Call("PATCH", "/v1/metrics/known", {"windowHours": 24}, Scope.MANAGE, "experiments.change_metric"),
    Call("DELETE", "/v1/metrics/known", None, Scope.MANAGE, "experiments.delete_metric", 204),
    Call("GET", "/v1/environments", None, Scope.SERVER, "config.view_environment"),
    Call("GET", "/v1/environments/staging", None, Scope.SERVER, "config.view_environment"),
    Call("POST", "/v1/environments", {"key": "qa", "name": "QA"}, Scope.MANAGE, "config.add_environment", 201),
    Call("PATCH", "/v1/environments/staging", {"name": "Stage"}, Scope.MANAGE, "config.change_environment"),
    Call("GET", "/v1/keys", None, Scope.SERVER, "config.view_apikey"),
    Call("GET", f"/v1/keys/{KEY_ID}", None, Scope.SERVER, "config.view_apikey"),
    Call("POST", "/v1/keys", {"name": "new", "scope": "client"}, Scope.MANAGE, "config.add_apikey", 201),
    Call("PATCH", f"/v1/keys/{KEY_ID}", {"name": "other"}, Scope.MANAGE, "config.change_apikey"),
    Call("POST", f"/v1/keys/{KEY_ID}/revoke", None, Scope.MANAGE, "config.change_apikey"),
    Call("GET", "/v1/audit", None, Scope.SERVER, "config.view_change"),
    Call("GET", "/v1/experiments", None, Scope.SERVER, "experiments.view_experiment"),
    Call("GET", "/v1/experiments/draft", None, Scope.SERVER, "experiments.view_experiment"),
    Call("POST", "/v1/experiments", _DESIGN, Scope.MANAGE, "experiments.add_experiment", 201),
    Call("GET", "/v1/experiments/draft/checklist", None, Scope.SERVER, "experiments.view_experiment"),
    Call("GET", "/v1/experiments/draft/results", None, Scope.SERVER, "experiments.view_experiment"),
    Call("GET", _EXPLAIN, None, Scope.SERVER, "experiments.view_experiment"),
    Call("GET", "/v1/planner?mde=0.05&baseline=0.1", None, Scope.SERVER, "experiments.view_experiment"),
    Call("PATCH", "/v1/experiments/draft", {"description": "x"}, Scope.MANAGE, "experiments.change_experiment"),
    Call("DELETE", "/v1/experiments/draft", None, Scope.MANAGE, "experiments.delete_experiment", 204),
    Call("POST", "/v1/experiments/draft/start", None, Scope.MANAGE, "experiments.change_experiment"),
    Call("POST", "/v1/experiments/running/stop", None, Scope.MANAGE, "experiments.change_experiment"),
    Call("POST", "/v1/experiments/running/phases", _PHASE, Scope.MANAGE, "experiments.change_experiment", 201),
    Call("POST", "/v1/experiments/stopped/reopen", None, Scope.MANAGE, "experiments.change_experiment"),
    Call("POST", "/v1/experiments/stopped/archive", None, Scope.MANAGE, "experiments.change_experiment"),
    Call("POST", "/v1/experiments/stopped/unarchive", None, Scope.MANAGE, "experiments.change_experiment"),
    Call("POST", "/v1/experiments/running/variant", {"userId": "u"}, Scope.CLIENT, "experiments.add_exposure"),
    Call("POST", "/v1/variants", {"userId": "u"}, Scope.CLIENT, "experiments.add_exposure"),
    Call("POST", "/v1/events", _EVENT, Scope.CLIENT, "events.add_event", 202),
    Call("POST", "/v1/events/batch", {"events": [_EVENT]}, Scope.CLIENT, "events.add_event", 202),
    Call("GET", "/v1/events", None, Scope.SERVER, "events.view_event"),
    Call("GET", "/v1/events/counts", None, Scope.SERVER, "events.view_event"),
    Call("DELETE", "/v1/users/u", None, Scope.MANAGE, "events.delete_event"),
)
