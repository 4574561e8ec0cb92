"""Recording events: each event once, and all events of a call in one transaction."""
