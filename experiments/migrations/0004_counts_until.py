from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0003_data_that_looks_wrong")]

    operations = [
        migrations.AddField("experiment", "counts_until", models.DateTimeField(default=None, editable=False, null=True))
    ]
