"""Sets up Django when it is imported. A module whose other imports need models imports it first."""

from __future__ import annotations

import os

import django
from django.conf import settings
from django.core import signals
from django.core.cache import close_caches
from django.db import reset_queries

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)
# Django cleans these up around each request. Nothing here uses them, and it takes a twentieth of a
# request's time.
signals.request_finished.disconnect(close_caches)
if not settings.DEBUG:
    signals.request_started.disconnect(reset_queries)
