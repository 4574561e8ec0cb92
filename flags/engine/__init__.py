"""The flag engine: it compiles and evaluates flags that have passed `flags.validation`.

It imports nothing of the project and no framework, because Halyard's Python client contains these modules.
"""
