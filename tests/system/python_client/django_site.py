"""A Django project whose only application is the one that the guide shows."""

from __future__ import annotations

import os
import signal
import sys

from django.conf import settings
from django.core.management import execute_from_command_line

settings.configure(
    SECRET_KEY="for-one-test",
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF="shop.urls",
    MIDDLEWARE=["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"],
    INSTALLED_APPS=["shop.apps.ShopConfig"],
    HALYARD_URL=os.environ["HALYARD_URL"],
    HALYARD_KEY=os.environ["HALYARD_KEY"],
)

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # as the servers of deployments end
    execute_from_command_line(sys.argv)
