"""Recording events: each of them once, and all events of a call in one transaction."""
