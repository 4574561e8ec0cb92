"""System checks: a production server refuses to start, and names each insecure setting."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import Error, run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import override_settings

from config.checks import (
    check_allowed_hosts,
    check_database_options,
    check_event_retention,
    check_log_format,
    check_metrics_token,
    check_stream_url,
    check_threads,
    check_timeouts,
    check_trusted_proxies,
)

SECURE = {
    "DEBUG": False,
    "SECRET_KEY": "".join(chr(33 + at * 7 % 90) for at in range(60)),
    "ALLOWED_HOSTS": ["flags.example.com"],
    "ANONYMOUS_SCOPE": "none",
    "CORS_ALLOWED_ORIGINS": [],
    "METRICS_TOKEN": "",
    "SECURE_SSL_REDIRECT": True,
    "SECURE_HSTS_SECONDS": 31536000,
    "SESSION_COOKIE_SECURE": True,
    "CSRF_COOKIE_SECURE": True,
}


@pytest.fixture
def production(settings: Any) -> Any:
    """The settings of a server that may start; a test makes one of them worse."""
    for name, value in SECURE.items():
        setattr(settings, name, value)
    return settings


def complaints() -> list[Any]:
    return [complaint for complaint in run_checks(include_deployment_checks=True) if not complaint.is_silenced()]


def test_check__secure_settings__finds_nothing(production: Any) -> None:
    assert complaints() == []


def test_check__one_insecure_setting__is_an_error_that_names_it(subtests: pytest.Subtests, production: Any) -> None:
    for name, value in [
        ("SECRET_KEY", ""),
        ("SECRET_KEY", "x" * 49),
        ("ALLOWED_HOSTS", []),
        ("ALLOWED_HOSTS", ["*"]),
        ("ALLOWED_HOSTS", ["flags.example.com", "*"]),
        ("ANONYMOUS_SCOPE", "client"),
        ("ANONYMOUS_SCOPE", "manage"),
        ("CORS_ALLOWED_ORIGINS", ["*"]),
        ("METRICS_TOKEN", "x" * 19),
        ("SECURE_SSL_REDIRECT", False),
        ("SECURE_HSTS_SECONDS", 0),
        ("SECURE_HSTS_SECONDS", -1),
        ("SESSION_COOKIE_SECURE", False),
        ("CSRF_COOKIE_SECURE", False),
    ]:
        with subtests.test(name=name, value=value), override_settings(**{name: value}):
            errors = [
                complaint
                for complaint in complaints()
                if isinstance(complaint, Error) and complaint.id == "halyard.E002"
            ]
            assert [error.msg.partition(" ")[0] for error in errors] == [name]
            with pytest.raises(SystemCheckError, match=f"{name} is insecure with DEBUG off"):
                call_command("serve", port=0)


def test_check__secret_key_of_one_character__is_refused_by_django(production: Any) -> None:
    production.SECRET_KEY = "x" * 60
    with pytest.raises(SystemCheckError, match="SECRET_KEY"):
        call_command("serve", port=0)


def test_check__several_insecure_settings__are_all_named(production: Any) -> None:
    production.SECURE_SSL_REDIRECT = False
    production.ANONYMOUS_SCOPE = "server"
    with pytest.raises(SystemCheckError) as refused:
        call_command("serve", port=0)
    assert "SECURE_SSL_REDIRECT" in str(refused.value)
    assert "ANONYMOUS_SCOPE" in str(refused.value)


@pytest.mark.parametrize("debug", [True, False])
def test_check__unknown_scope_for_anonymous_callers__is_refused_always(production: Any, debug: bool) -> None:
    production.DEBUG = debug
    production.ANONYMOUS_SCOPE = "everything"
    with pytest.raises(SystemCheckError, match="ANONYMOUS_SCOPE must be one of none, client, server, manage"):
        call_command("serve", port=0)


@pytest.mark.parametrize(("threads", "is_refused"), [(1, False), (4, False), (0, True), (-1, True)])
def test_check__threads__are_one_or_more(settings: Any, threads: int, is_refused: bool) -> None:
    settings.THREADS = threads
    assert bool(check_threads()) is is_refused


def test_check__timeouts__are_what_postgresql_can_count(subtests: pytest.Subtests) -> None:
    for seconds, is_refused in [(1, False), (0, True), (-1, True), (1_000_001, True)]:
        for name in [
            "BODY_TIMEOUT",
            "DATABASE_TIMEOUT",
            "DATABASE_LONG_TIMEOUT",
            "DATABASE_CONNECT_TIMEOUT",
            "DATABASE_IDLE_TIMEOUT",
        ]:
            with subtests.test(name=name, seconds=seconds), override_settings(**{name: seconds}):
                assert [error.msg for error in check_timeouts()] == [
                    f"{name} must be 1 to 1,000,000 (in seconds)."
                ] * is_refused


def test_check__allowed_host__is_a_name_alone(subtests: pytest.Subtests, settings: Any) -> None:
    for name, is_refused in [
        ("flags.example.com", False),
        (".example.com", False),
        ("127.0.0.1", False),
        ("[::1]", False),
        ("*", False),
        ("https://flags.example.com", True),
        ("flags.example.com:443", True),
        ("flags.example.com/", True),
        ("a b", True),
        ("::1", True),
    ]:
        with subtests.test(name=name, is_refused=is_refused):
            settings.ALLOWED_HOSTS = ["good.example.com", name]
            assert [repr(name) in error.msg for error in check_allowed_hosts()] == [True] * is_refused


@pytest.mark.parametrize(("token", "is_refused"), [("", False), ("aZ09-._~+/=", False), ("a b", True), ("ä", True)])
def test_check__token_of_metrics__can_be_sent_in_a_header(settings: Any, token: str, is_refused: bool) -> None:
    settings.METRICS_TOKEN = token
    assert bool(check_metrics_token()) is is_refused


def test_check__option_of_the_database__is_known_to_it(
    subtests: pytest.Subtests, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = {"ENGINE": "config.database.postgresql", "OPTIONS": {}}
    monkeypatch.setitem(settings.DATABASES, "default", database)
    for option, is_refused in [("sslmode", False), ("pool", False), ("sslmod", True)]:
        for alias, setting in [("default", "DATABASE_URL"), ("replica", "REPLICA_URL")]:
            with subtests.test(option=option, alias=alias), monkeypatch.context() as patch:
                patch.setitem(settings.DATABASES, alias, {**database, "OPTIONS": {option: "x"}})
                assert [error.msg for error in check_database_options()] == [
                    f"{setting} has the option {option}, which is unknown."
                ] * is_refused


def test_check__retention_of_events__is_a_day_or_more_or_for_ever(subtests: pytest.Subtests, settings: Any) -> None:
    for days, is_refused in [(None, False), (1, False), (36_500, False), (0, True), (-1, True), (36_501, True)]:
        with subtests.test(days=days, is_refused=is_refused):
            settings.EVENT_RETENTION_DAYS = days
            assert bool(check_event_retention()) is is_refused


@pytest.mark.parametrize("url", ["", "https://flags.example.com", "http://10.0.0.1:8001/", "https://example.com/flags"])
def test_check__address_of_streams__may_be_any_that_a_client_can_open(settings: Any, url: str) -> None:
    settings.STREAM_URL = url
    assert check_stream_url() == []


def test_check__address_of_streams__that_is_none_is_an_error(subtests: pytest.Subtests, settings: Any) -> None:
    for url in [
        "flags.example.com",
        "//flags.example.com",
        "wss://flags.example.com",
        "https://",
        "https://[",
        "https://a?b=c",
        "https://a:99999",
        "https://u:p@a",
    ]:
        with subtests.test(url=url):
            settings.STREAM_URL = url
            assert ["STREAM_URL" in complaint.msg for complaint in check_stream_url()] == [True]


@pytest.mark.parametrize(("form", "is_refused"), [("text", False), ("json", False), ("xml", True)])
def test_check__format_of_the_log__is_text_or_json(settings: Any, form: str, is_refused: bool) -> None:
    settings.LOG_FORMAT = form
    assert bool(check_log_format()) is is_refused


@pytest.mark.parametrize(("proxy", "is_refused"), [("10.0.0.0/8", False), ("::1", False), ("proxy.local", True)])
def test_check__trusted_proxies__are_addresses_or_networks(settings: Any, proxy: str, is_refused: bool) -> None:
    settings.TRUSTED_PROXIES = ["127.0.0.1", proxy]
    assert bool(check_trusted_proxies()) is is_refused
