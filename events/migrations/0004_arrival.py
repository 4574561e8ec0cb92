from django.db import migrations, models
from django.db.models import Value

import config.database.commit_order


class Migration(migrations.Migration):
    dependencies = [
        ("config", "0004_epoch"),
        ("events", "0003_count_what_is_there"),
    ]

    operations = [
        # What is there gets a constant first: with the number of a transaction, PostgreSQL would write every row anew.
        migrations.AddField(
            model_name="event",
            name="arrival",
            field=config.database.commit_order.ArrivalField(db_default=Value(0)),
        ),
        migrations.AlterField(
            model_name="event",
            name="arrival",
            field=config.database.commit_order.ArrivalField(),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["arrival"], name="event_by_arrival"),
        ),
    ]
