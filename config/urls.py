"""Every address of the service."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView, SpectacularRedocView, SpectacularSwaggerView

from events.views import EventViewSet
from experiments.views import ExperimentViewSet
from flags.views import FlagViewSet

urlpatterns = [
    path("v1/flags", FlagViewSet.as_view({"get": "list", "post": "create"})),
    path(
        "v1/flags/<str:flag_key>",
        FlagViewSet.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
    ),
    path("v1/flags/<str:flag_key>/evaluate", FlagViewSet.as_view({"post": "evaluate"})),
    path("v1/experiments", ExperimentViewSet.as_view({"get": "list", "post": "create"})),
    path(
        "v1/experiments/<str:experiment_key>",
        ExperimentViewSet.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
    ),
    path("v1/experiments/<str:experiment_key>/start", ExperimentViewSet.as_view({"post": "start"})),
    path("v1/experiments/<str:experiment_key>/stop", ExperimentViewSet.as_view({"post": "stop"})),
    path("v1/experiments/<str:experiment_key>/variant", ExperimentViewSet.as_view({"post": "variant"})),
    path("v1/events", EventViewSet.as_view({"get": "list", "post": "create"})),
    path("v1/events/batch", EventViewSet.as_view({"post": "batch"})),
    path("v1/schema", SpectacularAPIView.as_view(), name="schema"),
    path("docs", SpectacularSwaggerView.as_view(url_name="schema"), name="docs"),
    path("redoc", SpectacularRedocView.as_view(url_name="schema"), name="redoc"),
    path("admin/", admin.site.urls),
    path("", RedirectView.as_view(pattern_name="admin:index")),
]
