from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0041_relay_cluster'),
    ]

    operations = [
        migrations.AddField(
            model_name='queuepartition',
            name='lost_from',
            field=models.BigIntegerField(db_default=None, default=None, editable=False, help_text='Where the topic ended when it was found to have lost what was read of it: from there on its offsets are those of other messages. Until a person adopts it.', null=True),
        ),
    ]
