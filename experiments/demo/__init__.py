"""The demo: an invented shop with its flags, experiments and users, written by the service's own functions."""
