"""Django's SQLite backend, with transactions that wait for the one writer in a line."""
