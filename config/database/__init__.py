"""What the ORM lacks on SQLite and PostgreSQL: locks, commit order, group commit, bulk inserts,
consistent reads.
"""
