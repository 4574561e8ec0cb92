"""The app's entry in INSTALLED_APPS."""

from django.apps import AppConfig


class FlagsConfig(AppConfig):
    name = "flags"
