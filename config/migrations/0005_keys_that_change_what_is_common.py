from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("config", "0004_epoch")]

    operations = [
        # Keys that exist keep what they may do, and so do keys that a process of the release before makes meanwhile.
        migrations.AddField(model_name="apikey", name="may_change_common", field=models.BooleanField(db_default=True)),
        migrations.AlterField(
            model_name="apikey", name="may_change_common", field=models.BooleanField(default=False, db_default=True)
        ),
    ]
