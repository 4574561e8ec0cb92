from django.db import migrations, models

import config.documents


class Migration(migrations.Migration):
    dependencies = [("experiments", "0019_exposure_with_attributes")]

    operations = [
        migrations.AddField(
            model_name="aggregatestate",
            name="bounds",
            field=models.JSONField(decoder=config.documents.StoredJSONDecoder, default=None, null=True),
        ),
        migrations.AddField(
            model_name="usertotal",
            name="is_near_cap",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
