"""How large a record each queue's topic takes, so that publish() can refuse a larger one."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("integration", "0012_restores")]

    operations = [
        migrations.AddField(
            model_name="queue",
            name="topic_max_bytes",
            field=models.IntegerField(
                editable=False, help_text="The largest record the topic takes.", null=True
            ),
        ),
    ]
