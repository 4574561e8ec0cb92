"""Django's PostgreSQL, with connections that are looked at before use instead of asked."""
