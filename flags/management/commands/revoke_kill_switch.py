"""`manage.py revoke_kill_switch`: revoke a kill switch, whose token is refused at once."""

from __future__ import annotations

from config.management.operator import RevokeCommand
from flags.changes.kill_switches import revoke_kill_switch
from flags.models import KillSwitch


class Command(RevokeCommand):
    help = "Revoke a kill switch permanently. Requests with its token are refused at once."
    model, listing = KillSwitch, "list_kill_switches"
    revoke = staticmethod(revoke_kill_switch)
