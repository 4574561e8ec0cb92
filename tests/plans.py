"""What the planner of a database knows of the rows of a test, whatever tests came before it."""

from __future__ import annotations

from django.db import connection, models

from config.database.engines import is_distributed


def analyze(*tables: type[models.Model]) -> None:
    """Gather the statistics of tables, and leave out what earlier tests have undone.

    Rows that were rolled back stay in the indexes, and make one that has few rows look expensive to read.
    """
    with connection.cursor() as cursor:
        for table in tables:
            if connection.vendor == "postgresql" and not is_distributed():
                cursor.execute(f"REINDEX TABLE {table._meta.db_table}")
            cursor.execute(f"ANALYZE {table._meta.db_table}")
