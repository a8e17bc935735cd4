from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0024_decisions_stay'),
    ]

    operations = [
        migrations.AddField(
            model_name='queuepartition',
            name='marked_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='queuepartition',
            name='suspect_hung',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='partitionlease',
            name='overdue',
            field=models.BooleanField(db_default=False, default=False, help_text='A call has taken longer than the handler timeout.'),
        ),
    ]
