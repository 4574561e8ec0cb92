"""Feature flags and segments: their rules, the engine that evaluates them, and the APIs and pages to manage them."""
