from django.db import migrations


class Migration(migrations.Migration):
    """Arrival numbers come from one sequence of the database, so that they have one order."""

    dependencies = [("integration", "0001_initial")]
    operations = [
        migrations.RunSQL(
            "CREATE SEQUENCE integration_arrival AS bigint",
            "DROP SEQUENCE integration_arrival",
        )
    ]
