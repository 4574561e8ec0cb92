"""The OpenAPI document as a whole: its introduction, and the order of its operations, which is that of the tour."""

from __future__ import annotations

from typing import Any

from django.conf import settings

TAGS = {
    "Flags": "What is on for whom: flags with their rules, evaluations of them, and their history.",
    "Segments": "Groups of users that rules can name.",
    "OpenFeature": "OpenFeature's Remote Evaluation Protocol (OFREP), which its clients speak.",
    "Metrics": "What experiments measure.",
    "Experiments": "Experiments from their plan to the decision, variants of users, and results.",
    "Events": "What users do, as your application tracks it.",
    "Users": "All that is stored of one user.",
    "Environments": "Environments, each with its own state of every flag.",
    "Keys": "API keys.",
    "Kill switches": "How an alert manager switches flags off.",
    "Audit": "Who changed what, when and why.",
}
"""The groups of operations, each with its description."""

PATHS = (
    "/v1/flags",
    "/v1/flags/{flag_key}/evaluate",
    "/v1/flags/{flag_key}",
    "/v1/promote",
    "/v1/evaluate",
    "/v1/ruleset",
    "/v1/flags/{flag_key}/explain",
    "/v1/flags/{flag_key}/usage",
    "/v1/flags/{flag_key}/preview",
    "/v1/flags/{flag_key}/history",
    "/v1/flags/{flag_key}/revert",
    "/v1/flags/{flag_key}/archive",
    "/v1/flags/{flag_key}/restore",
    "/v1/segments",
    "/v1/segments/{segment_key}/users",
    "/v1/segments/{segment_key}",
    "/v1/segments/{segment_key}/revert",
    "/ofrep/v1/evaluate/flags/{flag_key}",
    "/ofrep/v1/evaluate/flags",
    "/v1/metrics",
    "/v1/metrics/{metric_key}",
    "/v1/experiments/{experiment_key}",
    "/v1/experiments/{experiment_key}/results",
    "/v1/experiments/{experiment_key}/results/explain",
    "/v1/experiments",
    "/v1/planner",
    "/v1/experiments/{experiment_key}/checklist",
    "/v1/experiments/{experiment_key}/start",
    "/v1/experiments/{experiment_key}/variant",
    "/v1/variants",
    "/v1/experiments/{experiment_key}/phases",
    "/v1/events",
    "/v1/events/batch",
    "/v1/events/counts",
    "/v1/experiments/{experiment_key}/stop",
    "/v1/experiments/{experiment_key}/reopen",
    "/v1/experiments/{experiment_key}/archive",
    "/v1/experiments/{experiment_key}/unarchive",
    "/v1/users/{user_id}",
    "/v1/environments",
    "/v1/environments/{environment_key}",
    "/v1/keys",
    "/v1/keys/{key_id}",
    "/v1/keys/{key_id}/revoke",
    "/v1/hooks/{hook_id}",
    "/v1/audit",
)
_METHODS = ("post", "get", "patch", "delete")


def introduce(document: dict[str, Any]) -> None:
    """Add the introduction, and put operations in order."""
    introduction = settings.BASE_DIR / "templates" / "docs" / "introduction.md"
    document["info"]["description"] = introduction.read_text(encoding="utf-8")
    document["tags"] = [{"name": name, "description": description} for name, description in TAGS.items()]
    methods = document["paths"]
    document["paths"] = {path: _in_order(methods[path]) for path in sorted(methods, key=PATHS.index)}


def _in_order(operations: dict[str, Any]) -> dict[str, Any]:
    return {method: operations[method] for method in sorted(operations, key=_METHODS.index)}
