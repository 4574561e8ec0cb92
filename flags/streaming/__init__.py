"""Event streams that notify clients of changes: an ASGI application that runs in its own process."""
