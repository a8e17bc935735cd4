from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0025_hung_calls'),
    ]

    operations = [
        migrations.AddField(
            model_name='configurationchange',
            name='is_access',
            field=models.BooleanField(db_default=False, default=False, help_text='Nothing was changed by it.'),
        ),
        migrations.AlterField(
            model_name='configurationchange',
            name='action',
            field=models.CharField(help_text='What was done, such as create.', max_length=20),
        ),
        migrations.AddIndex(
            model_name='configurationchange',
            index=models.Index(condition=models.Q(('is_access', False)), fields=['-at', '-id'], name='configuration_changes'),
        ),
        migrations.AddIndex(
            model_name='configurationchange',
            index=models.Index(fields=['actor', '-at', '-id'], name='configuration_by_actor'),
        ),
        migrations.AddIndex(
            model_name='configurationchange',
            index=models.Index(fields=['action', '-at', '-id'], name='configuration_by_action'),
        ),
    ]
