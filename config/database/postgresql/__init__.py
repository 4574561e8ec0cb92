"""Django's PostgreSQL backend, with a health check of connections that needs no query."""
