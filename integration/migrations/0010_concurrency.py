"""What of a batch is through where handler transactions run side by side, and their sessions."""

import django.contrib.postgres.fields
import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0009_rescue'),
    ]

    operations = [
        migrations.AddField(
            model_name='batchlog',
            name='ended_at',
            field=models.DateTimeField(help_text='Of a batch that is committed in parts: when the last one was so far.', null=True),
        ),
        migrations.AddField(
            model_name='partitionlease',
            name='thread_backend_starts',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.DateTimeField(), db_default=[], default=list, editable=False, size=None),
        ),
        migrations.AddField(
            model_name='partitionlease',
            name='thread_pids',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), db_default=[], default=list, editable=False, size=None),
        ),
        migrations.AddField(
            model_name='queuepartition',
            name='done_offsets',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), db_default=[], default=list, editable=False, size=None),
        ),
        migrations.AddField(
            model_name='queuepartition',
            name='open_arrival',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='queuepartition',
            name='open_from',
            field=models.BigIntegerField(help_text='Where the position was when that batch began.', null=True),
        ),
        migrations.AddField(
            model_name='queuepartition',
            name='open_until',
            field=models.BigIntegerField(help_text='The first offset behind it; at or beyond it nothing is done yet.', null=True),
        ),
        migrations.AlterField(
            model_name='queue',
            name='concurrency',
            field=models.PositiveIntegerField(default=1, help_text='Continuous: how many messages of different keys are in work at once.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(64)]),
        ),
    ]
