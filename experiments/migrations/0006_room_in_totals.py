from django.db import migrations


def set_room(percentage):
    """Totals are replaced again and again. With room beside them on their page, no index has to learn of it."""

    def alter(apps, schema_editor):
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(f"ALTER TABLE experiments_usertotal SET (fillfactor = {percentage})")

    return alter


class Migration(migrations.Migration):
    dependencies = [("experiments", "0005_shorter_totals")]

    operations = [migrations.RunPython(set_room(85), set_room(100))]
