"""Shared by the tests with Halyard's own clients in JavaScript: their packages, applications and an experiment."""
