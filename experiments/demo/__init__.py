"""The demo: the flags, experiments and users of an invented shop, written by the service's own functions."""
