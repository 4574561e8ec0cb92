from django.db import migrations, models

from config.database.online_indexes import AddIndexOnline


class Migration(migrations.Migration):
    atomic = False  # so that the index of a table with millions of rows blocks no writer
    dependencies = [("experiments", "0016_several_since")]

    operations = [
        AddIndexOnline(
            model_name="usertotal",
            index=models.Index(fields=["experiment", "exposed_at"], name="total_by_exposure"),
        ),
    ]
