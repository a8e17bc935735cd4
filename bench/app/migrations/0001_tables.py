"""The benchmarks' tables; plain SQL, because no model of them is ever used."""

from django.db import migrations

from bench import statements


class Migration(migrations.Migration):
    dependencies = [("integration", "0001_initial")]
    operations = [migrations.RunSQL(statements.TABLES, statements.DROP_TABLES)]
