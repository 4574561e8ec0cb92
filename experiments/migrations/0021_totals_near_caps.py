from django.db import migrations, models

from config.database.online_indexes import AddIndexOnline


class Migration(migrations.Migration):
    atomic = False  # so that the index of a table with millions of rows blocks no writer
    dependencies = [("experiments", "0020_near_caps")]

    operations = [
        AddIndexOnline(
            model_name="usertotal",
            index=models.Index(condition=models.Q(("is_near_cap", True)), fields=["experiment"], name="total_near_cap"),
        ),
    ]
