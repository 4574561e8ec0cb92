"""Where the event streams of this host are served, as far as the process knows."""

from __future__ import annotations

port: int | None = None
"""Set in each worker of a server that has streams."""
