"""What one writes first with Django REST framework, on the same tables: a create view, and one with `get_or_create`."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import include, path
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.serializers import CharField, ModelSerializer, Serializer
from rest_framework.views import APIView
from rest_framework.viewsets import ModelViewSet
from uuid_utils.compat import uuid7

from config.models import Environment
from events.models import Event
from experiments.models import Experiment, Exposure, Origin, Status

production = Environment.objects.get(key="production")


class EventSerializer(ModelSerializer):
    class Meta:
        model = Event
        fields = ("id", "user_id", "name", "properties")
        read_only_fields = ("id",)


class EventViewSet(ModelViewSet):
    queryset = Event.objects.all()
    serializer_class = EventSerializer

    def perform_create(self, serializer: Any) -> None:
        now = timezone.now()
        serializer.save(id=uuid7(), environment_id=production.pk, timestamp=now, received_at=now)


class UserSerializer(Serializer):
    userId = CharField(max_length=200)


class VariantView(APIView):
    def post(self, request: Request, key: str) -> Response:
        experiment = get_object_or_404(Experiment, environment=production, key=key, status=Status.RUNNING)
        serializer = UserSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        user_id = serializer.validated_data["userId"]
        exposure, _ = Exposure.objects.get_or_create(
            experiment_id=experiment.pk,
            user_id=user_id,
            defaults={
                "variant": experiment.variant_keys[hash(user_id) % 2],
                "exposed_at": timezone.now(),
                "origin": Origin.ASSIGNED,
            },
        )
        return Response({"variant": exposure.variant, "experimentId": exposure.experiment_id})


router = SimpleRouter()
router.register("events", EventViewSet)
urlpatterns = [path("experiments/<str:key>/variant/", VariantView.as_view()), path("", include(router.urls))]
