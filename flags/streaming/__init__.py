"""Event streams that tell clients when to ask again: an ASGI application, run in a process of its own."""
