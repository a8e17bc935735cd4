"""When the idle queues of a provider were last watched."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0004_workers'),
    ]

    operations = [
        migrations.AddField(
            model_name='provider',
            name='idle_watched_at',
            field=models.DateTimeField(editable=False, null=True),
        ),
    ]
