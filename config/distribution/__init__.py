"""Spreading the tables that grow with users over the workers of a Citus coordinator."""
