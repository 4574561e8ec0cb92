"""Explanations of evaluations: the answers that hold them, and the code that makes them. Pure: no Django."""
