import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0022_operation_stops'),
    ]

    operations = [
        migrations.AddField(
            model_name='bulkrun',
            name='queues',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, help_text='The queues it concerns; who may not know of one of them sees none of it.', size=None),
        ),
        migrations.AddField(
            model_name='bulkrun',
            name='sentinel',
            field=models.CharField(blank=True, default='', help_text="A file that the driver must be able to read, with this run's id in it.", max_length=500),
        ),
    ]
