"""What SQLite and PostgreSQL need beyond the ORM: locks, commit order, bulk inserts, consistent reads."""
