"""Signatures: those of the specification's own example, and with several secrets."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from config.webhooks.signing import new_secret, sign

# From the documentation of Standard Webhooks' reference libraries.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
AT = datetime.fromtimestamp(1614265330, tz=UTC)
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_sign__example_of_the_specification__has_its_signature() -> None:
    headers = sign("msg_p5jXN8AQM9LWM0D4loKWxJek", AT, BODY, [SECRET])
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": SIGNATURE,
    }


def test_sign__with_two_secrets__has_a_signature_by_each() -> None:
    first, second = SECRET, new_secret()
    both = sign("msg_p5jXN8AQM9LWM0D4loKWxJek", AT, BODY, [second, first])["webhook-signature"].split(" ")
    assert both[1] == SIGNATURE
    assert both[0] == sign("msg_p5jXN8AQM9LWM0D4loKWxJek", AT, BODY, [second])["webhook-signature"]


def test_new_secret__each__has_32_random_bytes() -> None:
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert {len(base64.b64decode(secret.removeprefix("whsec_"))) for secret in secrets} == {32}
