from django.db import migrations

FIGURES = ("y", "d", "x", "events", "foreign")

# The figure at a place, counted from 0, and the column that is made of several.
SQL = {
    "postgresql": ("COALESCE(figures[{} + 1], 0)", ", ", "ARRAY[{}]::float8[]"),
    "sqlite": ("COALESCE(json_extract(figures, '$[{}]'), 0)", " || ',' || ", "'[' || {} || ']'"),
}


def kept(definition):
    """The figures that a metric has by what it is; all others are 0."""
    denominator = definition["denominator"]
    is_in_currency = definition["currency"] or (denominator and denominator["currency"])
    return ["y", "d" if denominator else "x", "events", *(["foreign"] if is_in_currency else [])]


def shorten(definitions):
    """Where the figures that stay are in the longer row."""
    for place, definition in enumerate(definitions):
        yield from (place * len(FIGURES) + FIGURES.index(name) for name in kept(definition))


def lengthen(definitions):
    """Where the figures of the longer row are in the shorter one; None stands for 0."""
    at = 0
    for definition in definitions:
        names = kept(definition)
        yield from (at + names.index(name) if name in names else None for name in FIGURES)
        at += len(names)


def rearrange(places):
    def migrate(apps, schema_editor):
        connection = schema_editor.connection
        figure, between, row = SQL[connection.vendor]
        experiments = apps.get_model("experiments", "Experiment").objects.exclude(definitions=[])
        for experiment in experiments.filter(totals__isnull=False).distinct():
            figures = ("0" if at is None else figure.format(at) for at in places(experiment.definitions))
            with connection.cursor() as cursor:
                cursor.execute(
                    f"UPDATE experiments_usertotal SET figures = {row.format(between.join(figures))} "  # noqa: S608 (no data)
                    "WHERE experiment_id = %s",
                    [experiment.pk if connection.vendor == "postgresql" else experiment.pk.hex],
                )

    return migrate


class Migration(migrations.Migration):
    dependencies = [("experiments", "0004_fold_afresh")]

    operations = [migrations.RunPython(rearrange(shorten), rearrange(lengthen))]
