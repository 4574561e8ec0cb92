"""What the ORM lacks on SQLite and PostgreSQL, and all text of SQL: no other room runs any."""
