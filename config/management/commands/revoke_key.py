"""`manage.py revoke_key`: revoke an API key, which is refused from the next request on."""

from __future__ import annotations

from config.access.api_keys import revoke_key
from config.management.operator import RevokeCommand
from config.models import ApiKey


class Command(RevokeCommand):
    help = "Revoke an API key permanently. Requests with it are refused at once."
    model, listing = ApiKey, "list_keys"
    revoke = staticmethod(revoke_key)
