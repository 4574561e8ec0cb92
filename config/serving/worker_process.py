"""The worker process that apps run in: its start, its end, and the port of the event streams.

Outside of `manage.py serve`, no signal is sent and there is no port.
"""

from __future__ import annotations

from django.dispatch import Signal

worker_starts = Signal()
"""Sent before the first request. A receiver that needs a thread in each worker starts it."""
worker_ends = Signal()
"""Sent after the last response. A receiver stores what it still holds in memory, and must be quick.
"""

stream_port: int | None = None
"""The port on which this host serves event streams. `config.serving.worker` sets it in each worker.
"""
