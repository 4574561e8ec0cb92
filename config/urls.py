"""All URLs of the service."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path, register_converter
from django.urls.converters import StringConverter
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularRedocView, SpectacularSwaggerSplitView

from config.admin.accounts import change_own_password
from config.admin.failure_pages import handler400, handler403, handler404, handler500  # noqa: F401 (Django's names)
from config.api.environment_views import EnvironmentViewSet
from config.api.history_views import AuditViewSet
from config.api.key_views import KeyViewSet
from config.api.schema_view import SchemaView
from config.guide.views import redirect_to_guide, show_page, show_search_index
from events.api.counts import CountViewSet
from events.api.erasure import UserViewSet
from events.api.event_views import EventViewSet
from experiments.api.experiment_views import ChecklistViewSet, ExperimentViewSet
from experiments.api.metric_views import MetricViewSet
from experiments.api.planner_views import PlannerViewSet
from experiments.api.result_views import ResultViewSet
from flags.api.evaluation_views import EvaluationViewSet
from flags.api.flag_views import FlagHistoryViewSet, FlagViewSet
from flags.api.kill_switches import KillSwitchViewSet
from flags.api.previews import PreviewViewSet
from flags.api.promotion import PromotionViewSet
from flags.api.rulesets import RulesetViewSet
from flags.api.segment_views import SegmentViewSet
from flags.api.usage import UsageViewSet
from flags.clients.views import download, show_clients
from flags.ofrep.views import OfrepViewSet


class TextConverter(StringConverter):
    """Any text of the client, including slashes and line breaks."""

    regex = r"[\s\S]+"


register_converter(TextConverter, "text")

urlpatterns = [
    # These come first because Django tries patterns in order, and clients call these most.
    path("ofrep/v1/evaluate/flags", OfrepViewSet.as_view({"post": "evaluate_all"})),
    path("ofrep/v1/evaluate/flags/<path:flag_key>", OfrepViewSet.as_view({"post": "evaluate"})),
    path("v1/flags/<str:flag_key>/evaluate", EvaluationViewSet.as_view({"post": "evaluate"})),
    path("v1/evaluate", EvaluationViewSet.as_view({"post": "evaluate_all"})),
    path("v1/events", EventViewSet.as_view({"get": "list", "post": "create"})),
    path("v1/events/batch", EventViewSet.as_view({"post": "batch"})),
    path("v1/experiments/<str:experiment_key>/variant", ExperimentViewSet.as_view({"post": "variant"})),
    path("v1/variants", ExperimentViewSet.as_view({"post": "variants"})),
    path("v1/flags", FlagViewSet.as_view({"get": "list", "post": "create"})),
    path(
        "v1/flags/<str:flag_key>",
        FlagViewSet.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
    ),
    path("v1/flags/<str:flag_key>/explain", EvaluationViewSet.as_view({"post": "explain"})),
    path("v1/flags/<str:flag_key>/history", FlagHistoryViewSet.as_view({"get": "list"})),
    path("v1/flags/<str:flag_key>/preview", PreviewViewSet.as_view({"post": "preview"})),
    path("v1/flags/<str:flag_key>/usage", UsageViewSet.as_view({"get": "retrieve"})),
    path("v1/flags/<str:flag_key>/revert", FlagViewSet.as_view({"post": "revert"})),
    path("v1/flags/<str:flag_key>/archive", FlagViewSet.as_view({"post": "archive"})),
    path("v1/flags/<str:flag_key>/restore", FlagViewSet.as_view({"post": "restore"})),
    path("v1/promote", PromotionViewSet.as_view({"post": "promote"})),
    path("v1/ruleset", RulesetViewSet.as_view({"get": "retrieve"})),
    path("v1/segments", SegmentViewSet.as_view({"get": "list", "post": "create"})),
    path(
        "v1/segments/<str:segment_key>",
        SegmentViewSet.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
    ),
    path("v1/segments/<str:segment_key>/revert", SegmentViewSet.as_view({"post": "revert"})),
    path("v1/segments/<str:segment_key>/users", SegmentViewSet.as_view({"post": "change_users"})),
    path("v1/metrics", MetricViewSet.as_view({"get": "list", "post": "create"})),
    path(
        "v1/metrics/<str:metric_key>",
        MetricViewSet.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
    ),
    path("v1/experiments", ExperimentViewSet.as_view({"get": "list", "post": "create"})),
    path(
        "v1/experiments/<str:experiment_key>",
        ExperimentViewSet.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
    ),
    path("v1/experiments/<str:experiment_key>/checklist", ChecklistViewSet.as_view({"get": "list"})),
    path("v1/experiments/<str:experiment_key>/start", ExperimentViewSet.as_view({"post": "start"})),
    path("v1/experiments/<str:experiment_key>/stop", ExperimentViewSet.as_view({"post": "stop"})),
    path("v1/experiments/<str:experiment_key>/phases", ExperimentViewSet.as_view({"post": "open_phase"})),
    path("v1/experiments/<str:experiment_key>/reopen", ExperimentViewSet.as_view({"post": "reopen"})),
    path("v1/experiments/<str:experiment_key>/archive", ExperimentViewSet.as_view({"post": "archive"})),
    path("v1/experiments/<str:experiment_key>/unarchive", ExperimentViewSet.as_view({"post": "unarchive"})),
    path("v1/experiments/<str:experiment_key>/results", ResultViewSet.as_view({"get": "retrieve"})),
    path("v1/experiments/<str:experiment_key>/results/explain", ResultViewSet.as_view({"get": "explain"})),
    path("v1/planner", PlannerViewSet.as_view({"get": "retrieve"})),
    path("v1/events/counts", CountViewSet.as_view({"get": "retrieve"})),
    path("v1/users/<text:user_id>", UserViewSet.as_view({"delete": "destroy"})),
    path("v1/environments", EnvironmentViewSet.as_view({"get": "list", "post": "create"})),
    path(
        "v1/environments/<str:environment_key>",
        EnvironmentViewSet.as_view({"get": "retrieve", "patch": "partial_update"}),
    ),
    path("v1/keys", KeyViewSet.as_view({"get": "list", "post": "create"})),
    path("v1/keys/<str:key_id>", KeyViewSet.as_view({"get": "retrieve", "patch": "partial_update"})),
    path("v1/keys/<str:key_id>/revoke", KeyViewSet.as_view({"post": "revoke"})),
    path("v1/hooks/<str:hook_id>", KillSwitchViewSet.as_view({"post": "switch_off"})),
    path("v1/audit", AuditViewSet.as_view({"get": "list"})),
    path("v1/schema", SchemaView.as_view(), name="schema"),
    path("docs", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="docs"),
    path("redoc", SpectacularRedocView.as_view(url_name="schema"), name="redoc"),
    path("clients/", show_clients, name="clients"),
    path("clients/<str:name>", download, name="client-package"),
    path("guide", redirect_to_guide),
    path("guide/", show_page, name="guide"),
    path("guide/search.json", show_search_index, name="guide-search"),
    path("guide/<path:address>", show_page, name="guide-page"),
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/password_change/", admin.site.admin_view(change_own_password, cacheable=True)),
    path("admin/", admin.site.urls),
    path("", RedirectView.as_view(pattern_name="admin:index")),
]
