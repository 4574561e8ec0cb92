"""The flag engine: it checks, compiles and evaluates flags. It is pure: no Django, no DRF, no database."""
