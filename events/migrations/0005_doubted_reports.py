from django.db import migrations, models

from config.database.online_indexes import AddIndexOnline


class Migration(migrations.Migration):
    atomic = False  # as indexes that are added online need

    dependencies = [
        ("config", "0005_keys_that_change_what_is_common"),
        ("events", "0004_arrival"),
    ]

    operations = [
        migrations.AddField(
            model_name="event",
            name="is_doubted",
            field=models.BooleanField(editable=False, null=True),
        ),
        AddIndexOnline(
            model_name="event",
            index=models.Index(
                condition=models.Q(is_doubted=True),
                fields=["environment", "experiment", "timestamp"],
                name="event_doubted",
            ),
        ),
    ]
