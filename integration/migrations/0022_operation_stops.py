from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0021_bulk_run_sending'),
    ]

    operations = [
        migrations.AddField(
            model_name='operation',
            name='stop_after',
            field=models.PositiveIntegerField(help_text='It pauses by itself when so many that it released failed again.', null=True),
        ),
        migrations.AddField(
            model_name='operation',
            name='stop_base',
            field=models.PositiveIntegerField(help_text='How many were released before that.', null=True),
        ),
        migrations.AddField(
            model_name='operation',
            name='stop_from',
            field=models.DateTimeField(help_text='Since when failures are counted for it: its start, or resumption.', null=True),
        ),
        migrations.AddField(
            model_name='operation',
            name='stop_share',
            field=models.PositiveSmallIntegerField(help_text='The same for so many percent of those released.', null=True),
        ),
    ]
