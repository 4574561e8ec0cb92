"""The app's entry in INSTALLED_APPS."""

from django.apps import AppConfig


class EventsConfig(AppConfig):
    name = "events"
