from django.db import migrations


def report(apps, schema_editor):
    """Nothing before knows of imports; what was imported has been reported by somebody."""
    apps.get_model("experiments", "Exposure").objects.filter(origin__in=["imported", "told"]).update(origin="reported")


class Migration(migrations.Migration):
    dependencies = [("experiments", "0010_calibrations")]

    operations = [migrations.RunPython(migrations.RunPython.noop, report)]
