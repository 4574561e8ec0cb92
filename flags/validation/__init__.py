"""Checks of decoded JSON of flags and segments, which report every wrong field. Pure: no Django.

`flags.engine` compiles and evaluates what has passed.
"""
