from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0001_first_release")]

    operations = [
        migrations.AddField("experiment", "counts_until", models.DateTimeField(default=None, editable=False, null=True))
    ]
