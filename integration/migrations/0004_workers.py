"""How many runs share the partitions of a queue, and when one of them last wanted help."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0003_waiting_for_objects'),
    ]

    operations = [
        migrations.AddField(
            model_name='queue',
            name='help_wanted_at',
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name='queue',
            name='workers',
            field=models.PositiveSmallIntegerField(blank=True, help_text='Inbound continuous: how many runs share its partitions; empty = one for each.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(64)]),
        ),
    ]
