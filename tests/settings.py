"""Settings of the tests: as in production, regardless of `.env`, with the database of DATABASE_URL."""

import os
import tempfile

os.environ.update(
    ENV_FILE=os.devnull,
    DEBUG="false",
    SECRET_KEY="only-for-tests-" * 5,
    ALLOWED_HOSTS="testserver,localhost,127.0.0.1",
    SECURE_SSL_REDIRECT="false",
    SESSION_COOKIE_SECURE="false",
    CSRF_COOKIE_SECURE="false",
    CORS_ALLOWED_ORIGINS="https://shop.example",
    ANONYMOUS_SCOPE="none",
    RUNTIME_DIR=tempfile.mkdtemp(prefix="halyard-tests-"),
)
os.environ.setdefault("DATABASE_URL", "sqlite://:memory:")

from config.settings import *  # noqa: F403 (the environment has to be set first)

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
if DATABASES["default"]["NAME"] == ":memory:":  # noqa: F405
    DATABASES["default"]["TEST"] = {"NAME": ":memory:"}  # noqa: F405 (or pytest-django would give each process a file)
# The two suites run side by side in `.ci/run`, and must not create each other's database.
elif suite := os.environ.get("TEST_SUITE"):
    DATABASES["default"]["TEST"] = {"NAME": f"test_{DATABASES['default']['NAME']}_{suite}"}  # noqa: F405
# Every test client loads the middleware again, which would look for all static files each time.
WHITENOISE_AUTOREFRESH = True
# Transactions that could wait for each other in a circle are found by every test that takes locks.
CHECK_LOCK_ORDER = True
