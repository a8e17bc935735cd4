from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0044_relay_provider_as_of'),
    ]

    operations = [
        migrations.AddField(
            model_name='seenmessage',
            name='topic_uuid',
            field=models.CharField(db_default='', default='', help_text='Empty: not remembered yet then.', max_length=36),
        ),
    ]
