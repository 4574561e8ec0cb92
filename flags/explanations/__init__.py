"""Evaluations, rules and changes explained: as JSON, step by step, and in words. Pure: no page, no database."""
