from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0042_lost_from'),
    ]

    operations = [
        migrations.AddField(
            model_name='queuepartition',
            name='suspect_receipt',
            field=models.BinaryField(help_text='At a JMS broker: what tells that message from all others. Another one may get its offset.', null=True),
        ),
    ]
