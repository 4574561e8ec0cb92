"""Connect `flags` to the start and end of a worker, and register its maintenance."""

from __future__ import annotations

from config.management import maintenance
from config.serving.worker_process import worker_ends, worker_starts
from flags.usage import sample_storage as recent_users
from flags.usage import storage

worker_starts.connect(storage.start, dispatch_uid="flags.usage")
worker_ends.connect(storage.end, dispatch_uid="flags.usage")
maintenance.register("usage of flags", storage.delete_old)
maintenance.register("recent users", recent_users.clean)
