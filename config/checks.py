"""System checks of the settings: values that are invalid, and values that are insecure with `DEBUG`
off.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.exceptions import ImproperlyConfigured

from config.models import Scope

_MIN_SECRET_LENGTH = 50
_MAX_DAYS = 36_500
_MIN_DAYS_OF_CHANGES = 30
_MAX_SECONDS = 1_000_000
"""PostgreSQL counts milliseconds in 31 bits."""
_MIN_TOKEN_LENGTH = 20
_OPTIONS_OF_DJANGO = {"assume_role", "isolation_level", "pool", "server_side_binding", "service", "passfile"}
_HOST = re.compile(r"\*|\.?[^\s/:@\[\]]+|\[[0-9a-fA-F:.]+\]")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")
"""What RFC 6750 allows after `Bearer`."""


@register(Tags.security)
def check_anonymous_scope(**_: Any) -> list[CheckMessage]:
    choices = ["none", *Scope.values]
    if settings.ANONYMOUS_SCOPE in choices:
        return []
    return [Error(f"ANONYMOUS_SCOPE must be one of {', '.join(choices)}.", id="halyard.E001")]


@register()
def check_threads(**_: Any) -> list[CheckMessage]:
    return [] if settings.THREADS >= 1 else [Error("THREADS must be 1 or more.", id="halyard.E003")]


@register()
def check_timeouts(**_: Any) -> list[CheckMessage]:
    """Without limits, threads could be blocked for ever. With a limit of 0, most requests would be too late."""
    of_database = ("DATABASE_TIMEOUT", "DATABASE_LONG_TIMEOUT", "DATABASE_CONNECT_TIMEOUT", "DATABASE_IDLE_TIMEOUT")
    wrong = [name for name in ("BODY_TIMEOUT", *of_database) if not 1 <= getattr(settings, name) <= _MAX_SECONDS]
    return [Error(f"{name} must be 1 to {_MAX_SECONDS:,} (in seconds).", id="halyard.E006") for name in wrong]


@register()
def check_database_options(**_: Any) -> list[CheckMessage]:
    """Check the options after `?` in an address, which the driver refuses only when it connects."""
    if "postgresql" not in settings.DATABASES["default"]["ENGINE"]:
        return []
    from psycopg.pq import Conninfo  # noqa: PLC0415 (only for PostgreSQL)

    known = {option.keyword.decode() for option in Conninfo.get_defaults()} | _OPTIONS_OF_DJANGO
    return [
        Error(f"{setting} has the option {name}, which is unknown.", id="halyard.E014")
        for setting, alias in (("DATABASE_URL", "default"), ("REPLICA_URL", "replica"))
        for name in settings.DATABASES.get(alias, {}).get("OPTIONS", {}).keys() - known
    ]


@register()
def check_event_retention(**_: Any) -> list[CheckMessage]:
    if settings.EVENT_RETENTION_DAYS is None or 1 <= settings.EVENT_RETENTION_DAYS <= _MAX_DAYS:
        return []
    return [Error(f"EVENT_RETENTION_DAYS must be 1 to {_MAX_DAYS:,}, or unset.", id="halyard.E005")]


@register()
def check_rate_limits(**_: Any) -> list[CheckMessage]:
    negative = [name for name in ("RATE_LIMIT_KEY", "RATE_LIMIT_ADDRESS") if getattr(settings, name) < 0]
    return [Error(f"{name} must be 1 or more, or 0 for no limit.", id="halyard.E009") for name in negative]


@register(Tags.security)
def check_log_in_limits(**_: Any) -> list[CheckMessage]:
    if settings.AXES_FAILURE_LIMIT >= 1 and settings.AXES_COOLOFF_TIME.total_seconds() >= 1:
        return []
    return [Error("LOGIN_FAILURE_LIMIT and LOGIN_LOCKOUT_MINUTES must be 1 or more.", id="halyard.E010")]


@register()
def check_log_format(**_: Any) -> list[CheckMessage]:
    return (
        []
        if settings.LOG_FORMAT in ("text", "json")
        else [Error("LOG_FORMAT must be text or json.", id="halyard.E007")]
    )


@register(Tags.security)
def check_trusted_proxies(**_: Any) -> list[CheckMessage]:
    wrong = [proxy for proxy in settings.TRUSTED_PROXIES if not _is_network(proxy)]
    message = "TRUSTED_PROXIES must list addresses or networks, such as 10.0.0.0/8; {!r} is neither."
    return [Error(message.format(proxy), id="halyard.E008") for proxy in wrong]


def _is_network(network: str) -> bool:
    try:
        ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
    return True


@register()
def check_change_retention(**_: Any) -> list[CheckMessage]:
    days = settings.CHANGE_RETENTION_DAYS
    if days is None or _MIN_DAYS_OF_CHANGES <= days <= _MAX_DAYS:
        return []
    words = f"CHANGE_RETENTION_DAYS must be {_MIN_DAYS_OF_CHANGES} to {_MAX_DAYS:,}, or unset."
    return [Error(words, id="halyard.E011")]


@register()
def check_stream_url(**_: Any) -> list[CheckMessage]:
    if not settings.STREAM_URL or _is_address(settings.STREAM_URL):
        return []
    return [Error("STREAM_URL must be an address such as https://flags.example.com.", id="halyard.E004")]


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    has_more = parts.query or parts.fragment or "@" in parts.netloc
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not has_more


@register(Tags.security)
def check_allowed_hosts(**_: Any) -> list[CheckMessage]:
    """Names with a scheme, port or path match no `Host` header, so every request would be refused."""
    wrong = [name for name in settings.ALLOWED_HOSTS if not _HOST.fullmatch(name)]
    message = (
        "ALLOWED_HOSTS must list names without a scheme, a port or a path, such as flags.example.com, and not {!r}."
    )
    return [Error(message.format(name), id="halyard.E012") for name in wrong]


@register(Tags.security)
def check_metrics_token(**_: Any) -> list[CheckMessage]:
    if not settings.METRICS_TOKEN or _TOKEN.fullmatch(settings.METRICS_TOKEN):
        return []
    return [Error("METRICS_TOKEN must have only letters, digits and -._~+/=, as HTTP wants it.", id="halyard.E013")]


@register(Tags.security, deploy=True)
def check_production_settings(**_: Any) -> list[CheckMessage]:
    """Name each insecure setting with its remedy. Django's own deployment checks cover the others."""
    insecure = {
        "SECRET_KEY": (len(_secret_key()) < _MIN_SECRET_LENGTH, "set it to 50 random characters or more"),
        "ALLOWED_HOSTS": (
            not settings.ALLOWED_HOSTS or "*" in settings.ALLOWED_HOSTS,
            "list the host names that clients use",
        ),
        "ANONYMOUS_SCOPE": (settings.ANONYMOUS_SCOPE != "none", "unset it, so that every caller needs a key"),
        "CORS_ALLOWED_ORIGINS": ("*" in settings.CORS_ALLOWED_ORIGINS, "list the origins of your web sites"),
        "METRICS_TOKEN": (
            0 < len(settings.METRICS_TOKEN) < _MIN_TOKEN_LENGTH,
            f"set it to {_MIN_TOKEN_LENGTH} random characters or more, or unset it",
        ),
        "SECURE_SSL_REDIRECT": (not settings.SECURE_SSL_REDIRECT, "leave it on, because every request carries a key"),
        "SECURE_HSTS_SECONDS": (settings.SECURE_HSTS_SECONDS <= 0, "leave it at its default of one year"),
        "SESSION_COOKIE_SECURE": (not settings.SESSION_COOKIE_SECURE, "leave it on"),
        "CSRF_COOKIE_SECURE": (not settings.CSRF_COOKIE_SECURE, "leave it on"),
    }
    return [
        Error(f"{name} is insecure with DEBUG off: {remedy}.", id="halyard.E002")
        for name, (is_insecure, remedy) in insecure.items()
        if is_insecure
    ]


def _secret_key() -> str:
    try:
        return str(settings.SECRET_KEY)
    except ImproperlyConfigured:  # Django raises it for an empty key
        return ""
