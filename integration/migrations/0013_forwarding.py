import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0012_shards'),
    ]

    operations = [
        migrations.AddField(
            model_name='operation',
            name='systems',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), help_text='The external systems that whoever let it run is limited to; empty = none.', null=True, size=None),
        ),
        migrations.AddField(
            model_name='outboxrow',
            name='timestamp_ms',
            field=models.BigIntegerField(help_text="The record's time in Kafka; empty = when it is written there.", null=True),
        ),
        migrations.AlterField(
            model_name='operation',
            name='verb',
            field=models.CharField(choices=[('release', 'Release'), ('hold', 'Hold'), ('delete', 'Delete'), ('restore', 'Restore'), ('edit', 'Edit'), ('send back', 'Send back')], max_length=10),
        ),
        migrations.AlterField(
            model_name='operationitem',
            name='outcome',
            field=models.CharField(blank=True, choices=[('DONE', 'DONE'), ('WRONG_STATE', 'WRONG_STATE'), ('MOVED_ON', 'MOVED_ON'), ('GONE', 'GONE'), ('IN_WORK', 'IN_WORK'), ('LATE', 'LATE'), ('INVALID', 'INVALID'), ('REFUSED', 'REFUSED'), ('UNCHANGED', 'UNCHANGED')], help_text='empty = its turn has not come yet', max_length=12),
        ),
    ]
