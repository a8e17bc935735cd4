"""Where people want a queue to stop."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0005_idle_watch'),
    ]

    operations = [
        migrations.AddField(
            model_name='queuepartition',
            name='stop_at',
            field=models.BigIntegerField(help_text='No record at or beyond this offset is applied; the queue is paused there.', null=True),
        ),
        migrations.AddField(
            model_name='queuepartition',
            name='stop_request',
            field=models.BigIntegerField(help_text='The decision that asks for it: a QueueChange, as long as it is kept.', null=True),
        ),
    ]
