from django.db import migrations, models

from config.database.online_indexes import AddIndexOnline


class Migration(migrations.Migration):
    atomic = False  # so that the index of a table with millions of rows blocks no writer
    dependencies = [("experiments", "0018_more_room_in_totals")]

    operations = [
        AddIndexOnline(
            model_name="exposure",
            index=models.Index(
                condition=models.Q(("attributes__isnull", False)),
                fields=["experiment"],
                name="exposure_with_attributes",
            ),
        ),
    ]
