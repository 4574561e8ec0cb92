"""Halyard's own clients: their sources, the packages built from them, and the page that serves these."""
