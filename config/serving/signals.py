"""What a worker process of `manage.py serve` tells the apps, which `config.serving.worker` does not know.

Where the event streams of this host are served, as far as the process knows."""

from __future__ import annotations

from django.dispatch import Signal

worker_starts = Signal()
"""Sent before its first request: whoever needs a thread in each worker starts it."""
worker_ends = Signal()
"""Sent after its last request was answered: whoever holds what is not stored yet stores it. It must not take long."""


port: int | None = None
"""Set in each worker of a server that has streams."""
