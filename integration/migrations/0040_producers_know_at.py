from django.db import migrations, models


# What waits at this moment was to begin without regard to what producers know.
WAIT_FOR_PRODUCERS = """
UPDATE integration_queuepartition
SET producers_know_at = clock_timestamp() + interval '600 seconds' WHERE begins_after IS NOT NULL
"""


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0039_budget_since'),
    ]

    operations = [
        migrations.AddField(
            model_name='queuepartition',
            name='producers_know_at',
            field=models.DateTimeField(db_default=None, default=None, editable=False, help_text='Of such a partition: from when on producers know of it. Until then they may write its keys to the others, whose ends are read anew afterwards; then this is empty.', null=True),
        ),
        migrations.RunSQL(WAIT_FOR_PRODUCERS, migrations.RunSQL.noop),
    ]
