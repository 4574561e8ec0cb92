"""What the ORM lacks on SQLite and PostgreSQL.

Text of SQL stands here alone, except for what `manage.py doctor` asks a server about itself.
"""
