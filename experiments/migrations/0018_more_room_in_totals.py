from django.db import migrations


def set_room(**percentages):
    """A refresh rewrites many totals of a page, and all sums of it. With room for both, no index has to learn of it."""

    def alter(apps, schema_editor):
        if schema_editor.connection.vendor == "postgresql":
            for table, percentage in percentages.items():
                schema_editor.execute(f"ALTER TABLE experiments_{table} SET (fillfactor = {percentage})")

    return alter


class Migration(migrations.Migration):
    dependencies = [("experiments", "0017_totals_by_exposure")]

    operations = [
        migrations.RunPython(set_room(usertotal=70, variantsums=50), set_room(usertotal=85, variantsums=100)),
    ]
