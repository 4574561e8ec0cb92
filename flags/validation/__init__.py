"""How flags and segments may be written: it checks decoded JSON, and names every wrong field. Pure: no Django.

`flags.engine` compiles and evaluates what has passed these checks.
"""
