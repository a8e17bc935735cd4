from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0020_bulk_run_wish'),
    ]

    operations = [
        migrations.AddField(
            model_name='bulkrun',
            name='sent_at',
            field=models.DateTimeField(help_text='when it was last sent to the Spark driver', null=True),
        ),
        migrations.AddField(
            model_name='bulkrun',
            name='deaths',
            field=models.PositiveIntegerField(db_default=0, default=0, help_text='drivers that died under it since a person last asked for it'),
        ),
        migrations.AddField(
            model_name='bulkrun',
            name='instance',
            field=models.BigIntegerField(help_text='the cron instance that asked for it', null=True),
        ),
        migrations.AddIndex(
            model_name='bulkrun',
            index=models.Index(condition=models.Q(('state__in', ['ASKED', 'RUNNING'])), fields=['asked_at'], name='bulk_run_open'),
        ),
    ]
