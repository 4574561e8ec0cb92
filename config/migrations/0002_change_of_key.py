from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("config", "0001_initial")]

    operations = [
        migrations.AddIndex(
            model_name="change",
            index=models.Index(fields=["kind", "key", "-revision"], name="change_of_key"),
        ),
    ]
