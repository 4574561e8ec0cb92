"""Halyard's own clients: their sources, the packages that are built of them, and the page that serves these."""
