"""Sessions in the database, looked up by nothing but keys that this service can have given out."""

from __future__ import annotations

from typing import Any

from django.contrib.sessions.backends import db


class SessionStore(db.SessionStore):
    """Django's, which would ask PostgreSQL for a key with U+0000 in it, and fail."""

    def _validate_session_key(self, key: Any) -> bool:
        is_possible = super()._validate_session_key(key)  # type: ignore[misc]  # not in the stubs
        return bool(is_possible) and key.isascii() and key.isalnum()
