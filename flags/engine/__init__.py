"""The pure flag engine: rules in, decisions out. Nothing here knows Django, DRF or the database."""
