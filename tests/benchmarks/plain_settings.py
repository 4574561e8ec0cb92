"""Settings of a new project with Django REST framework, on the database of the service and its connections."""

from config.settings import *  # noqa: F403 (for the models of the service)
from config.settings import DATABASES

DATABASES["default"]["ENGINE"] = "django.db.backends.postgresql"

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
REST_FRAMEWORK: dict[str, object] = {}
ROOT_URLCONF = "tests.benchmarks.plain"
SECURE_SSL_REDIRECT = False
SESSION_ENGINE = "django.contrib.sessions.backends.db"
