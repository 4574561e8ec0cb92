"""The event stream in an answer: an address that the client can reach, with its own token."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import RequestFactory

from config.serving import worker_process
from flags.ofrep import tokens
from flags.ofrep.client_state import Offer, newest_revision, origin
from tests.conftest import NOON

OFFER = Offer("http://testserver:8001", "production", "17", 51)


@pytest.fixture(autouse=True)
def _own_port(monkeypatch):
    monkeypatch.setattr(worker_process, "stream_port", 8001)


def test_origin__of_a_request_without_tls__is_its_host_at_the_port_of_the_streams(subtests, settings):
    settings.ALLOWED_HOSTS = ["*"]
    for host, address in [
        ("testserver", "http://testserver:8001"),
        ("testserver:8000", "http://testserver:8001"),
        ("127.0.0.1:8000", "http://127.0.0.1:8001"),
        ("[::1]:8000", "http://[::1]:8001"),
    ]:
        with subtests.test(host=host, address=address):
            assert origin(RequestFactory().post("/", HTTP_HOST=host)) == address


def test_origin__of_a_request_over_tls__is_unknown():
    assert origin(RequestFactory().post("/", secure=True)) is None


def test_origin__where_no_streams_are_served__is_unknown(monkeypatch):
    monkeypatch.setattr(worker_process, "stream_port", None)
    assert origin(RequestFactory().post("/")) is None


def test_origin__that_an_operator_has_set__is_that(subtests, settings, monkeypatch):
    for url in ["https://flags.example.com", "https://flags.example.com/"]:
        for port in [None, 8001]:
            for secure in [True, False]:
                with subtests.test(url=url, port=port, secure=secure):
                    settings.STREAM_URL = url
                    monkeypatch.setattr(worker_process, "stream_port", port)
                    assert origin(RequestFactory().post("/", secure=secure)) == "https://flags.example.com"


def test_offer__made__is_a_stream_of_the_environment_with_a_token_for_it():
    [stream] = [stream.as_json() for stream in OFFER.streams(NOON)]
    assert stream.keys() == {"type", "url", "inactivityDelaySec"}
    assert (stream["type"], stream["inactivityDelaySec"]) == ("sse", 120)
    parts = urlsplit(stream["url"])
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == "http://testserver:8001/ofrep/v1/streams/production"
    [token] = parse_qs(parts.query, strict_parsing=True)["token"]
    ticket = tokens.read(token, environment="production", now=NOON)
    assert (ticket.key_id, ticket.since) == ("17", NOON)


def test_offer__made_again__is_the_same_for_a_while_so_that_nobody_opens_the_stream_anew():
    assert (
        OFFER.streams(NOON)
        == OFFER.streams(NOON + timedelta(minutes=29))
        != OFFER.streams(NOON + timedelta(minutes=30))
    )


def test_offer__identity__changes_with_all_that_a_client_must_not_go_on_with():
    later = NOON + tokens.PERIOD
    identity = OFFER.identity(NOON)
    assert identity == OFFER.identity(NOON + timedelta(minutes=1))
    assert identity not in [
        OFFER.identity(later),
        Offer("http://testserver:8002", "production", "17", 51).identity(NOON),
        Offer("http://testserver:8001", "production", "18", 51).identity(NOON),
        Offer("http://testserver:8001", "production", "17", 52).identity(NOON),
    ]


def test_offer__identity_under_another_secret__is_another_since_tokens_are_good_no_more(settings):
    identity = OFFER.identity(NOON)
    settings.SECRET_KEY = "another-secret-" * 5
    assert OFFER.identity(NOON) != identity


def test_newest_revision__of_what_clients_repeat__is_the_newest_that_is_one():
    for values, revision in [
        (["51"], 51), (['"51"'], 51), (['W/"51"'], 51), (["51.1771622898"], 51), (['"51.1771622898"'], 51),
        ([" 51 "], 51), (["7", "51", "x"], 51), ([], 0), ([""], 0), (["-1"], 0), (["51x"], 0), (["5 1"], 0),
        (["9" * 19], 0), (["\u0665\u0661"], 0), (["550e8400-e29b-41d4-a716-446655440000"], 0), (["\0"], 0),
    ]:  # fmt: skip
        assert newest_revision(values) == revision, (values, revision)
